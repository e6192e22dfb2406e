/*
 * archive_plan.c
 *		Pages of a plan: see archive_plan.h.
 */
#include "core/archive/archive_plan.h"
#include "core/codec/json_text.h"
#include "core/syntax/chars.h"
#include "core/syntax/did.h"
#include "core/syntax/nsid.h"
#include "core/wire/json_frame.h"

static AtpErr
take_number(const AtpJsonItem *item, uint64_t *out)
{
	int64_t		value;

	if (item->kind != ATP_JSON_NUMBER)
		return ATP_E_PLAN_MEMBER;
	if (atp_json_integer(item->raw, &value) != ATP_OK || value < 0 || (uint64_t) value >= ATP_ARCHIVE_SEQ_LIMIT)
		return ATP_E_PLAN_NUMBER;
	*out = (uint64_t) value;
	return ATP_OK;
}

/* Numbers of an object; *at becomes the offset of the faulty one, counted from start. */
static AtpErr
take_numbers(const AtpJsonItem *items, unsigned n, uint64_t *out, const char *start, size_t *at)
{
	for (unsigned i = 0; i < n; i++)
	{
		AtpErr		err = take_number(&items[i], &out[i]);

		if (err != ATP_OK)
			return items[i].kind == ATP_JSON_NUMBER ? atp_fail(err, items[i].raw.ptr - start, at) : err;
	}
	return ATP_OK;
}

/* Reads the members of a segment, but not the ranges of blocks. */
static AtpErr
read_segment(AtpPlanUnits *units, size_t *at)
{
	enum
	{
		INDEX, MIN_SEQ, MAX_SEQ, NUMBERS, NAME = NUMBERS, MODE, BLOCKS, MEMBERS
	};
	static const char *const names[] = {"index", "minSeq", "maxSeq", "name", "mode", "blocks"};
	AtpJsonItem item[MEMBERS];
	uint64_t	number[NUMBERS];
	uint64_t	index;
	char		name[ATP_SEGMENT_NAME_LEN];
	size_t		len;
	bool		repeated;
	AtpErr		err;

	if ((err = atp_json_outline(&units->segments, names, MEMBERS, item, &repeated, at)) != ATP_OK)
		return err;
	*at += units->segments.buf - units->start;
	if (repeated)
		return ATP_E_JSON_TWICE;
	if ((err = take_numbers(item, NUMBERS, number, units->start, at)) != ATP_OK)
		return err;
	if (item[NAME].kind != ATP_JSON_TEXT || item[MODE].kind != ATP_JSON_TEXT)
		return ATP_E_PLAN_MEMBER;
	*at = item[NAME].raw.ptr - units->start;
	if (!atp_json_text(&item[NAME], name, sizeof(name), &len) || atp_segment_name_parse((AtpSpan) {name, len}, &index) != ATP_OK)
		return ATP_E_SEGMENT_NAME;
	if (index != number[INDEX] || (units->has_segment && index <= units->unit.segment))
		return ATP_E_PLAN_ORDER;
	if (number[MIN_SEQ] > number[MAX_SEQ])
		return ATP_E_PLAN_SEQ;
	units->has_segment = true;
	units->unit = (AtpPlanUnit) {.segment = index, .min_seq = number[MIN_SEQ], .max_seq = number[MAX_SEQ]};
	units->unit.is_whole = atp_json_is(&item[MODE], "segment", strlen("segment"));
	if (units->unit.is_whole)
		return ATP_OK;
	*at = item[MODE].raw.ptr - units->start;
	if (!atp_json_is(&item[MODE], "blocks", strlen("blocks")))
		return ATP_E_PLAN_MODE;
	if (item[BLOCKS].kind != ATP_JSON_ARRAY)
		return ATP_E_PLAN_MEMBER;
	units->in_ranges = true;
	units->next_block = 0;
	atp_json_init(&units->ranges, item[BLOCKS].raw.ptr, item[BLOCKS].raw.len, ATP_PLAN_DEPTH_MAX);
	return atp_json_next(&units->ranges, &item[BLOCKS], at);
}

