/*
 * subscription_log.h
 *		The log of a subscription: atproto.subscription_event.
 *
 * The consumer notes events here at any time, and writes them in transactions of their own, while no
 * other transaction is open.  However often a server drops connections, the log is bounded in size and
 * in writes.  An event that happens again within a minute is counted in its existing row; so is any
 * event while there is no token for a new row (tokens: a few, and ten more each minute).  Counts are
 * written every ten seconds.
 *
 * When a process fails in the same way as the one before, its events are counted in the rows of the
 * first failure, whatever time has passed: otherwise a process failing for days would push all other
 * rows out of the log.
 */
#ifndef ATP_SUBSCRIPTION_LOG_H
#define ATP_SUBSCRIPTION_LOG_H

#include "postgres.h"

#include "common/clock.h"

typedef enum AtpLogged
{
	ATP_LOGGED_FAILED,			/* the process ended with an error, or the server crashed */
	ATP_LOGGED_STARTED,
	ATP_LOGGED_CONNECTED,
	ATP_LOGGED_CAUGHT_UP,
	ATP_LOGGED_SETTINGS,
	ATP_LOGGED_DROPPED,
	ATP_LOGGED_PAUSED,
	ATP_LOGGED_STOPPED,
	ATP_LOGGED_NODE,			/* a node of Citus has come back with older rows */
	ATP_LOGGED_ENDED,
	ATP_LOGGED_COUNT
} AtpLogged;

typedef struct AtpLog AtpLog;

/*
 * Create a log in the process's memory; name must outlive the log.  Only the process with the subscription's
 * claim may have one.
 */
extern AtpLog *atp_log_create(const char *name);

/* Note an event. detail: reason or server; NULL: none. seq: last event processed; -1: none. */
extern void atp_log_note(AtpLog *log, AtpLogged what, const char *detail, int64 seq);

/* Note an event that happened earlier. */
extern void atp_log_note_at(AtpLog *log, AtpLogged what, const char *detail, int64 seq, TimestampTz at);

/* Milliseconds until there is something to write; -1: nothing to write. */
extern long atp_log_due(const AtpLog *log);

/*
 * Write noted events; call outside of transactions.  Never waits for a session that has locked the
 * subscription's row: then the events are written later.
 */
extern void atp_log_write(AtpLog *log);

#endif							/* ATP_SUBSCRIPTION_LOG_H */
