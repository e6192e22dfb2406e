/*
 * validate.c
 *		Validation of records by their Lexicons, for subscriptions with the option validate.
 *
 * lexicon/judge.c does the validation; this file applies the option to the rows of a batch.
 */
#include "postgres.h"

#include "common/compat.h"
#include "core/syntax/nsid.h"
#include "core/syntax/recordkey.h"
#include "data/dagcbor_value.h"
#include "lexicon/judge.h"
#include "tables/apply/validate.h"
#include "types/types.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

AtpValidate
atp_validate_how(const AtpSettings *settings, AtpSpan collection)
{
	for (int i = 0; i < settings->nvalidate; i++)
	{
		const AtpValidateFilter *filter = &settings->validate[i];

		if (atp_nsid_matches(collection.ptr, collection.len, filter->collection, strlen(filter->collection)))
			return filter->how;
	}
	return ATP_VALIDATE_NONE;
}

/* The value as jsonb, which the Lexicons are checked against; NULL: jsonb cannot hold the value. */
static Jsonb *
jsonb_of(const AtpSettings *settings, struct varlena *value)
{
	AtpPackedPart whole;

	if (!settings->packs)
		return (Jsonb *) value;
	whole = atp_dagcbor_whole((AtpBytes) {(const uint8_t *) VARDATA_ANY(value), VARSIZE_ANY_EXHDR(value)});
	return atp_dagcbor_jsonb(&whole);
}

bool
atp_validate_row(const AtpSettings *settings, AtpRecordRow *row)
{
	AtpSpan		collection = atp_nsid_span(row->collection);
	AtpValidate how = row->value == NULL ? ATP_VALIDATE_NONE : atp_validate_how(settings, collection);
	char		rkey[ATP_RKEY_MAX];
	size_t		len;
	Jsonb	   *value;
	char	   *why;

	if (how == ATP_VALIDATE_NONE || (value = jsonb_of(settings, row->value)) == NULL)
		return true;
	len = atp_rkey_copy(row->rkey, rkey);
	if (atp_lexicon_judge(atp_lexicons_known(), value, collection, (AtpSpan) {rkey, len}, &why) != ATP_LEX_INVALID)
		return true;
	row->fault = cstring_to_text(why);
	return how != ATP_VALIDATE_DEAD_LETTER;
}

AtpDeadLetter *
atp_validate_dead_letter(AtpBatch *batch, AtpBytes message, AtpEvent *event, const AtpRow *row)
{
	AtpDeadLetter *letter = atp_batch_new_dead_letter(batch, "record", message, event != NULL ? event->seq : 0);

	strlcpy(letter->sqlstate, "23514", sizeof(letter->sqlstate));	/* check_violation */
	letter->text = psprintf("the record is not what its Lexicon says: %s", text_to_cstring(row->record.fault));
	letter->did = row->record.did;
	letter->path = row->path;
	letter->event = event;
	return letter;
}

/* Validate the rows of an event, and move the remaining rows to index to, directly after the previous event's rows; returns the next index. */
static int
validate_event(const AtpSettings *settings, AtpBatch *batch, AtpEvent *event, int to)
{
	int			from = event->first_row;

	event->first_row = to;
	for (int i = from; i < from + event->nrows; i++)
	{
		AtpRow		row = batch->rows[i];

		if (atp_validate_row(settings, &row.record))
			batch->rows[to++] = row;
		else
		{
			(void) atp_validate_dead_letter(batch, event->message, event, &row);
			event->lacking = true;
		}
	}
	event->nrows = to - event->first_row;
	return to;
}

void
atp_validate_batch(const AtpSubscription *sub, AtpBatch *batch)
{
	MemoryContext old = MemoryContextSwitchTo(batch->cxt);
	int			rows = 0;

	for (int i = 0; i < batch->nevents; i++)
		rows = validate_event(&sub->settings, batch, &batch->events[i], rows);
	batch->nrows = rows;
	MemoryContextSwitchTo(old);
}
