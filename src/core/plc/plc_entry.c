/*
 * plc_entry.c
 *		Reader of the directory's entries: see plc_entry.h.
 */
#include "core/lexicon/datetime.h"
#include "core/plc/plc_entry.h"

enum
{
	DID, CID, OPERATION, CREATED_AT, NULLIFIED, NMEMBERS
};

/* The limits of types/foreign_time.c: drivers read the times between in each time zone. */
#define FIRST_MICROS	INT64_C(-62135510400000000) /* 0001-01-02T00:00:00Z */
#define END_MICROS		INT64_C(253402214400000000) /* 9999-12-31T00:00:00Z */

static const char *const names[NMEMBERS] = {"did", "cid", "operation", "createdAt", "nullified"};

static bool
take_text(AtpPlcEntry *entry, const AtpJsonItem *value, AtpSpan *out)
{
	if (atp_json_take_text(&entry->texts, value, out))
		return true;
	*out = (AtpSpan) {NULL, 0};
	return false;
}

/*
 * Sets the spans of the entry that have their types; false: a span is missing.  The CID comes last: a text with escapes may be
 * longer than the memory for texts, and is then kept as written, with backslashes, which no CID has.
 */
static bool
take_spans(AtpPlcEntry *entry, const AtpJsonItem *values, AtpSpan *time)
{
	bool		whole = take_text(entry, &values[DID], &entry->did);

	whole &= take_text(entry, &values[CREATED_AT], time);
	if (values[CID].kind == ATP_JSON_TEXT && !take_text(entry, &values[CID], &entry->cid))
		entry->cid = values[CID].raw;
	if (values[OPERATION].kind != ATP_JSON_OBJECT)
		return false;
	entry->operation = values[OPERATION].raw;
	return whole && entry->cid.ptr != NULL;
}

/* M-04: reads a time within the limits of drivers and of plc_export(). */
static bool
read_time(AtpSpan text, int64_t *micros)
{
	int64_t		time;
	size_t		at;

	if (atp_datetime_parse(text.ptr, text.len, &time, &at) != ATP_OK || time < FIRST_MICROS || time >= END_MICROS)
		return false;
	*micros = time;
	return true;
}

AtpErr
atp_plc_entry_read(AtpSpan json, AtpPlcEntry *entry, size_t *at)
{
	AtpJsonReader r;
	AtpJsonItem item;
	AtpJsonItem values[NMEMBERS];
	AtpSpan		time;
	bool		repeated;
	AtpErr		err;

	entry->did = entry->cid = entry->operation = (AtpSpan) {NULL, 0};
	entry->created_at = 0;
	entry->has_mark = entry->nullified = false;
	entry->texts.used = 0;
	*at = 0;
	atp_json_init(&r, json.ptr, json.len, ATP_JSON_DEPTH_DEFAULT);
	if ((err = atp_json_next(&r, &item, at)) != ATP_OK)
		return err;
	if (item.kind != ATP_JSON_OBJECT)
		return ATP_E_PLC_ENTRY;
	if ((err = atp_json_outline(&r, names, NMEMBERS, values, &repeated, at)) != ATP_OK)
		return err;
	if ((err = atp_json_next(&r, &item, at)) != ATP_E_JSON_END)
		return err == ATP_OK ? ATP_E_JSON_SYNTAX : err;
	*at = 0;
	if (!take_spans(entry, values, &time) || repeated)
		return ATP_E_PLC_ENTRY;
	if (!atp_did_is_plc(entry->did.ptr, entry->did.len))
		return ATP_E_PLC_ENTRY_DID;
	if (!read_time(time, &entry->created_at))
		return ATP_E_PLC_ENTRY_TIME;
	if (values[NULLIFIED].kind == ATP_JSON_NULL && values[NULLIFIED].raw.ptr == NULL)
		return ATP_OK;
	entry->has_mark = true;
	entry->nullified = values[NULLIFIED].kind == ATP_JSON_TRUE;
	return entry->nullified || values[NULLIFIED].kind == ATP_JSON_FALSE ? ATP_OK : ATP_E_PLC_ENTRY_MARK;
}

bool
atp_plc_entry_names(const AtpPlcEntry *entry, const AtpPlcOp *op)
{
	char		text[ATP_CID_TEXT_MAX];
	size_t		n = atp_cid_format(op->cid, sizeof(op->cid), text);

	return entry->cid.len == n && memcmp(entry->cid.ptr, text, n) == 0;
}
