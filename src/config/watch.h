/*
 * watch.h
 *		Detects changes of atproto.subscription and of the extension, and of any relation.
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

/* Watch only this relation from now on; InvalidOid: any relation. */
extern void atp_config_watch(Oid relid);

/*
 * Call this function from now on for each changed relation, with InvalidOid if all relations may have changed.  The function
 * must raise no ERROR.  A second call with the same function does nothing.
 */
typedef void (*AtpRelationChanged) (Oid relid);
extern void atp_watch_relations(AtpRelationChanged changed);

#endif							/* ATP_WATCH_H */