/* The next range of the present segment; *found is false after the last. */
static AtpErr
read_range(AtpPlanUnits *units, bool *found, size_t *at)
{
	static const char *const names[] = {"first", "last"};
	AtpJsonItem item[2];
	AtpJsonItem head;
	uint64_t	number[2];
	bool		repeated;
	AtpErr		err;

	*found = false;
	if ((err = atp_json_next(&units->ranges, &head, at)) != ATP_OK)
		return err;
	*at += units->ranges.buf - units->start;
	units->in_ranges = head.kind != ATP_JSON_END;
	if (!units->in_ranges)
		return ATP_OK;
	if (head.kind != ATP_JSON_OBJECT)
		return ATP_E_PLAN_MEMBER;
	if ((err = atp_json_members(&units->ranges, names, 2, item, &repeated, at)) != ATP_OK)
		return err;
	*at += units->ranges.buf - units->start;
	if (repeated)
		return ATP_E_JSON_TWICE;
	if ((err = take_numbers(item, 2, number, units->start, at)) != ATP_OK)
		return err;
	if (number[0] < units->next_block || number[1] < number[0] || number[1] >= ATP_ARCHIVE_BLOCKS_MAX)
		return ATP_E_PLAN_RANGE;
	units->unit.first = (uint32_t) number[0];
	units->unit.last = (uint32_t) number[1];
	units->next_block = number[1] + 1;
	*found = true;
	return ATP_OK;
}

void
atp_plan_units_begin(AtpPlanUnits *units, const AtpPlan *plan)
{
	AtpJsonItem item;
	size_t		at;

	*units = (AtpPlanUnits) {.start = plan->start};
	atp_json_init(&units->segments, (const char *) plan->segments.ptr, plan->segments.len, ATP_PLAN_DEPTH_MAX);
	(void) atp_json_next(&units->segments, &item, &at);
}

AtpErr
atp_plan_units_next(AtpPlanUnits *units, size_t *at)
{
	for (;;)
	{
		AtpJsonItem item;
		bool		found = false;
		AtpErr		err;

		if (units->in_ranges)
		{
			if ((err = read_range(units, &found, at)) != ATP_OK || found)
				return err;
			continue;
		}
		if ((err = atp_json_next(&units->segments, &item, at)) != ATP_OK)
			return err;
		*at += units->segments.buf - units->start;
		if (item.kind == ATP_JSON_END)
			continue;
		if (item.kind != ATP_JSON_OBJECT)
			return ATP_E_PLAN_MEMBER;
		if ((err = read_segment(units, at)) != ATP_OK || units->unit.is_whole)
			return err;
	}
}

/* Is the whole text JSON, also the members that are not read, and not nested too deep? */
static AtpErr
check_json(const char *s, size_t n, size_t *at)
{
	AtpJsonReader r;
	AtpJsonItem item;
	AtpErr		err;

	atp_json_init(&r, s, n, ATP_PLAN_DEPTH_MAX);
	do
		err = atp_json_next(&r, &item, at);
	while (err == ATP_OK);
	return err == ATP_E_JSON_END ? ATP_OK : err;
}

static AtpErr
count_units(AtpPlan *plan, size_t *at)
{
	AtpPlanUnits units;
	AtpErr		err;

	atp_plan_units_begin(&units, plan);
	for (plan->units = 0; (err = atp_plan_units_next(&units, at)) == ATP_OK; plan->units++)
		if (plan->units == ATP_PLAN_UNITS_MAX)
			return ATP_E_PLAN_UNITS;
	return err == ATP_E_JSON_END ? ATP_OK : err;
}

AtpErr
atp_plan_parse(const char *s, size_t n, AtpPlan *plan, size_t *at)
{
	enum
	{
		TIP, THROUGH, SEGMENTS, STATS, MEMBERS
	};
	static const char *const names[] = {"sealedTipSeq", "plannedThroughSeq", "segments", "stats"};
	static const char *const stat_names[] = {"blocksMatched"};
	AtpJsonItem item[MEMBERS];
	AtpJsonItem blocks;
	uint64_t	number[2];
	AtpErr		err;

	*plan = (AtpPlan) {.start = s};
	if (n > ATP_PLAN_MAX)
		return atp_fail(ATP_E_PLAN_SIZE, ATP_PLAN_MAX, at);
	if ((err = check_json(s, n, at)) != ATP_OK ||
		(err = atp_json_read_object((AtpBytes) {(const uint8_t *) s, n}, names, MEMBERS, item, at)) != ATP_OK)
		return err;
	*at = 0;
	if (item[SEGMENTS].kind != ATP_JSON_ARRAY || item[STATS].kind != ATP_JSON_OBJECT)
		return ATP_E_PLAN_MEMBER;
	if ((err = take_numbers(item, 2, number, s, at)) != ATP_OK)
		return err;
	plan->sealed_tip_seq = number[TIP];
	plan->planned_through_seq = number[THROUGH];
	if (plan->planned_through_seq > plan->sealed_tip_seq)
		return ATP_E_PLAN_THROUGH;
	err = atp_json_read_object((AtpBytes) {(const uint8_t *) item[STATS].raw.ptr, item[STATS].raw.len}, stat_names, 1, &blocks, at);
	*at += item[STATS].raw.ptr - s;
	if (err != ATP_OK || (err = take_numbers(&blocks, 1, &plan->blocks_matched, s, at)) != ATP_OK)
		return err;
	plan->segments = (AtpBytes) {(const uint8_t *) item[SEGMENTS].raw.ptr, item[SEGMENTS].raw.len};
	return count_units(plan, at);
}

