/*
 * status.h
 *		Live status of the consumers, in shared memory when the library is
 *		preloaded (only then can other sessions see it).
 *
 * Plain data only: no pointer, no descriptor.  A consumer writes its own slot;
 * readers copy it under the lock.
 */
#ifndef ATP_STATUS_H
#define ATP_STATUS_H

#include "postgres.h"

#include "config/stream_request.h"
#include "config/subscription.h"
#include "datatype/timestamp.h"
#include "net/drop.h"
#include "stream/batch.h"

/* What a consumer does: doc/consumer.md has the table, consumer_state.c the ways between them. */
typedef enum AtpState
{
	ATP_STATE_STARTING,
	ATP_STATE_CONNECTING,
	ATP_STATE_STREAMING,
	ATP_STATE_WAITING,			/* between two connections, or after a crash */
	ATP_STATE_ENDED,			/* the process is gone */
	/* in these, others see the state before */
	ATP_STATE_UNDECIDED,		/* a message waits for what comes after it (ATP_DROP_CLOCK) */
	ATP_STATE_SETTLING,			/* what was decoded is being committed */
	ATP_STATE_STOPPING,			/* an operator will have to decide */
	ATP_STATE_LEAVING			/* the process ends */
} AtpState;

/* From _PG_init(): its place in shared memory, and how large that is. */
extern void atp_status_init(void);

/*
 * From now on an ERROR or FATAL that ends this process is the last error of a
 * subscription.  Before there is a connection to the database, too.
 */
extern void atp_status_report_end(Oid database, Oid owner, const char *name);

/* A subscription of this database has no process, and this is why: its last error, and a row of its log when one starts. */
extern void atp_status_not_started(Oid owner, const char *name, const char *error);

/* The error that ended the process before this one, palloc'd, and when; NULL: none, or nobody knows.  Asked once. */
extern char *atp_status_failure(const char *name, TimestampTz *at);

/* This process's slot for the subscription; private memory when there is no shared one. */
extern void atp_status_attach(const char *name);

/* Every change of a slot goes through these. */
extern void atp_status_target(const char *target);
extern void atp_status_state(AtpState state);
/*
 * Whether it is the second of its target's sources, and waits for another one: only if one streams
 * that waits for nobody, and until its state changes.
 */
extern void atp_status_follows(bool follows);
extern bool atp_status_is_second(void);
extern void atp_status_error(AtpDrop drop, const char *error);
/* What the server of the present connection was asked to do by itself. */
extern void atp_status_request(const AtpStreamRequest *request, bool compressed);
extern void atp_status_received(int64 messages, int64 bytes);
extern void atp_status_batch(const int64 *skips);
extern void atp_status_skips(const int64 *skips);	/* without a batch of their own */
/* So many events are on their way into the tables, the last of which carries this time (0: none).  True: it has caught up. */
extern bool atp_status_pace(int64 time, int64 events);

/* Forget the slots of a database that is gone. */
extern void atp_status_forget(Oid database);

/* Forget the slots of this database whose subscription is not in the list. */
extern void atp_status_keep(List *subscriptions);

#endif							/* ATP_STATUS_H */
