/*
 * uri_normalize.c
 *		The normal form of URIs (N1 to N10, doc/develop/conformance.md), computed from
 *		liberal text.  No step makes the text longer, so each part is written to
 *		the output once and finished there.
 */
#include "core/syntax/did.h"
#include "core/syntax/nsid.h"
#include "core/syntax/uri_private.h"
#include "core/syntax/uri_space.h"

/* The places of reading in the input and of writing in the output. */
typedef struct Work
{
	const char *s;				/* start of the input, for offsets */
	const char *in;
	const char *end;
	char	   *out;
	AtpScheme	scheme;
	bool		valid;			/* the input is known to be a valid URI */
} Work;

/* Which encodings step 2 decodes. */
typedef enum Decode
{
	DECODE,
	DECODE_DID,					/* as DECODE, but not '~', which a DID cannot contain */
	DECODE_NOTHING
} Decode;

/*
 * Copies characters of class and encodings, up to a delimiter in stop or the
 * end of input.  Needless encodings are decoded (N3); all other encodings get
 * upper-case digits (N2).
 */
static AtpErr
copy_part(Work *w, unsigned class, const char *stop, Decode decode, size_t *at)
{
	const char *in = w->in;
	const char *end = w->end;
	char	   *out = w->out;

	for (;;)
	{
		char		value;

		while (in < end && atp_char_is(*in, class))
			*out++ = *in++;
		if (in == end || *in != '%')
			break;
		if (!atp_is_triplet(in, end))
			return atp_fail(ATP_E_PERCENT, in - w->s, at);
		value = atp_triplet_value(in);
		if (decode != DECODE_NOTHING && atp_is_needless_encoding(value, decode == DECODE_DID))
			*out++ = value;
		else
			out = atp_put_triplet(out, value);
		in += 3;
	}
	if (in < end && (*in == '\0' || strchr(stop, *in) == NULL))
		return atp_fail(class != ATP_C_AUTHORITY ? ATP_E_URI_CHAR :
						*in == '@' ? ATP_E_URI_USERINFO : ATP_E_URI_AUTHORITY_CHAR,
						in - w->s, at);
	w->in = in;
	w->out = out;
	return ATP_OK;
}

/* Copies the authority at in to out. */
static AtpErr
copy_authority(Work *w, const char *in, char *out, Decode decode, size_t *at)
{
	w->in = in;
	w->out = out;
	return copy_part(w, ATP_C_AUTHORITY, "/?#", decode, at);
}

/* D8: returns the place after the ':' or "%3A" at p, or NULL. */
static char *
skip_colon(char *p, const char *end)
{
	if (p < end && *p == ':')
		return p + 1;
	if (end - p >= 3 && memcmp(p, "%3A", 3) == 0)
		return p + 3;
	return NULL;
}

/* Does the text begin with "did" in any case and a colon, also an encoded one? */
static bool
begins_did(char *a, const char *end)
{
	return end - a > 3 && atp_char_lower(a[0]) == 'd' && atp_char_lower(a[1]) == 'i' &&
		atp_char_lower(a[2]) == 'd' && skip_colon(a + 3, end) != NULL;
}

/*
 * D8: the text from a to end begins with "did" and a colon: writes its first
 * two colons as ':'.  Returns the new end; *id is where the identifier begins,
 * or the new end.
 */
static char *
unescape_did(char *a, char *end, char **id)
{
	char	   *in = skip_colon(a + 3, end);
	char	   *out = a + 3;

	*out++ = ':';
	while (in < end && *in != ':' && *in != '%')
		*out++ = *in++;
	in = skip_colon(in, end);
	*id = out;
	if (in == NULL)
		return out;				/* no DID: the text ends within the method */
	*out++ = ':';
	*id = out;
	memmove(out, in, end - in);
	return out + (end - in);
}

/*
 * The authority of a valid URI that begins as a DID only when its colon is
 * decoded, and then is an invalid DID ("did%3Aplc3Aabc").  The authority is
 * opaque, and gets lower case (N5).  But N5 must not turn the authority into a
 * DID by lower-casing, or into a text that begins as a DID by decoding letters:
 * then the authority stays as written.
 *
 * The text from a to id, where the identifier begins, has been through N4.
 */
static AtpErr
normalize_opaque(Work *w, const char *in, char *a, char *id, size_t *at)
{
	AtpErr		err;

	for (char *p = a; p < id; p++)
		*p = atp_char_lower(*p);
	if (atp_did_check(a, w->out - a, at) == ATP_OK)
		return copy_authority(w, in, a, DECODE_NOTHING, at);

	err = copy_authority(w, in, a, DECODE, at);
	if (atp_uri_begins_did(a, w->out))
		return copy_authority(w, in, a, DECODE_NOTHING, at);
	atp_lower_encoded(a, w->out - a);
	return err;
}