/* ------------------------------------------------------------------------
 * The request
 * ------------------------------------------------------------------------
 */
typedef struct JsonWriter
{
	char	   *out;
	size_t		room;
	size_t		n;
	const char *before;			/* before the next member */
} JsonWriter;

static void
put_bytes(JsonWriter *w, const char *s, size_t n)
{
	if (w->n < w->room)
		memcpy(w->out + w->n, s, n < w->room - w->n ? n : w->room - w->n);
	w->n += n;
}

static void
put_literal(JsonWriter *w, const char *s)
{
	put_bytes(w, s, strlen(s));
}

static void
put_key(JsonWriter *w, const char *key)
{
	put_literal(w, w->before);
	w->before = ",";
	put_literal(w, "\"");
	put_literal(w, key);
	put_literal(w, "\":");
}

/* A list of texts without characters that JSON escapes; nothing for an empty list. */
static void
put_list(JsonWriter *w, const char *key, const AtpSpan *texts, size_t n)
{
	for (size_t i = 0; i < n; i++)
	{
		if (i == 0)
			put_key(w, key);
		put_literal(w, i == 0 ? "[\"" : ",\"");
		put_bytes(w, texts[i].ptr, texts[i].len);
		put_literal(w, "\"");
	}
	put_literal(w, n > 0 ? "]" : "");
}

static void
put_seq(JsonWriter *w, const char *key, uint64_t seq)
{
	char		digits[20];
	size_t		at = sizeof(digits);

	if (seq == 0)
		return;
	for (; seq > 0; seq /= 10)
		digits[--at] = (char) ('0' + seq % 10);
	put_key(w, key);
	put_bytes(w, digits + at, sizeof(digits) - at);
}

static AtpErr
check_request(const AtpPlanRequest *request)
{
	size_t		at;
	AtpErr		err;

	if (request->ncollections > ATP_PLAN_COLLECTIONS_MAX || request->ndids > ATP_PLAN_DIDS_MAX ||
		(request->ncollections > 0 && request->kinds != 0 && (request->kinds & ATP_PLAN_COMMIT) == 0) ||
		(request->before_seq > 0 && request->before_seq <= request->after_seq) ||
		request->before_seq >= ATP_ARCHIVE_SEQ_LIMIT || request->after_seq >= ATP_ARCHIVE_SEQ_LIMIT)
		return ATP_E_PLAN_REQUEST;
	for (size_t i = 0; i < request->ncollections; i++)
	{
		const AtpSpan *pattern = &request->collections[i];

		if ((err = atp_nsid_pattern_check(pattern->ptr, pattern->len, &at)) != ATP_OK)
			return err;
		/* all collections are asked for by no list */
		if (pattern->len == 1)
			return ATP_E_PLAN_REQUEST;
	}
	for (size_t i = 0; i < request->ndids; i++)
		if ((err = atp_did_check(request->dids[i].ptr, request->dids[i].len, &at)) != ATP_OK)
			return err;
	return ATP_OK;
}

AtpErr
atp_plan_request_write(const AtpPlanRequest *request, char *out, size_t room, size_t *n)
{
	static const char *const kind_names[] = {"commit", "identity", "account", "sync"};
	AtpSpan		kinds[4];
	size_t		nkinds = 0;
	JsonWriter	w = {.out = out, .room = room, .before = "{"};
	AtpErr		err = check_request(request);

	if (err != ATP_OK)
		return err;
	for (unsigned i = 0; i < 4; i++)
		if (request->kinds >> i & 1)
			kinds[nkinds++] = (AtpSpan) {kind_names[i], strlen(kind_names[i])};
	put_list(&w, "kinds", kinds, nkinds);
	put_list(&w, "collections", request->collections, request->ncollections);
	put_list(&w, "dids", request->dids, request->ndids);
	put_seq(&w, "afterSeq", request->after_seq);
	put_seq(&w, "beforeSeq", request->before_seq);
	if (w.n == 0)
		put_literal(&w, "{");
	put_literal(&w, "}");
	*n = w.n;
	return ATP_OK;
}
