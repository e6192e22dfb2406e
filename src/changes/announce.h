/*
 * announce.h
 *		Announcements to the output plugin in WAL, where the rows alone do not tell enough.
 *
 * Any role can write such an announcement, by pg_logical_emit_message().  So an announcement only says where to look: what a reader is
 * told comes from the row, or from the catalogs.
 */
#ifndef ATP_ANNOUNCE_H
#define ATP_ANNOUNCE_H

#include "postgres.h"

#include "replication/reorderbuffer.h"

struct AtpChanges;
struct AtpChangeTxn;

#define ATP_ANNOUNCE_PREFIX	"atproto"
#define ATP_ANNOUNCE_MAX	4096	/* longer than each announcement of the extension */

#define ATP_CHANGE_HANDLE	1
#define ATP_CHANGE_STATUS	2

/* The next change of the repository's row, in this transaction, changes the handle or the status (the above, as bits). */
extern void atp_announce_account(const struct varlena *did, int what);

/* This transaction drops a partition, or a whole table; called while the partition belongs to its table. */
extern void atp_announce_drop(Oid relid);

/* Announce each DROP TABLE. */
extern void atp_announce_init(void);

/* The plugin reads an announcement. */
extern void atp_hear_announcement(const struct AtpChanges *changes, struct AtpChangeTxn *txn, const char *text, Size n);

/*
 * Tell what was announced to be dropped, and is gone.  Called at the end of the transaction; before each change,
 * atp_tell_drops_in_time() does the same if the catalogs have changed.
 */
extern void atp_tell_drops(const struct AtpChanges *changes, struct AtpChangeTxn *txn);
extern void atp_tell_drops_in_time(const struct AtpChanges *changes, struct AtpChangeTxn *txn);

#endif							/* ATP_ANNOUNCE_H */
