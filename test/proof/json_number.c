/*
 * json_number.c
 *		Numbers of JSON become integers without overflow, and only such sequence numbers that DAG-CBOR can have, too.
 *
 * proves: atp_json_integer atp_json_seq atp_field_seq atp_field_text atp_field_did
 * sources: core/codec/json_text.c core/codec/field.c
 * short: -DN=20 --unwind 22
 * long: -DN=24 --unwind 26
 * assumes: the number has a form that atp_json_next() accepts: digits after a sign, then perhaps other characters
 */
#include "core/codec/field.h"
#include "core/codec/json_text.h"
#include "lib/proof.h"

/* Not called. */
bool
atp_json_text(const AtpJsonItem *item, char *out, size_t room, size_t *n)
{
	LAW(false);
	return false;
}

AtpErr
atp_did_check(const char *s, size_t n, size_t *at)
{
	LAW(n == 0 || __CPROVER_r_ok(s, n));
	*at = any_size(n);
	return any_bool() ? ATP_OK : ATP_E_DID_CHAR;
}

static void
number(size_t n)
{
	char		s[N];
	int64_t		value = 0;
	int64_t		again;
	char	   *start = s + N - n;
	AtpJsonItem item = {.kind = ATP_JSON_NUMBER, .raw = {start, n}};
	AtpCborItem cbor;
	AtpErr		err;

	ASSUME(n > 1 || start[0] != '-');
	err = atp_json_integer(item.raw, &value);
	LAW(err >= ATP_OK && err < ATP_ERR_COUNT);
	if (err == ATP_OK && start[0] == '-')
		LAW(value < 0);
	if (err == ATP_OK && start[0] != '-')
		LAW(value >= 0);
	/* digits before a sign or a point would be another form */
	if (err == ATP_OK && n == 2 && start[0] != '.' && start[1] != '.')
		LAW(value == (start[0] == '-' ? '0' - start[1] : (start[0] - '0') * 10 + (start[1] - '0')));
	/* twice the same computation of many digits would be hard for the solver */
	if (n > 2 || atp_json_seq(&item, &again) != ATP_OK)
		return;
	LAW(err == ATP_OK && again == value);
	cbor = (AtpCborItem) {.kind = ATP_CBOR_UINT, .u = (uint64_t) value};
	LAW(atp_field_seq(&cbor, &again) == ATP_OK && again == value);
	if (n == 2)
		REACHED("a sequence number");
}

static void
field(void)
{
	AtpCborItem item = {.kind = any_size(ATP_CBOR_FLOAT), .u = any_u64()};
	AtpSpan		out;
	int64_t		seq = -1;

	ANY_BUFFER(s, n, 4);
	item.str = (AtpBytes) {s, n};
	if (atp_field_text(&item, &out) == ATP_OK)
		LAW(item.kind == ATP_CBOR_TEXT && out.len == n && memchr(s, 0, n) == NULL);
	if (atp_field_did(&item, &out) == ATP_OK)
		LAW(item.kind == ATP_CBOR_TEXT && out.len == n);
	LAW(atp_field_seq(&item, &seq) == ATP_OK ? seq >= 1 && seq < ATP_SEQ_LIMIT && (uint64_t) seq == item.u : seq == -1);
}

int
main(void)
{
	number(1);
	number(2);
	number(N);
	field();
	return 0;
}
