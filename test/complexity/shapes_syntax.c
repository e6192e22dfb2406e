/*
 * shapes_syntax.c
 *		Identifiers, formats of Lexicon strings, texts.
 */
#include "core/codec/cid.h"
#include "core/lexicon/grapheme.h"
#include "core/lexicon/lex_format.h"
#include "core/lexicon/any_uri.h"
#include "core/lexicon/language.h"
#include "core/syntax/allow_list.h"
#include "core/syntax/did.h"
#include "core/syntax/handle.h"
#include "core/syntax/markup.h"
#include "core/syntax/multikey.h"
#include "core/syntax/nsid.h"
#include "core/syntax/recordkey.h"
#include "core/syntax/uri.h"
#include "core/syntax/uri_from.h"
#include "measure.h"

#define ROUNDS	64				/* short inputs are read so often, so that the cost of a call counts for little */
#define TEXT_MAX	2000000			/* bytes of a record, and so of a text: ATP_CAR_BLOCK_MAX */

/* ------------------------------------------------------------------------
 * URIs
 * ------------------------------------------------------------------------
 */
static void
make_uri_dots(size_t n)
{
	put("at://a.b");
	put_times(n, "/..");
}

static void
make_uri_up(size_t n)
{
	put("at://a.b");
	put_times(n, "/a");
	put_times(n, "/..");
}

static void
make_uri_slashes(size_t n)
{
	put("at://a.b");
	put_times(n, "//");
}

static void
make_uri_encoded(size_t n)
{
	put("at://a.b/");
	put_times(n, "%61%2f");
}

/* An authority that is encoded again and again: %252525...3A */
static void
make_uri_twice(size_t n)
{
	put("at://did:plc:a%");
	put_times(n, "25");
	put("61");
}

static void
make_uri_query(size_t n)
{
	put("at://a.b?");
	put_times(n, "/?");
}

static bool
run_uri(void)
{
	static char out[ATP_URI_MAX];
	AtpUri		uri;
	size_t		n;
	size_t		at;

	if (input.len > ATP_URI_MAX)
		return false;
	(void) atp_uri_parse(ATP_SCHEME_AT, INPUT_TEXT, input.len, &uri, &at);
	return atp_uri_normalize(ATP_SCHEME_AT, INPUT_TEXT, input.len, out, &n, &at) == ATP_OK;
}

/* The stored form, and back; the order of equal URIs and of those that differ at the end. */
static bool
run_uri_order(void)
{
	static uint8_t a[ATP_URI_MAX];
	static uint8_t b[ATP_URI_MAX];
	static char out[ATP_URI_MAX];
	size_t		an = atp_uri_store(ATP_SCHEME_AT, INPUT_TEXT, input.len, a);
	size_t		bn;
	bool		good;

	memcpy(b, a, an);
	bn = an - 1;
	good = atp_uri_text(ATP_SCHEME_AT, a, an, out) == input.len && atp_uri_cmp(a, an, b, bn) > 0;
	(void) atp_uri_is_inside(a, an, b, bn);
	(void) atp_uri_upper_bound(ATP_SCHEME_AT, a, an, b, &bn);
	return good;
}

static void
make_fragment(size_t n)
{
	put("/");
	put_times(n, "%7E1/");
}

static bool
run_fragment(void)
{
	char		token[ATP_URI_MAX];
	size_t		pos = 0;
	size_t		len;
	size_t		at;
	AtpErr		err;

	while (atp_uri_pointer_next((AtpSpan) {INPUT_TEXT, input.len}, &pos, token, &len, &err, &at))
		;
	return err == ATP_OK;
}

/* What people paste: white space around a URI, and the address of a page with escapes. */
static void
make_pasted(size_t n)
{
	put_times(n, " ");
	put("at:did:m:v");
	put_times(n, "\t");
}

static bool
run_pasted(void)
{
	static char out[ATP_URI_MAX];
	size_t		n;

	return atp_uri_from(INPUT_TEXT, input.len, out, &n);
}

