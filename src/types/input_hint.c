/*
 * input_hint.c
 *		The HINT of an invalid value of a type: for a handle, an AT URI or the address of a page in place of a
 *		DID, for a DID or a source of links in place of an AT URI, for another form of an AT URI, for a part of an NSID.
 *
 * A type does not know which function it is read for.  So a hint says also which argument comes first in the
 * functions whose arguments are easily exchanged.
 */
#include "postgres.h"

#include "core/syntax/did.h"
#include "core/syntax/handle.h"
#include "core/syntax/nsid.h"
#include "core/syntax/recordkey.h"
#include "core/syntax/uri.h"
#include "core/syntax/uri_from.h"
#include "types/input_hint.h"

#define ASK_DID		"CALL atproto.resolve_handle('%.*s') tells the DID of the handle."

/* What remains of a text after this beginning; ptr is NULL if the text begins in another way. */
static AtpSpan
skip_beginning(AtpSpan s, const char *beginning)
{
	size_t		n = strlen(beginning);

	return s.ptr != NULL && s.len >= n && memcmp(s.ptr, beginning, n) == 0 ? (AtpSpan) {s.ptr + n, s.len - n} : (AtpSpan) {NULL, 0};
}

/* The text up to the next slash, question mark or number sign. */
static AtpSpan
first_segment(AtpSpan s)
{
	size_t		n = 0;

	while (n < s.len && strchr("/?#", s.ptr[n]) == NULL)
		n++;
	return (AtpSpan) {s.ptr, n};
}

static AtpSpan
skip_segment(AtpSpan s, AtpSpan first)
{
	return (AtpSpan) {s.ptr + first.len, s.len - first.len};
}

/* What follows "/profile/" in the address of a page. */
static AtpSpan
page_path(AtpSpan s)
{
	AtpSpan		host = skip_beginning(s, "https://");

	if (host.ptr == NULL)
		host = skip_beginning(s, "http://");
	return host.ptr == NULL ? host : skip_beginning(skip_segment(host, first_segment(host)), "/profile/");
}

/* The address of a server or a page. */
static bool
is_url(AtpSpan s)
{
	return skip_beginning(s, "https://").ptr != NULL || skip_beginning(s, "http://").ptr != NULL ||
		skip_beginning(s, "wss://").ptr != NULL || skip_beginning(s, "ws://").ptr != NULL;
}

static bool
is_did(AtpSpan s)
{
	size_t		at;

	return s.ptr != NULL && atp_did_check(s.ptr, s.len, &at) == ATP_OK;
}

static bool
is_handle(AtpSpan s)
{
	size_t		at;

	return s.ptr != NULL && atp_handle_check(s.ptr, s.len, &at) == ATP_OK;
}

static bool
is_nsid(AtpSpan s)
{
	size_t		at;

	return s.ptr != NULL && atp_nsid_check(s.ptr, s.len, &at) == ATP_OK;
}

static int
did_hint(AtpSpan s)
{
	AtpSpan		uri = skip_beginning(s, "at://");
	AtpSpan		page = page_path(s);
	AtpSpan		account = uri.ptr != NULL ? first_segment(uri) : page.ptr != NULL ? first_segment(page) : s;

	if (account.len > 0 && account.ptr[0] == '@')
		account = (AtpSpan) {account.ptr + 1, account.len - 1};
	if (is_did(account) && account.ptr == s.ptr + 1)
		return errhint("Leave the \"@\" out.");
	if (is_did(account))
		return errhint("This is %s; its DID is %.*s.", uri.ptr != NULL ? "an AT URI" : "the address of a page", (int) account.len, account.ptr);
	if (is_handle(account))
		return errhint("%s a handle; a DID is needed. " ASK_DID, account.ptr - s.ptr <= 1 ? "This looks like" : "This has", (int) account.len, account.ptr);
	if (is_url(s))
		return errhint("This is the address of a server or a page; a DID names an account, such as did:plc:ewvi7nxzyoun6zhxrhs64oiz.");
	return errhint("Give the DID of an account, such as did:plc:ewvi7nxzyoun6zhxrhs64oiz or did:web:example.com, not the name of a subscription or a schema. Where a function takes a schema, too, the DID comes first.");
}

