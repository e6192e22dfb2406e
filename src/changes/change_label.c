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
	atp_append_base64(out, atp_change_bytes(row, ATP_LABEL_SIG));
	appendStringInfoChar(out, '}');
}

static bool
is_wanted(const AtpRowChange *change, const AtpChangeRow *row)
{
	return row != NULL && atp_change_has_did(&change->changes->options, PG_DETOAST_DATUM_PACKED(row->values[ATP_LABEL_SRC]));
}

static bool
fits_message(const AtpRowChange *change, const AtpChangeRow *row)
{
	return row == NULL || atp_change_fits(change, row, NULL);
}

static bool
same_key_text(const AtpRowChange *change, int column)
{
	return strcmp(atp_change_text(change->had, column), atp_change_text(change->has, column)) == 0;
}

/* WAL has the old row of a DELETE, of an UPDATE of the key, and of each UPDATE with REPLICA IDENTITY FULL. */
static bool
is_gone(const AtpRowChange *change)
{
	return change->has == NULL || !same_key_text(change, ATP_LABEL_SRC) || !same_key_text(change, ATP_LABEL_URI) || !same_key_text(change, ATP_LABEL_VAL);
}

static void
tell_label(const AtpRowChange *change, const AtpChangeRow *row, const char *kind)
{
	StringInfo	out = atp_message_begin(change->changes, change->txn, kind, change->table->target, atp_change_text(row, ATP_LABEL_SRC));

	if (row == change->had)
		appendStringInfoString(out, ",\"table\":\"label\"");
	appendStringInfoString(out, ",\"label\":{");
	append_key(out, row);
	if (row == change->has)
		append_rest(out, row);
	appendStringInfoChar(out, '}');
	atp_message_end(change->changes);
}

/* An UPDATE of the key is a deletion and a new label. */
void
atp_change_of_label(const AtpRowChange *change)
{
	bool		wants_had = is_wanted(change, change->had);
	bool		wants_has = is_wanted(change, change->has);

	if ((change->changes->options.kinds & ATP_CHANGE_LABELS) == 0 || (!wants_had && !wants_has))
		return;
	if (!fits_message(change, change->had) || !fits_message(change, change->has))
	{
		atp_change_tell_unknown(change->changes, change->txn, change->table);
		return;
	}
	if (wants_had && is_gone(change))
		tell_label(change, change->had, "purge");
	if (wants_has)
		tell_label(change, change->has, "label");
}
