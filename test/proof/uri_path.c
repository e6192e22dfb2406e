/*
 * uri_path.c
 *		The order of two paths of which one at least begins with a tag, and not both with the same.
 *
 * proves: compare_path unpack_path
 * sources: core/syntax/uri_store.c core/syntax/chars.c
 * short: --unwind 70 --max-field-sensitivity-array-size 80
 * long: --unwind 70 --max-field-sensitivity-array-size 80
 * assumes: TIDs are as lib/stored_uri.h says; the shapes of main()
 */
#include "core/syntax/uri_order.c"
#include "lib/stored_uri.h"

/* None of these functions is called by compare_path(). */
size_t
atp_did_store(const char *restrict s, size_t n, uint8_t *restrict out)
{
	LAW(false);
	return 0;
}

AtpErr
atp_tid_parse(const char *s, size_t n, uint64_t *tid, size_t *at)
{
	LAW(false);
	return ATP_E_TID_CHAR;
}

uint64_t
atp_did_abbrev(const uint8_t *stored, size_t n)
{
	LAW(false);
	return 0;
}

uint64_t
atp_abbrev_text(const uint8_t head[ATP_ABBREV_CHARS])
{
	LAW(false);
	return 0;
}

/* The authority has one byte. */
static void
compare(const char *s, const char *t)
{
	const uint8_t *a = uris[0].stored;
	const uint8_t *b = uris[1].stored;

	any_uri(0, s);
	any_uri(1, t);
	ASSUME(is_canonical(&uris[0], s) && is_canonical(&uris[1], t));
	ASSUME(uris[0].text[0] == uris[1].text[0]);
	LAW(sign(compare_path(a + 1, a + uris[0].stored_n, b + 1, b + uris[1].stored_n)) == order_of_texts());
	LAW(sign(compare_path(b + 1, b + uris[1].stored_n, a + 1, a + uris[0].stored_n)) == -order_of_texts());
	if (order_of_texts() > 0)
		REACHED("a path behind another");
}

int
main(void)
{
	any_packed();
	compare("x1a", "x0aaaaaa");
	compare("x0a", "x/aaaaaaaaaa");
	compare("x0a", "x/aaaaaaaa/");
	compare("x1", "x2a");
	compare("x1T", "x0T");
	compare("x0a?a", "x/");
	return 0;
}
