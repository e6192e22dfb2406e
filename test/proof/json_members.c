/*
 * json_members.c
 *		Members of a JSON object by name; containers measured, not parsed.
 *
 * proves: atp_json_outline atp_json_members atp_json_is
 * sources: core/codec/json.c core/syntax/utf8.c core/syntax/chars.c
 * short: -DN=3 --unwind 10
 * long: -DN=6 --unwind 13
 * wraps: has_zero plain_text read_text atp_utf8_unplain
 * assumes: the text begins with an object whose first key is "a"
 */
#include "core/codec/json.h"
#include "lib/proof.h"

int
main(void)
{
	static const char *const names[] = {"a"};
	char		s[5 + N];
	size_t		n = 5 + any_size(N);
	char	   *text = s + sizeof(s) - n;
	AtpJsonReader r;
	AtpJsonItem item;
	AtpJsonItem value;
	size_t		at;
	bool		repeated;
	AtpErr		err;

	memcpy(text, "{\"a\":", 5);
	atp_json_init(&r, text, n, 3);
	LAW(atp_json_next(&r, &item, &at) == ATP_OK && item.kind == ATP_JSON_OBJECT);
	err = any_bool() ? atp_json_outline(&r, names, 1, &value, &repeated, &at) : atp_json_members(&r, names, 1, &value, &repeated, &at);
	LAW_OF_ERRORS(err, at, n);
	if (err != ATP_OK)
		return 0;
	LAW(r.pos <= n && r.depth == 0);
	if (value.kind == ATP_JSON_NUMBER || value.kind == ATP_JSON_TEXT)
		LAW(value.raw.ptr > text && value.raw.ptr + value.raw.len < text + n);
	REACHED("an object with the member");
	return 0;
}
