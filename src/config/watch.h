/*
 * watch.h
 *		Detects changes of atproto.subscription and of the extension.
 */
#ifndef ATP_WATCH_H
#define ATP_WATCH_H

#include "postgres.h"

/*
 * True once after each committed change of atproto.subscription or of the
 * extension itself (and at the first call).  Takes in pending invalidation
 * messages: cheap, no query.
 */
extern bool atp_config_changed(void);

/*
 * A number that differs after each change that atp_config_changed() tells of, for answers that are kept until then.  Messages
 * that a lock has brought count at once; no further messages are taken in.
 */
extern uint32 atp_config_changes(void);

/* Watch only this relation from now on; InvalidOid: any relation. */
extern void atp_config_watch(Oid relid);

#endif							/* ATP_WATCH_H */