/* The AT URI of what a page of Bluesky shows, palloc'd; NULL: unknown. */
static char *
page_uri(AtpSpan path)
{
	static const char *const kinds[][2] = {{"/post/", "app.bsky.feed.post"}, {"/feed/", "app.bsky.feed.generator"}, {"/lists/", "app.bsky.graph.list"}};
	AtpSpan		account = first_segment(path);
	size_t		at;

	for (int i = 0; i < lengthof(kinds); i++)
	{
		AtpSpan		key = first_segment(skip_beginning(skip_segment(path, account), kinds[i][0]));

		if (key.ptr != NULL && atp_rkey_check(key.ptr, key.len, &at) == ATP_OK)
			return psprintf("at://%.*s/%s/%.*s", (int) account.len, account.ptr, kinds[i][1], (int) key.len, key.ptr);
	}
	return skip_segment(path, account).len <= 1 ? psprintf("at://%.*s", (int) account.len, account.ptr) : NULL;
}

static int
aturi_hint(AtpSpan s)
{
	AtpSpan		path = page_path(s);
	AtpSpan		account = first_segment(path);
	const char *uri = is_did(account) || is_handle(account) ? page_uri(path) : NULL;
	const char *colon = memchr(s.ptr, ':', s.len);
	char		known[ATP_URI_MAX];
	size_t		n;

	if (atp_uri_from(s.ptr, s.len, known, &n))
		return errhint("aturi_from() reads this form; the AT URI is %.*s.", (int) n, known);
	if (uri != NULL && is_did(account))
		return errhint("This is the address of a page; the AT URI is %s.", uri);
	if (uri != NULL)
		return errhint("This is the address of a page; the AT URI is %s, with the account's DID in place of the handle. " ASK_DID, uri, (int) account.len, account.ptr);
	if (is_did(s))
		return errhint("This is a DID; the AT URI of the account is at://%.*s.", (int) s.len, s.ptr);
	if (colon != NULL && is_nsid((AtpSpan) {s.ptr, colon - s.ptr}))
		return errhint("This looks like a source of links. atproto.backlinks() takes the AT URI first, then the source.");
	return errhint("An AT URI looks like at://did:web:example.com, or at://did:web:example.com/app.bsky.feed.post/3l2eqkkbzi22u.");
}

static int
nsid_hint(AtpSpan s, AtpErr err)
{
	AtpSpan		uri = skip_beginning(s, "at://");
	AtpSpan		collection = uri.ptr == NULL ? uri : first_segment(skip_beginning(skip_segment(uri, first_segment(uri)), "/"));

	if (is_nsid(collection))
		return errhint("This is an AT URI; its collection is %.*s.", (int) collection.len, collection.ptr);
	return err == ATP_E_NSID_SEGMENTS || uri.ptr != NULL ? errhint("An NSID looks like app.bsky.feed.post.") : 0;
}

int
atp_input_hint(const char *type, const char *s, size_t n, AtpErr err)
{
	AtpSpan		text = {s, n};

	if (err == ATP_E_DID_PREFIX && strcmp(type, "did") == 0)
		return did_hint(text);
	if ((err == ATP_E_URI_SCHEME_AT || err == ATP_E_URI_AUTHORITY_EMPTY) && strcmp(type, "aturi") == 0)
		return aturi_hint(text);
	if (strcmp(type, "nsid") == 0)
		return nsid_hint(text, err);
	if (strcmp(type, "handle") == 0 && n > 1 && s[0] == '@')
		return errhint("Leave the \"@\" out.");
	return err == ATP_E_TID_LENGTH && strcmp(type, "atproto.tid") == 0 && n > 4 && s[4] == '-' ?
		errhint("For the TIDs of a time, use tid_floor() and tid_ceil().") : 0;
}
