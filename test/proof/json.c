/*
 * json.c
 *		One step of the JSON reader from any state: it stays in the text, moves on, and leaves a state from which the next
 *		step may begin.  So each number of steps does, and at most as many steps succeed as the text has bytes.
 *
 * proves: atp_json_next read_member read_value read_text read_number read_word skip_space
 * sources: core/syntax/chars.c
 * replaces: plain_text:proof_plain_text
 * short: -DN=4 --unwind 7 --unwindset strchr.0:10,memcpy.0:9
 * long: -DN=7 --unwind 10
 * assumes: atp_utf8_valid() returns at most the length of the text, which utf8.c proves
 */
#include "core/codec/json.c"
#include "lib/proof.h"

size_t
atp_utf8_valid(const uint8_t *s, size_t n, bool *has_nul)
{
	LAW(n == 0 || __CPROVER_r_ok(s, n));
	*has_nul = any_bool();
	return any_size(n);
}

/* In place of plain_text(), which skips eight characters or none; json_escape.c proves it. */
const char *
proof_plain_text(const char *p, const char *end, uint64_t *bits)
{
	LAW(end - p < 8);
	return p;
}

/* What holds between two steps. */
static bool
is_between(const AtpJsonReader *r)
{
	return r->pos <= r->len && r->depth <= r->max_depth && r->max_depth <= ATP_JSON_DEPTH_MAX &&
		(!r->after_key || (r->depth > 0 && r->is_object[r->depth - 1] && !r->first)) && (r->depth == 0 || r->started);
}

/* The grammar of RFC 8259: a state for each place in a number. */
static bool
is_number(const char *s, size_t n)
{
	enum {START, MINUS, ZERO, DIGITS, POINT, FRACTION, E, E_SIGN, EXPONENT, NONE} state = START;

	for (size_t i = 0; i < n; i++)
	{
		bool		digit = s[i] >= '0' && s[i] <= '9';

		if (digit)
			state = state == START || state == MINUS ? (s[i] == '0' ? ZERO : DIGITS) : state == DIGITS ? DIGITS :
				state == POINT || state == FRACTION ? FRACTION : state >= E && state <= EXPONENT ? EXPONENT : NONE;
		else if (s[i] == '-' && state == START)
			state = MINUS;
		else if (s[i] == '.' && (state == ZERO || state == DIGITS))
			state = POINT;
		else if ((s[i] == 'e' || s[i] == 'E') && (state == ZERO || state == DIGITS || state == FRACTION))
			state = E;
		else if ((s[i] == '-' || s[i] == '+') && state == E)
			state = E_SIGN;
		else
			state = NONE;
	}
	return state == ZERO || state == DIGITS || state == FRACTION || state == EXPONENT;
}

/* The first state is one of these. */
static void
init(void)
{
	AtpJsonReader r;
	char		text[1];

	atp_json_init(&r, text, any_size(sizeof(text)), any_byte());
	LAW(is_between(&r) && r.pos == 0);
}

static void
step(size_t n)
{
	char		text[N];
	AtpJsonReader r;
	AtpJsonItem item;
	unsigned	depth;
	bool		key_follows;
	bool		end_may_follow;
	bool		first;
	bool		after_key;
	size_t		space = 0;
	size_t		at;
	AtpErr		err;

	r.buf = text + N - n;
	r.len = n;
	r.pos = 0;
	r.depth = any_byte();
	r.max_depth = any_byte();
	r.started = any_bool();
	r.first = any_bool();
	r.after_key = any_bool();
	ASSUME(is_between(&r));
	depth = r.depth;
	key_follows = depth > 0 && r.is_object[depth - 1] && !r.after_key;
	end_may_follow = depth > 0 && !r.after_key;
	first = r.first;
	after_key = r.after_key;
	err = atp_json_next(&r, &item, &at);
	LAW_OF_ERRORS(err, at, n);
	LAW(r.pos <= n);
	if (err != ATP_OK)
		return;
	LAW(is_between(&r));
	LAW(r.started && r.pos > 0);
	LAW(r.after_key == (item.kind == ATP_JSON_KEY));
	LAW(item.kind == ATP_JSON_END ? end_may_follow : (item.kind == ATP_JSON_KEY) == key_follows);
	if (item.kind == ATP_JSON_OBJECT || item.kind == ATP_JSON_ARRAY)
		LAW(r.depth == depth + 1);
	else if (item.kind == ATP_JSON_END)
		LAW(r.depth == depth - 1);
	else
		LAW(r.depth == depth);
	if (item.kind == ATP_JSON_KEY || item.kind == ATP_JSON_TEXT)
		LAW(item.raw.ptr > r.buf && item.raw.ptr + item.raw.len < r.buf + r.pos);
	if (item.kind == ATP_JSON_NUMBER)
	{
		LAW(item.raw.len > 0 && item.raw.ptr >= r.buf && item.raw.ptr + item.raw.len == r.buf + r.pos);
		LAW(is_number(item.raw.ptr, item.raw.len));
	}
	/* a colon behind a key, a comma before each member but the first */
	while (space < n && (r.buf[space] == ' ' || r.buf[space] == '\t' || r.buf[space] == '\n' || r.buf[space] == '\r'))
		space++;
	LAW(space < n && (r.buf[space] == ':') == after_key);
	LAW((r.buf[space] == ',') == (depth > 0 && !after_key && !first && item.kind != ATP_JSON_END));
	LAW(r.depth == 0 || r.first == (item.kind == ATP_JSON_OBJECT || item.kind == ATP_JSON_ARRAY));
	if (item.kind == ATP_JSON_TEXT && item.escaped)
		REACHED("a text with an escape");
}

int
main(void)
{
	init();
	step(0);
	step(1);
	step(N);
	return 0;
}