/* N4: normalizes an authority that begins as a DID, perhaps with an encoded colon. */
static AtpErr
normalize_did(Work *w, const char *in, char *a, size_t *at)
{
	AtpErr		err = copy_authority(w, in, a, DECODE_DID, at);
	char	   *id;

	if (err != ATP_OK)
		return err;
	w->out = unescape_did(a, w->out, &id);
	w->out = a + atp_did_normalize(a, w->out - a, a);
	err = atp_did_check(a, w->out - a, at);
	/* An offset in rewritten text is no offset in the input: give the authority's start instead. */
	if (err != ATP_OK)
		*at = (w->in - in == w->out - a ? *at : 0) + (in - w->s);
	return err == ATP_OK || !w->valid ? err : normalize_opaque(w, in, a, id, at);
}

/* N4: an authority that is a DID; N5: other authorities, in lower case. */
static AtpErr
normalize_authority(Work *w, size_t *at)
{
	const char *in = w->in;
	char	   *a = w->out;
	AtpErr		err = copy_authority(w, in, a, DECODE, at);

	if (err != ATP_OK)
		return err;
	if (w->in == in)
		return atp_fail(ATP_E_URI_AUTHORITY_EMPTY, in - w->s, at);
	/* N-07: the rules of DIDs do not apply to NOSH URIs. */
	if (w->scheme == ATP_SCHEME_AT && begins_did(a, w->out))
		return normalize_did(w, in, a, at);
	if (*a == ':' || w->out[-1] == ':')
		return atp_fail(ATP_E_URI_AUTHORITY_COLON, (*a == ':' ? in : w->in - 1) - w->s, at);
	atp_lower_encoded(a, w->out - a);
	return ATP_OK;
}

/*
 * N6: removes dot segments; N7, N8: doubled slashes and slashes at the end; N9:
 * the domain of a collection gets lower case; N10: the record key keeps its case.
 */
static AtpErr
normalize_path(Work *w, size_t *at)
{
	char	   *path = w->out;
	char	   *from;
	char	   *to;
	size_t		unused;

	/* remove_dot_segments (RFC 3986, 5.2.4): ".." also removes an empty segment. */
	while (w->in < w->end && *w->in == '/')
	{
		char	   *segment = w->out;
		size_t		n;
		AtpErr		err;

		*w->out++ = *w->in++;
		err = copy_part(w, ATP_C_PCHAR, "/?#", DECODE, at);
		if (err != ATP_OK)
			return err;
		n = w->out - segment;
		if (n == 2 && segment[1] == '.')
			w->out = segment;
		else if (n == 3 && segment[1] == '.' && segment[2] == '.')
		{
			w->out = segment;
			while (w->out > path && *--w->out != '/')
				;
		}
	}

	/* Repeated and final slashes can go only now: ".." counts empty segments. */
	for (from = to = path; from < w->out; from++)
	{
		if (*from != '/' || (from + 1 < w->out && from[1] != '/'))
			*to++ = *from;
	}
	w->out = to;

	if (path < to)
	{
		const char *slash;

		path++;
		slash = memchr(path, '/', to - path);
		if (slash == NULL)
			slash = to;
		if (atp_nsid_check(path, slash - path, &unused) == ATP_OK)
			atp_nsid_normalize(path, slash - path, path);
		else if (w->scheme == ATP_SCHEME_AT)
			atp_uri_space_normalize(path, to);
	}
	return ATP_OK;
}

/* N1: the scheme may have any case.  D7: query and fragment stay. */
static AtpErr
normalize_parts(Work *w, size_t *at)
{
	AtpErr		err;

	if (w->end - w->s > ATP_URI_MAX)
		return atp_fail(ATP_E_URI_LONG, ATP_URI_MAX, at);
	for (const char *prefix = atp_uri_prefix(w->scheme); *prefix != '\0'; prefix++)
	{
		if (w->in == w->end || atp_char_lower(*w->in) != *prefix)
			return atp_fail(w->scheme == ATP_SCHEME_AT ? ATP_E_URI_SCHEME_AT :
							ATP_E_URI_SCHEME_NOSH, w->in - w->s, at);
		w->in++;
		*w->out++ = *prefix;
	}
	err = normalize_authority(w, at);
	if (err == ATP_OK)
		err = normalize_path(w, at);
	if (err == ATP_OK && w->in < w->end && *w->in == '?')
	{
		*w->out++ = *w->in++;
		err = copy_part(w, ATP_C_QUERY, "#", DECODE, at);
	}
	if (err == ATP_OK && w->in < w->end && *w->in == '#')
	{
		*w->out++ = *w->in++;
		if (w->in == w->end || *w->in != '/')
			return atp_fail(ATP_E_URI_FRAGMENT, w->in - w->s, at);
		err = copy_part(w, ATP_C_QUERY, "", DECODE, at);
	}
	return err;
}

AtpErr
atp_uri_normalize(AtpScheme scheme, const char *restrict s, size_t n,
				  char *restrict out, size_t *on, size_t *at)
{
	Work		w = {s, s, s + n, out, scheme, false};
	AtpErr		err = normalize_parts(&w, at);

	*on = w.out - out;
	return err;
}

AtpErr
atp_uri_normal_form(AtpScheme scheme, const char *restrict s, size_t n,
					char *restrict out, size_t *on)
{
	Work		w = {s, s, s + n, out, scheme, true};
	size_t		unused;
	AtpErr		err = normalize_parts(&w, &unused);

	*on = w.out - out;
	return err;
}
