/*
 * change_write.c
 *		Messages of the output plugin: one line of JSON each.
 *
 * Texts of the extension's types have no characters that JSON escapes.  Other texts are escaped.
 */
#include "postgres.h"

#include "changes/change_write.h"
#include "common/base64.h"
#include "common/compat.h"
#include "fmgr.h"
#include "utils/json.h"
#include "utils/timestamp.h"

StringInfo
atp_message_begin(const AtpChanges *changes, AtpChangeTxn *txn, const char *kind, const char *target, const char *did)
{
	StringInfo	out = changes->ctx->out;

	OutputPluginPrepareWrite(changes->ctx, true);
	appendStringInfo(out, "{\"kind\":\"%s\",\"lsn\":\"%X/%X\",\"n\":" INT64_FORMAT, kind, LSN_FORMAT_ARGS(txn->lsn), ++txn->n);
	if (target != NULL)
		atp_append_text(out, ",", "target", target);
	if (did != NULL)
		appendStringInfo(out, ",\"did\":\"%s\"", did);
	return out;
}

void
atp_message_end(const AtpChanges *changes)
{
	appendStringInfoChar(changes->ctx->out, '}');
	OutputPluginWrite(changes->ctx, true);
}

char *
atp_change_text(const AtpChangeRow *row, int column)
{
	if (row->nulls[column])
		return NULL;
	return OutputFunctionCall(unconstify(FmgrInfo *, &row->table->out[column]), row->values[column]);
}

AtpBytes
atp_change_bytes(const AtpChangeRow *row, int column)
{
	struct varlena *v = PG_DETOAST_DATUM_PACKED(row->values[column]);

	return (AtpBytes) {(const uint8_t *) VARDATA_ANY(v), VARSIZE_ANY_EXHDR(v)};
}

void
atp_append_text(StringInfo out, const char *before, const char *name, const char *value)
{
	if (value == NULL)
		return;
	appendStringInfo(out, "%s\"%s\":", before, name);
	escape_json(out, value);
}

void
atp_append_base64(StringInfo out, AtpBytes bytes)
{
	int			room = pg_b64_enc_len((int) bytes.len);
	int			n;

	enlargeStringInfo(out, room + 2);
	appendStringInfoChar(out, '"');
	n = pg_b64_encode((const void *) bytes.ptr, (int) bytes.len, out->data + out->len, room);
	if (n < 0)
		elog(ERROR, "could not encode %d bytes as base64", (int) bytes.len);
	out->len += n;
	appendStringInfoChar(out, '"');
}

void
atp_append_time(StringInfo out, TimestampTz time)
{
	struct pg_tm tm;
	fsec_t		fsec;

	if (TIMESTAMP_NOT_FINITE(time) || timestamp2tm(time, NULL, &tm, &fsec, NULL, NULL) != 0)
		appendStringInfoString(out, "null");
	else
		appendStringInfo(out, "\"%04d-%02d-%02dT%02d:%02d:%02d.%06dZ\"", tm.tm_year, tm.tm_mon, tm.tm_mday,
						 tm.tm_hour, tm.tm_min, tm.tm_sec, (int) fsec);
}
