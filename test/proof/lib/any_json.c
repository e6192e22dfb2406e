/*
 * any_json.c
 *		A reader of JSON that gives any item which its contract permits: for proofs of what stands on it.
 *
 * Each item takes a byte at least; its raw text lies in the input.  A decoded text has any length up to the room, and
 * any bytes.  An error leaves an offset in the input.
 */
#include "core/codec/json.h"
#include "core/codec/json_text.h"
#include "lib/proof.h"

void
atp_json_init(AtpJsonReader *r, const char *buf, size_t n, unsigned max_depth)
{
	r->buf = buf;
	r->len = n;
	r->pos = 0;
	r->depth = 0;
	r->max_depth = max_depth;
	r->started = false;
	r->after_key = false;
}

static bool
moved(AtpJsonReader *r, size_t *at)
{
	size_t		taken = any_size(r->len - r->pos);

	*at = any_bool() ? r->pos : r->pos + taken;
	r->pos += taken;
	return taken > 0;
}

static void
any_item(const AtpJsonReader *r, AtpJsonItem *item)
{
	size_t		from = any_size(r->pos);

	item->kind = (AtpJsonKind) any_size(ATP_JSON_NULL);
	item->escaped = any_bool();
	item->raw = (AtpSpan) {r->buf + from, any_size(r->pos - from)};
}

AtpErr
atp_json_next(AtpJsonReader *r, AtpJsonItem *item, size_t *at)
{
	bool		in_object = r->depth > 0 && r->is_object[r->depth - 1];

	LAW(r->pos <= r->len);
	if (r->depth == 0 && r->started)
	{
		*at = r->pos;
		return any_bool() ? ATP_E_JSON_END : ATP_E_JSON_SYNTAX;
	}
	if (!moved(r, at) || any_bool())
		return ATP_E_JSON_SYNTAX;
	any_item(r, item);
	r->started = true;
	if (in_object && !r->after_key)
		ASSUME(item->kind == ATP_JSON_KEY || item->kind == ATP_JSON_END);
	else
		ASSUME(item->kind != ATP_JSON_KEY && (item->kind != ATP_JSON_END || (r->depth > 0 && !in_object)));
	r->after_key = item->kind == ATP_JSON_KEY;
	if (item->kind == ATP_JSON_OBJECT || item->kind == ATP_JSON_ARRAY)
	{
		if (r->depth >= r->max_depth)
			return ATP_E_JSON_DEPTH;
		r->is_object[r->depth++] = item->kind == ATP_JSON_OBJECT;
	}
	else if (item->kind == ATP_JSON_END)
		r->depth--;
	return ATP_OK;
}

AtpErr
atp_json_finish(AtpJsonReader *r, const AtpJsonItem *item, size_t *at)
{
	if (item->kind != ATP_JSON_OBJECT && item->kind != ATP_JSON_ARRAY)
		return ATP_OK;
	LAW(r->depth > 0);
	r->depth--;
	return moved(r, at) && any_bool() ? ATP_OK : ATP_E_JSON_SYNTAX;
}

/* An absent member is NULL, and lies nowhere. */
AtpErr
atp_json_members(AtpJsonReader *r, const char *const *names, unsigned n, AtpJsonItem *values, bool *repeated, size_t *at)
{
	bool		has_moved = moved(r, at);

	LAW(n <= 32 && r->depth > 0 && r->is_object[r->depth - 1]);
	for (unsigned i = 0; i < n; i++)
	{
		LAW(__CPROVER_r_ok(names[i], 1));
		any_item(r, &values[i]);
		ASSUME(values[i].kind != ATP_JSON_KEY && values[i].kind != ATP_JSON_END);
		if (values[i].kind == ATP_JSON_NULL && any_bool())
			values[i].raw = (AtpSpan) {NULL, 0};
	}
	*repeated = any_bool();
	r->depth--;
	return has_moved && any_bool() ? ATP_OK : ATP_E_JSON_SYNTAX;
}

AtpErr
atp_json_outline(AtpJsonReader *r, const char *const *names, unsigned n, AtpJsonItem *values, bool *repeated, size_t *at)
{
	return atp_json_members(r, names, n, values, repeated, at);
}

/* ANY_TEXT_MAX: the longest text of the proof; with ANY_TEXT_FILLS, also one that fills the room. */
bool
atp_json_text(const AtpJsonItem *item, char *out, size_t room, size_t *n)
{
	LAW(item->kind == ATP_JSON_TEXT || item->kind == ATP_JSON_KEY);
	LAW(__CPROVER_w_ok(out, room));
	if (any_bool())
		return false;
#ifdef ANY_TEXT_FILLS
	/* the room has any bytes before */
	*n = room;
	if (any_bool())
		return true;
#endif
	*n = any_size(room < ANY_TEXT_MAX ? room : ANY_TEXT_MAX);
	for (size_t i = 0; i < ANY_TEXT_MAX; i++)
		if (i < *n)
			out[i] = (char) any_byte();
	return true;
}

bool
atp_json_is(const AtpJsonItem *item, const char *text, size_t n)
{
	LAW(item->kind == ATP_JSON_TEXT || item->kind == ATP_JSON_KEY);
	LAW(__CPROVER_r_ok(text, n));
	return any_bool();
}
