/*
 * change_label.c
 *		Changes of the table label, as labels of the Lexicon com.atproto.label.defs#label.
 */
#include "postgres.h"

#include "changes/change.h"
#include "changes/change_size.h"
#include "changes/change_write.h"
#include "utils/timestamp.h"

static void
append_key(StringInfo out, const AtpChangeRow *row)
{
	atp_append_text(out, "", "src", atp_change_text(row, ATP_LABEL_SRC));
	atp_append_text(out, ",", "uri", atp_change_text(row, ATP_LABEL_URI));
	atp_append_text(out, ",", "val", atp_change_text(row, ATP_LABEL_VAL));
}

static void
append_time(StringInfo out, const AtpChangeRow *row, int column, const char *name)
{
	if (row->nulls[column])
		return;
	appendStringInfo(out, ",\"%s\":", name);
	atp_append_time(out, DatumGetTimestampTz(row->values[column]));
}

static void
append_rest(StringInfo out, const AtpChangeRow *row)
{
	atp_append_text(out, ",", "cid", atp_change_text(row, ATP_LABEL_CID));
	if (!row->nulls[ATP_LABEL_NEG] && DatumGetBool(row->values[ATP_LABEL_NEG]))
		appendStringInfoString(out, ",\"neg\":true");
	append_time(out, row, ATP_LABEL_CTS, "cts");
	append_time(out, row, ATP_LABEL_EXP, "exp");
	if (!row->nulls[ATP_LABEL_VER])
		appendStringInfo(out, ",\"ver\":%d", DatumGetInt32(row->values[ATP_LABEL_VER]));
	if (row->nulls[ATP_LABEL_SIG])
		return;
	appendStringInfoString(out, ",\"sig\":{\"$bytes\":");
	atp_append_base64(out, row->values[ATP_LABEL_SIG]);
	appendStringInfoChar(out, '}');
}

void
atp_change_of_label(const AtpRowChange *change)
{
	const AtpChangeRow *row = change->has != NULL ? change->has : change->had;
	StringInfo	out;

	if ((change->changes->options.kinds & ATP_CHANGE_LABELS) == 0 ||
		!atp_change_has_did(&change->changes->options, PG_DETOAST_DATUM_PACKED(row->values[ATP_LABEL_SRC])))
		return;
	if (!atp_change_fits(change, row, NULL))
	{
		atp_change_tell_unknown(change->changes, change->txn, change->table);
		return;
	}
	out = atp_message_begin(change->changes, change->txn, change->has != NULL ? "label" : "purge", change->table->target,
							atp_change_text(row, ATP_LABEL_SRC));
	if (change->has == NULL)
		appendStringInfoString(out, ",\"table\":\"label\"");
	appendStringInfoString(out, ",\"label\":{");
	append_key(out, row);
	if (change->has != NULL)
		append_rest(out, row);
	appendStringInfoChar(out, '}');
	atp_message_end(change->changes);
}
