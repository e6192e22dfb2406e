/*
 * subscription_log.h
 *		What happened to a subscription: atproto.subscription_event.
 *
 * Its consumer notes events here, at any time, and writes them in transactions of their own, when
 * none is open.  However often a server drops its connections, what is kept and what is written is
 * bounded: an event that happens again within a minute is counted in the row that it has already,
 * so is any for which there is no token left (a few, and ten more each minute), and counts are written
 * every ten seconds.  A failure that follows the same failure, with what each of them makes happen again, is
 * counted in the rows of the first ones, however long it takes.
 */
#ifndef ATP_SUBSCRIPTION_LOG_H
#define ATP_SUBSCRIPTION_LOG_H

#include "postgres.h"

#include "clock.h"

typedef enum AtpLogged
{
	ATP_LOGGED_FAILED,			/* its process ended with an error, or with the server */
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

/* In memory of the process; name outlives it.  One process at a time: who has claimed the subscription. */
extern AtpLog *atp_log_create(const char *name);

/* detail: why, or with whom; NULL: nothing more is known.  seq: last event; -1: none. */
extern void atp_log_note(AtpLog *log, AtpLogged what, const char *detail, int64 seq);

/* The same of a time that was before. */
extern void atp_log_note_at(AtpLog *log, AtpLogged what, const char *detail, int64 seq, TimestampTz at);

/* Milliseconds until there is something to write; -1: nothing. */
extern long atp_log_due(const AtpLog *log);

/* Write what was noted; outside of transactions.  It never waits for a session that has locked the subscription: then it stays. */
extern void atp_log_write(AtpLog *log);

#endif							/* ATP_SUBSCRIPTION_LOG_H */
