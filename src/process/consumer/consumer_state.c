/*
 * consumer_state.c
 *		The states of a consumer, and each transition between them. doc/operate/consumer.md says of
 *		each state that other processes see what the state waits for, and what ends the state.
 */
#include "postgres.h"

#include "pgstat.h"
#include "process/consumer/consumer_private.h"

#define FROM(state)		(1 << ATP_STATE_##state)
#define ANY				(~0)

static const struct
{
	int			from;			/* bit mask of the states before it */
	bool		shown;			/* shown to other processes; if not, these see the state before */
	bool		connected;		/* of shown states: a connection exists */
	const char *activity;		/* of shown states, for pg_stat_activity; NULL: the stream's text */
}			states[] = {
	[ATP_STATE_STARTING] = {.from = FROM(WAITING), .shown = true, .activity = "starting"},
	[ATP_STATE_HISTORY] = {.from = FROM(STARTING) | FROM(WAITING) | FROM(HISTORY), .shown = true, .activity = "reading the archive"},
	[ATP_STATE_WAITING] = {.from = FROM(STARTING) | FROM(FLUSHING), .shown = true, .activity = "waiting to reconnect"},
	[ATP_STATE_CONNECTING] = {.from = FROM(STARTING) | FROM(WAITING),
	.shown = true, .connected = true, .activity = "connecting"},
	[ATP_STATE_STREAMING] = {.from = FROM(CONNECTING) | FROM(UNDECIDED),
	.shown = true, .connected = true},
	[ATP_STATE_UNDECIDED] = {.from = FROM(STREAMING)},
	[ATP_STATE_FLUSHING] = {.from = FROM(STARTING) | FROM(WAITING) | FROM(HISTORY) | FROM(CONNECTING) | FROM(STREAMING) | FROM(UNDECIDED)},
	[ATP_STATE_STOPPING] = {.from = ANY & ~FROM(LEAVING)},
	[ATP_STATE_LEAVING] = {.from = ANY},
};

void
atp_consumer_report(const Consumer *c)
{
	const char *activity = states[c->shown].activity;

	pgstat_report_activity(STATE_IDLE, activity != NULL ? activity : c->activity);
}

static void
enter_state(Consumer *c, AtpState state)
{
	Assert((states[state].from & (1 << c->state)) != 0);
	c->state = state;
	if (!states[state].shown)
		return;
	Assert((c->conn != NULL) == states[state].connected);
	if (c->shown != state)
	{
		c->shown = state;
		atp_status_state(state);
	}
	atp_consumer_report(c);
}

void
atp_consumer_is_starting(Consumer *c)
{
	Assert(c->sub == NULL);
	enter_state(c, ATP_STATE_STARTING);
}

void
atp_consumer_is_waiting(Consumer *c, int delay_ms)
{
	c->waiting_until = atp_now() + (int64) delay_ms * 1000;
	enter_state(c, ATP_STATE_WAITING);
}

void
atp_consumer_is_reading(Consumer *c)
{
	enter_state(c, ATP_STATE_HISTORY);
}

void
atp_consumer_is_connecting(Consumer *c)
{
	/* a new connection begins after the cursor: events still in the batch would come twice */
	Assert(c->batch->nmessages == 0 && (c->shards == NULL || c->handed == c->cursor));
	enter_state(c, ATP_STATE_CONNECTING);
}

void
atp_consumer_is_streaming(Consumer *c)
{
	Assert(c->state == ATP_STATE_CONNECTING && atp_conn_state(c->conn) == ATP_CONN_OPEN);
	enter_state(c, ATP_STATE_STREAMING);
}

void
atp_consumer_is_undecided(Consumer *c, const char *why)
{
	Assert(c->batch->ndecoded < c->batch->nmessages);
	c->undecided_why = MemoryContextStrdup(c->conn_cxt, why);
	c->undecided_since = atp_now();
	enter_state(c, ATP_STATE_UNDECIDED);
}

void
atp_consumer_is_decided(Consumer *c)
{
	Assert(c->state == ATP_STATE_UNDECIDED);
	enter_state(c, ATP_STATE_STREAMING);
}

void
atp_consumer_is_flushing(Consumer *c)
{
	enter_state(c, ATP_STATE_FLUSHING);
}

/* Return from FLUSHING to the state before. */
void
atp_consumer_is_flushed(Consumer *c, AtpState before)
{
	Assert(c->state == ATP_STATE_FLUSHING && before == c->shown && c->batch->nmessages == 0);
	c->state = before;
	atp_consumer_report(c);
}

void
atp_consumer_is_stopping(Consumer *c)
{
	enter_state(c, ATP_STATE_STOPPING);
}

void
atp_consumer_is_leaving(Consumer *c)
{
	enter_state(c, ATP_STATE_LEAVING);
}
