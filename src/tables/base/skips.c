/*
 * skips.c
 *		Counts of events and rows that were passed over, committed with a stream's cursor.
 */
#include "postgres.h"

#include "config/extension.h"
#include "config/transaction.h"
#include "fmgr.h"
#include "lib/stringinfo.h"
#include "tables/base/skips.h"
#include "types/types.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"

/*
 * The row is locked without waiting.  A session holding the lock may go on to lock tables already written by this
 * transaction (BEGIN; unsubscribe(); DROP SCHEMA): waiting would be a deadlock.
 */
static const AtpStatement add_skips = {
	"UPDATE atproto.cursor c SET skips = " ATP_SKIPS_SUM("c.skips", "$4::jsonb")
	" WHERE c.ctid = (SELECT k.ctid FROM atproto.cursor k WHERE k.subscription = $1 AND k.endpoint = $2 AND k.shard = $3"
	" FOR NO KEY UPDATE SKIP LOCKED)",
	SPI_OK_UPDATE, {ATP_TYPE_TEXT, ATP_TYPE_TEXT, ATP_TYPE_INT4, ATP_TYPE_TEXT}
};

static bool
any_skips(const int64 *skips)
{
	for (int i = 0; i < ATP_SKIP_COUNT; i++)
		if (skips[i] != 0)
			return true;
	return false;
}

bool
atp_skips_due(AtpSkipsWritten *w, const int64 *of_batch, const int64 *of_transaction, int64 *more)
{
	for (int i = 0; i < ATP_SKIP_COUNT; i++)
	{
		w->now[i] = of_batch[i] + of_transaction[i];
		more[i] = w->now[i] - w->before[i] + (w->uncounted != NULL ? w->uncounted[i] : 0);
	}
	return any_skips(more);
}

void
atp_skips_written(AtpSkipsWritten *w, bool written)
{
	for (int i = 0; i < ATP_SKIP_COUNT && w->uncounted != NULL; i++)
		w->uncounted[i] = written ? 0 : w->uncounted[i] + w->now[i] - w->before[i];
	memcpy(w->before, w->now, sizeof(w->before));
}

Datum
atp_skips_arg(const int64 *skips)
{
	StringInfoData buf;

	initStringInfo(&buf);
	for (int i = 0; i < ATP_SKIP_COUNT; i++)
		if (skips[i] != 0)
			appendStringInfo(&buf, "%c\"%s\": " INT64_FORMAT, buf.len > 0 ? ',' : '{', atp_skip_name(i), skips[i]);
	appendStringInfoString(&buf, buf.len > 0 ? "}" : "{}");
	return CStringGetTextDatum(buf.data);
}

bool
atp_skips_add(AtpStatements *set, const AtpSubscription *sub, int shard, const int64 *skips)
{
	Datum		args[4] = {
		CStringGetTextDatum(sub->name), CStringGetTextDatum(sub->ep->scope), Int32GetDatum(shard), atp_skips_arg(skips)
	};

	return atp_execute(set, &add_skips, args, NULL) == 1;
}

void
atp_skips_flush(AtpStatements *set, const AtpSubscription *sub, int shard, int64 *skips)
{
	if (!any_skips(skips))
		return;
	atp_begin("counting what was passed over");
	if (atp_extension_lock() == ATP_EXTENSION_READY && atp_skips_add(set, sub, shard, skips))
		memset(skips, 0, sizeof(int64) * ATP_SKIP_COUNT);
	atp_commit();
}
