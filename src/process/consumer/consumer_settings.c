/*
 * consumer_settings.c
 *		The consumer follows its subscription's row.
 */
#include "postgres.h"

#include "config/cursor.h"
#include "config/extension.h"
#include "config/owner.h"
#include "config/target.h"
#include "config/transaction.h"
#include "common/injection.h"
#include "miscadmin.h"
#include "process/consumer/consumer_private.h"
#include "tables/base/statements.h"
#include "tables/plc/plc_request.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

/* Use this row for all events after the cursor. */
static void
take_settings(Consumer *c, AtpSubscription *sub, MemoryContext cxt)
{
	if (c->sub == NULL)
	{
		c->statements = atp_statements_create(sub->target, 0);
		c->source = sub->source;
		c->decoder = atp_decoder_create(TopMemoryContext, c->source->format);
	}
	else
	{
		if (sub->version != c->sub->version)
		{
			ereport(LOG,
					(errmsg("settings of atproto subscription \"%s\" changed after event " INT64_FORMAT,
							c->name, c->cursor)));
			atp_consumer_note(c, ATP_LOGGED_SETTINGS, NULL);
		}
		MemoryContextDelete(c->cxt);
	}
	c->sub = sub;
	c->cxt = cxt;
	atp_status_target(sub->target);
	c->activity = MemoryContextStrdup(cxt, psprintf("streaming %s", sub->ep->scope));
	atp_decoder_settings(c->decoder, &sub->settings);
}

/* Start the workers, which read the settings at their start: so changed settings need new workers. */
static void
start_workers(Consumer *c, int n)
{
	/* give back the memory lent by the ring before the ring is freed */
	if (c->shards != NULL || n > 1)
		atp_batch_lend(c->batch, NULL);
	if (c->shards != NULL)
		atp_shards_end(c->shards);
	c->shards = NULL;
	if (n == 1)
		return;
	c->purge_due = false;		/* worker 0 purges */
	c->shards = atp_shards_start(c->sub, n, c->layout);
	if (c->shards == NULL)
	{
		ereport(LOG,
				(errcode(ERRCODE_INSUFFICIENT_RESOURCES),
				 errmsg("no background worker slot is free for a worker of atproto subscription \"%s\"", c->name),
				 errhint("Increase \"%s\".", "max_worker_processes")));
		atp_status_not_started(c->sub, "no background worker slot is free for its workers: increase max_worker_processes");
		atp_consumer_leave(c, "its workers cannot be started", true);
	}
}

void
atp_consumer_note_owner(void)
{
	atp_begin("noting the owner");
	if (atp_extension_lock() == ATP_EXTENSION_READY)
		atp_owner_note(GetUserId());
	atp_commit();
}

void
atp_consumer_read_settings(Consumer *c)
{
	MemoryContext cxt = AllocSetContextCreate(TopMemoryContext, "atproto subscription",
											  ALLOCSET_SMALL_SIZES);
	AtpSubscription *sub = NULL;
	AtpCursor	cursor = {0};
	AtpExtension extension;
	bytea	   *dictionary = NULL;
	char	   *fault = NULL;
	bool		changed = false;

	atp_begin("reading the subscription");
	extension = atp_extension_lock();
	/* until the cursor is locked, a session may change the target: then the row is read again, for the layout of the cursor */
	if (extension == ATP_EXTENSION_READY)
		do
		{
			sub = atp_subscription_get(c->name, cxt);
			if (sub == NULL || !sub->runnable)
				break;
			/* M-12: the log of another directory is read from its beginning, so that no operation before its stream is missed */
			if (sub->source->pages != NULL && sub->settings.ndids < 0)
				atp_cursor_make(c->name, sub->ep->scope, 0);
			cursor = atp_cursor_get(c->name, sub->ep->scope);
		} while (!atp_subscription_is_present(sub));
	if (sub != NULL && sub->runnable)
	{
		ATP_INJECTION_POINT("cursor read");
		changed = c->sub == NULL || sub->version != c->sub->version;
		/*
		 * a former consumer may have ended after its cursor passed the end of a gap, and before the gap was closed; or
		 * the flush before this call has moved the cursor
		 */
		atp_gap_close(c->name);
		if (changed && cursor.shards != sub->workers)
			cursor = atp_cursor_share(c->name, sub->ep->scope, sub->workers);
		if (changed)
			atp_cursor_settings(sub);
		if (changed && sub->source->pages != NULL)
			atp_plc_request_named(sub, false);	/* M-14 */
		if (sub->source->compress != NULL || sub->source->dictionary_nsid != NULL)
			dictionary = atp_dictionary_get(sub, c->loop_cxt);
		if ((fault = atp_target_fault(GetUserId(), sub->target, sub->target_owner)) == NULL && sub->source->by_repo && sub->settings.keep_raw)
			fault = atp_target_raw_fault(sub->target);
		if (fault != NULL)
			fault = MemoryContextStrdup(cxt, fault);
		c->gaps = atp_gap_watch(c->name, sub->ep->scope, cursor.lowest);
		/* other writers of the target see the row of atproto.history before the first row of the archive is applied */
		c->has_history = sub->has_archive;
		if (sub->has_archive)
		{
			atp_history_begin(c->name);
			c->has_history = atp_history_get(c->name, &c->history);
			/* H-05: without a position, the archive is read from its first row on */
			if (c->has_history && cursor.lowest < 0 && c->history.phase == ATP_HISTORY_PLAN)
			{
				atp_cursor_begin(c->name, sub->ep->scope, 0);
				cursor = atp_cursor_get(c->name, sub->ep->scope);
			}
		}
		c->states = sub->source->by_repo ? atp_target_relid(sub->target, "repo") : InvalidOid;
	}
	atp_commit();

	if (extension == ATP_EXTENSION_ABSENT)
		atp_consumer_leave(c, "the extension was dropped or changed", false);
	if (extension == ATP_EXTENSION_OTHER_VERSION)
		atp_consumer_leave(c, "the extension has another version than the library", false);
	if (extension == ATP_EXTENSION_OTHER_SCRIPT)
		atp_consumer_leave(c, "the extension was made by the install script of a different checkout than the library", false);
	if (sub == NULL)
		atp_consumer_leave(c, "it was removed", false);
	if (!sub->runnable)
	{
		atp_consumer_note_end(c, ATP_LOGGED_PAUSED, NULL);
		atp_consumer_leave(c, "it was paused", false);
	}
	if (strcmp(sub->id, c->id) != 0)
		atp_consumer_leave_to(c, sub, "another subscription has its name now");
	if (sub->owner != GetUserId())
		atp_consumer_leave_to(c, sub, "its owner changed");
	if (c->sub != NULL && (!atp_subscription_same_stream(sub, c->sub) || cursor.lowest != c->cursor ||
						   cursor.layout != c->layout))
		atp_consumer_leave(c, "its settings or its cursor changed", true);
	take_settings(c, sub, cxt);
	if (fault != NULL)
		atp_consumer_stop(c, fault);
	atp_consumer_take_dictionary(c, dictionary);
	c->cursor = c->handed = cursor.lowest;
	c->layout = cursor.layout;
	c->last_row = cursor.last_row;
	c->sub->settings.archived_until = c->has_history ? c->history.again_until : 0;
	/* at a changed level, held events may not have to wait any more, so look at all of them */
	if (changed)
		c->releaser = atp_releaser(0, 1, c->layout);
	c->logs.waits = true;
	c->logs.always = sub->workers > 1;	/* workers make requests, too */
	c->reshard_at = cursor.shards != sub->workers ? cursor.highest : -1;
	if (changed)
		start_workers(c, cursor.shards);
}