static void
make_page(size_t n)
{
	put("https://a.b/c/did:m:v");
	put_times(n, "%61");
}

static bool
run_page(void)
{
	static const AtpSpan pattern = {"https://a.b/c/{authority}", 25};
	static const AtpSpan uri = {"at://{authority}", 16};
	static char out[ATP_URI_MAX];
	size_t		n;

	return atp_uri_from_web(INPUT_TEXT, input.len, pattern, uri, out, &n);
}

static void
make_any_uri(size_t n)
{
	put("a:/");
	put_times(n, "%20");
}

static bool
run_any_uri(void)
{
	size_t		at;

	return atp_any_uri_check(INPUT_TEXT, input.len, &at) == ATP_OK;
}

/* ------------------------------------------------------------------------
 * Short texts
 * ------------------------------------------------------------------------
 */
static bool
check_format(AtpLexFormat of)
{
	bool		good = true;
	size_t		at;

	for (int i = 0; i < ROUNDS; i++)
		good = good && atp_lex_format_check(of, INPUT_TEXT, input.len, &at) == ATP_OK;
	return good;
}

static void
make_did(size_t n)
{
	put("did:a:b");
	put_times(n, ":%25b");
}

static bool
run_did(void)
{
	char		out[ATP_DID_MAX];
	size_t		at;

	for (int i = 0; i < ROUNDS; i++)
	{
		if (atp_did_check(INPUT_TEXT, input.len, &at) != ATP_OK)
			return false;
		(void) atp_did_normalize(INPUT_TEXT, input.len, out);
	}
	return true;
}

static void
make_did_twice(size_t n)
{
	put("did:a:b%");
	put_times(n, "25");
	put("61");
}

static void
make_handle(size_t n)
{
	put_times(n, "a.");
	put("a.com");
}

static bool
run_handle(void)
{
	return check_format(ATP_LEX_HANDLE);
}

static void
make_nsid(size_t n)
{
	put_times(n, "a.");
	put("a.b.c");
}

static bool
run_nsid(void)
{
	return check_format(ATP_LEX_NSID);
}

static void
make_rkey(size_t n)
{
	put("a");
	put_times(n, "~");
}

static bool
run_rkey(void)
{
	return check_format(ATP_LEX_RECORD_KEY);
}

static void
make_language(size_t n)
{
	put("en-a-bb");
	put_times(n, "-c-dd");
}

static bool
run_language(void)
{
	return check_format(ATP_LEX_LANGUAGE);
}

/* Digits of base58: each digit multiplies the number before it. */
static void
make_key(size_t n)
{
	put("z");
	put_times(n, "z");
}

static bool
run_key(void)
{
	uint8_t		key[ATP_MULTIKEY_LEN];
	uint8_t		point[ATP_POINT_LONG_LEN];
	size_t		len;
	size_t		at;

	for (int i = 0; i < ROUNDS; i++)
		(void) atp_multikey_parse_bare(INPUT_TEXT, input.len, ATP_K256, key, point, &len, &at);
	return true;
}

static void
make_cid(size_t n)
{
	put("b");
	put_times(n, "a");
}

static bool
run_cid(void)
{
	uint8_t		cid[ATP_CID_MAX];
	size_t		len;
	size_t		at;

	for (int i = 0; i < ROUNDS; i++)
		(void) atp_cid_parse(INPUT_TEXT, input.len, cid, &len, &at);
	return true;
}

/* ------------------------------------------------------------------------
 * Long texts
 * ------------------------------------------------------------------------
 */

/* Pictures joined to one grapheme; flags; letters with marks; Indic conjuncts. */
static void
make_pictures(size_t n)
{
	put_times(n, "\xf0\x9f\x91\xa9\xe2\x80\x8d");
}

static void
make_flags(size_t n)
{
	put_times(n, "\xf0\x9f\x87\xa9");
}

static void
make_marks(size_t n)
{
	put("a");
	put_times(n, "\xcc\x81");
}

static void
make_conjuncts(size_t n)
{
	put_times(n, "\xe0\xa4\x95\xe0\xa5\x8d");
}

