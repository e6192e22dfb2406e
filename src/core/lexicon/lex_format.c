/*
 * lex_format.c
 *		The formats of Lexicon strings, by name: see lex_format.h.
 */
#include "core/lexicon/any_uri.h"
#include "core/syntax/chars.h"
#include "core/codec/cid.h"
#include "core/lexicon/datetime.h"
#include "core/syntax/did.h"
#include "core/syntax/handle.h"
#include "core/lexicon/language.h"
#include "core/lexicon/lex_format.h"
#include "core/syntax/nsid.h"
#include "core/syntax/recordkey.h"
#include "core/syntax/tid.h"
#include "core/syntax/uri.h"

static AtpErr
check_any(const char *s, size_t n, size_t *at)
{
	return ATP_OK;
}

/* */
static AtpErr
check_at_uri(const char *s, size_t n, size_t *at)
{
	AtpUri		uri;
	AtpErr		err = atp_uri_parse(ATP_SCHEME_AT, s, n, &uri, at);

	return err != ATP_OK ? err : atp_uri_check_lexicon(&uri, s, at);
}

/*
 * A CID in base32, the network's base, is parsed.  Of a CID in any other base only the loose syntax is checked
 * (D11).
 */
static AtpErr
check_cid(const char *s, size_t n, size_t *at)
{
	uint8_t		cid[ATP_CID_MAX];
	size_t		len;

	if (n > 0 && s[0] == 'b')
		return atp_cid_parse(s, n, cid, &len, at);
	return atp_cid_is_syntax(s, n) ? ATP_OK : atp_fail(ATP_E_LEX_CID, 0, at);
}

static AtpErr
check_datetime(const char *s, size_t n, size_t *at)
{
	int64_t		micros;

	return atp_datetime_parse(s, n, &micros, at);
}

static AtpErr
check_tid(const char *s, size_t n, size_t *at)
{
	uint64_t	tid;

	return atp_tid_parse(s, n, &tid, at);
}

static const struct
{
	const char *name;
	AtpErr		(*check) (const char *s, size_t n, size_t *at);
}			formats[ATP_LEX_FORMATS] = {
	[ATP_LEX_ANY] = {"", check_any},
	[ATP_LEX_AT_IDENTIFIER] = {"at-identifier", atp_identifier_check},
	[ATP_LEX_AT_URI] = {"at-uri", check_at_uri},
	[ATP_LEX_CID] = {"cid", check_cid},
	[ATP_LEX_DATETIME] = {"datetime", check_datetime},
	[ATP_LEX_DID] = {"did", atp_did_check},
	[ATP_LEX_HANDLE] = {"handle", atp_handle_check},
	[ATP_LEX_LANGUAGE] = {"language", atp_language_check},
	[ATP_LEX_NSID] = {"nsid", atp_nsid_check},
	[ATP_LEX_RECORD_KEY] = {"record-key", atp_rkey_check},
	[ATP_LEX_TID] = {"tid", check_tid},
	[ATP_LEX_URI] = {"uri", atp_any_uri_check},
};

const char *
atp_lex_format_name(AtpLexFormat format)
{
	return formats[format].name;
}

AtpLexFormat
atp_lex_format_named(AtpSpan name)
{
	AtpLexFormat format = ATP_LEX_ANY + 1;

	while (format < ATP_LEX_FORMATS && !atp_span_is(name, formats[format].name))
		format++;
	return format;
}

AtpErr
atp_lex_format_check(AtpLexFormat format, const char *s, size_t n, size_t *at)
{
	return formats[format].check(s, n, at);
}

bool
atp_lex_accepts(AtpSpan pattern, AtpSpan mime)
{
	/* The pattern of all types: treated as a prefix, "*" and a slash would match no type. */
	if (atp_span_is(pattern, "*/*"))
		return true;
	if (pattern.len > 0 && pattern.ptr[pattern.len - 1] == '*')
		pattern.len--;
	else if (pattern.len != mime.len)
		return false;
	if (mime.len < pattern.len)
		return false;
	for (size_t i = 0; i < pattern.len; i++)
		if (atp_char_lower(pattern.ptr[i]) != atp_char_lower(mime.ptr[i]))
			return false;
	return true;
}
