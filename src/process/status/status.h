/*
 * status.h
 *		Live status of the consumers, in shared memory if the library is preloaded;
 *		otherwise no other session can see the status.
 *
 * A slot belongs to the id of a subscription: a new subscription with the name of a removed one shows none of the errors and
 * counts of the removed one.  A slot is plain data, without pointers or descriptors.  A consumer writes its own slot; readers copy
 * slots under the lock.
 */
#ifndef ATP_STATUS_H
#define ATP_STATUS_H

#include "postgres.h"

#include "config/stream_request.h"
#include "config/subscription.h"
#include "datatype/timestamp.h"
#include "net/drop.h"
#include "stream/batch.h"

/* The states of a consumer: doc/operate/consumer.md describes the shown states, consumer_state.c has the transitions. */
typedef enum AtpState
{
	ATP_STATE_STARTING,
	ATP_STATE_CONNECTING,
	ATP_STATE_STREAMING,
	ATP_STATE_HISTORY,			/* the archive is read before the stream */
	ATP_STATE_WAITING,			/* between two connections, or after a crash */
	ATP_STATE_ENDED,			/* the process is gone */
	/* In the following states, other processes see the state before. */
	ATP_STATE_UNDECIDED,		/* a message waits for later messages (ATP_DROP_CLOCK) */
	ATP_STATE_FLUSHING,			/* decoded events are being committed */
	ATP_STATE_STOPPING,			/* the subscription is being stopped; an operator will have to decide */
	ATP_STATE_LEAVING			/* the process ends */
} AtpState;

/* From _PG_init(): registers the shared memory and the setting for its size. */
extern void atp_status_init(void);

/*
 * From now on, an ERROR or FATAL that ends this process becomes the last error of the subscription.  Also
 * works before connecting to a database.
 */
extern void atp_status_report_end(Oid database, Oid owner, const char *id, const char *name);

/*
 * A subscription of this database could not be started: record the reason as the last error, and for the log
 * of the next process.
 */
extern void atp_status_not_started(const AtpSubscription *sub, const char *error);

/*
 * The error that ended the previous process, palloc'd, and its time; NULL: no error, or unknown.  Each error
 * is returned once.
 */
extern char *atp_status_failure(const char *id, const char *name, TimestampTz *at);

/* Use the slot of this subscription; private memory if there is no free slot in shared memory. */
extern void atp_status_attach(const char *id, const char *name);

/* All changes of the own slot go through the following functions. */
extern void atp_status_target(const char *target);
extern void atp_status_state(AtpState state);

/*
 * Set whether this consumer lets a faster source of its target process events first.  Takes effect only if
 * another consumer of the target is streaming and follows no source; ends when this consumer's state changes.
 */
extern void atp_status_follows(bool follows);
extern bool atp_status_is_second(void);
extern void atp_status_error(AtpDrop drop, const char *error);

/* Record which filters and compression the connection's request asks for. */
extern void atp_status_request(const AtpStreamRequest *request, bool compressed);
extern void atp_status_received(int64 messages, int64 bytes);
extern void atp_status_batch(const int64 *skips);
extern void atp_status_skips(const int64 *skips);	/* skips outside of a batch */

/*
 * Each page is a connection of its own: rate and time of catching up go on from page to page, until the consumer follows a
 * stream again.
 */
extern void atp_status_by_pages(bool by_pages);

/*
 * Count events about to be applied; time is the time in the last event (0: none).  True: the stream has
 * caught up.
 */
extern bool atp_status_note_lag(int64 time, int64 events);

/*
 * M-31: how current the tables of a directory's log are.  waits: the process begins to wait for the stream, and all that has come is
 * committed; false: the process has stopped waiting.  The second function: a batch was committed whose last entry is of this time
 * (0: none).
 */
extern void atp_status_waits(bool waits);
extern void atp_status_committed(TimestampTz time);

/* How many slots there are, and how many are used, by the subscriptions of all databases. */
extern int	atp_status_slots(void);
extern int	atp_status_slots_used(void);

/* Has this subscription of the current database a process? */
extern bool atp_status_has_process(const char *id);

/* Free the slots of a dropped database. */
extern void atp_status_forget(Oid database);

/* Free the slots of this database whose subscription is not in the list. */
extern void atp_status_keep(List *subscriptions);

#endif							/* ATP_STATUS_H */
