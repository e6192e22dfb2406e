/*
 * consumer_rest.c
 *		The consumer rests while a limit of the whole database is reached: while a volume is nearly full
 *		(config/free_disk.h), and, as long as the consumer reads an archive, while the requests or bytes of
 *		an hour are used up (net/hour.h).
 *
 * A resting consumer is in ATP_STATE_WAITING, without a connection, and the cursor stays: the server sends the
 * events after the cursor when the consumer goes on, which it does by itself.
 */
#include "postgres.h"

#include "config/extension.h"
#include "config/free_disk.h"
#include "config/transaction.h"
#include "net/hour.h"
#include "process/consumer/consumer_private.h"

/* NULL: nothing forbids to receive. */
static const char *
why_not(const Consumer *c)
{
	const char *why = atp_free_disk_fault(atp_now());

	return why == NULL && atp_consumer_has_history(c) ? atp_hour_fault(true) : why;
}

static void
watch_disks(const Consumer *c)
{
	atp_begin("looking for the tablespaces of the tables");
	if (atp_extension_lock() == ATP_EXTENSION_READY)
		atp_free_disk_watch(c->sub->target);
	atp_commit();
	atp_consumer_report(c);
}

static void
begin_rest(Consumer *c, const char *why)
{
	int			failures = c->failures;

	if (c->conn != NULL)
		atp_consumer_drop(c, ATP_DROP_LIMIT, why);
	else
	{
		why = pstrdup(why);
		atp_consumer_history_drop(c);
		atp_status_error(ATP_DROP_LIMIT, why);
		atp_consumer_note(c, ATP_LOGGED_DROPPED, why);
		ereport(LOG, (errmsg("atproto subscription \"%s\" rests: %s", c->name, why)));
		if (c->state != ATP_STATE_WAITING)
			atp_consumer_is_waiting(c, 0);
	}
	/* the server has done nothing wrong */
	c->failures = failures;
	c->rests = true;
}

bool
atp_consumer_rests(Consumer *c)
{
	const char *why;

	if (atp_free_disk_watch_due(atp_now()))
		watch_disks(c);
	why = why_not(c);
	if (why != NULL && !c->rests)
		begin_rest(c, why);
	else if (why == NULL && c->rests)
	{
		c->rests = false;
		c->waiting_until = atp_now();
	}
	return c->rests;
}
