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

/* Which limit forbids to receive, with the reason. */
static AtpRest
find_limit(const Consumer *c, const char **why)
{
	if ((*why = atp_free_disk_fault(atp_now())) != NULL)
		return ATP_REST_DISK;
	if (atp_consumer_has_history(c) && (*why = atp_hour_fault(true)) != NULL)
		return ATP_REST_HOUR;
	return ATP_REST_NONE;
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

/* Without a connection: nothing came, or an archive is being read. */
static void
rest_unconnected(Consumer *c, const char *reason)
{
	const char *why = pstrdup(reason);

	atp_consumer_history_drop(c);
	atp_status_error(ATP_DROP_LIMIT, why);
	atp_consumer_note(c, ATP_LOGGED_DROPPED, why);
	ereport(LOG, (errmsg("atproto subscription \"%s\" rests: %s", c->name, why)));
	if (c->state != ATP_STATE_WAITING)
		atp_consumer_is_waiting(c, 0);
}

bool
atp_consumer_rests(Consumer *c)
{
	const char *why;
	AtpRest		rest;
	int			failures = c->failures;

	if (atp_free_disk_watch_due(atp_now()))
		watch_disks(c);
	rest = find_limit(c, &why);
	if (rest == c->rest)
		return rest != ATP_REST_NONE;
	if (rest == ATP_REST_NONE)
		c->waiting_until = atp_now();
	else if (c->conn != NULL)
		atp_consumer_drop(c, ATP_DROP_LIMIT, why);
	else
		rest_unconnected(c, why);
	/* the server has done nothing wrong */
	c->failures = failures;
	c->rest = rest;
	return rest != ATP_REST_NONE;
}