static bool
run_graphemes(void)
{
	return atp_graphemes(INPUT_TEXT, input.len, SIZE_MAX - 1) <= input.len;
}

#define PAGE_MAX	8192

static void
make_markup(size_t n)
{
	put_times(n, "<script");
}

static void
make_markup_tags(size_t n)
{
	put_times(n, "<b> a");
}

static bool
run_markup(void)
{
	size_t		n = input.len;
	char		page[PAGE_MAX];

	if (n > sizeof(page))
		return false;
	memcpy(page, input.buf, n);
	return atp_strip_markup(page, n) <= n;
}

/* A setting, not a stranger's input; but the host that is looked for is a stranger's. */
static void
make_allow(size_t n)
{
	put("http://a");
	put_times(n, ",http://a.b:1,10.0.0.0/8");
}

static bool
run_allow(void)
{
	AtpAddress	address = atp_address_of((const uint8_t *) "\13\0\0\1", 4);
	size_t		at;

	return atp_allow_check(INPUT_TEXT, input.len, &at) == ATP_OK &&
		!atp_allow_host(INPUT_TEXT, input.len, (AtpSpan) {"http", 4}, (AtpSpan) {"b", 1}, 80) &&
		!atp_allow_address(INPUT_TEXT, input.len, &address);
}

const Shape syntax_shapes[] = {
	{"uri-dots", ATP_URI_MAX / 3 - 8, 0, make_uri_dots, run_uri},
	{"uri-up", ATP_URI_MAX / 5 - 8, 0, make_uri_up, run_uri},
	{"uri-slashes", ATP_URI_MAX / 2 - 8, 0, make_uri_slashes, run_uri},
	{"uri-encoded", ATP_URI_MAX / 6 - 8, 0, make_uri_encoded, run_uri},
	{"uri-twice", ATP_DID_MAX / 2 - 16, 0, make_uri_twice, run_uri},
	{"uri-query", ATP_URI_MAX / 2 - 8, 0, make_uri_query, run_uri},
	{"uri-order", ATP_URI_MAX / 6 - 8, 0, make_uri_encoded, run_uri_order},
	{"uri-fragment", ATP_URI_MAX / 5 - 8, 0, make_fragment, run_fragment},
	{"uri-pasted", TEXT_MAX / 2, 4096, make_pasted, run_pasted},
	{"uri-page", ATP_DID_MAX - 8, 0, make_page, run_page},
	{"any-uri", ATP_ANY_URI_MAX / 3 - 8, 0, make_any_uri, run_any_uri},
	{"did", ATP_DID_MAX / 5 - 8, 0, make_did, run_did},
	{"did-twice", ATP_DID_MAX / 2 - 8, 0, make_did_twice, run_did},
	{"handle", ATP_HANDLE_MAX / 2 - 4, 0, make_handle, run_handle},
	{"nsid", 120, 0, make_nsid, run_nsid},
	{"recordkey", ATP_RKEY_MAX - 1, 0, make_rkey, run_rkey},
	{"language", ATP_LANGUAGE_MAX / 5 - 1, 0, make_language, run_language},
	{"multikey", ATP_BASE58_MAX - 40, 0, make_key, run_key},
	{"cid", ATP_CID_TEXT_MAX - 1, 0, make_cid, run_cid},
	{"graphemes-pictures", TEXT_MAX / 7, 4096, make_pictures, run_graphemes},
	{"graphemes-flags", TEXT_MAX / 4, 4096, make_flags, run_graphemes},
	{"graphemes-marks", TEXT_MAX / 2 - 1, 4096, make_marks, run_graphemes},
	{"graphemes-conjuncts", TEXT_MAX / 6, 4096, make_conjuncts, run_graphemes},
	{"markup", PAGE_MAX / 7, 0, make_markup, run_markup},
	{"markup-tags", PAGE_MAX / 5, 0, make_markup_tags, run_markup},
	{"allow-list", PAGE_MAX / 24 - 1, 0, make_allow, run_allow},
	{NULL}
};
