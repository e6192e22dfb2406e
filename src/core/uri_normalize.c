/*
 * uri_normalize.c
 *		The normal form of URIs (N1 to N10, doc/conformance.md), on
 *		liberal text.  No step makes the text longer, so each part is written
 *		to the output once and finished there.
 */
#include "did.h"
#include "nsid.h"
#include "uri_private.h"

/* Where the input is being read, and where the output is written. */
typedef struct Work
{
	const char *s;				/* the whole input, for offsets */
	const char *in;
	const char *end;
	char	   *out;
} Work;

static const char hex_digit[] = "0123456789ABCDEF";

/*
 * Steps 2 and N3: copies up to a delimiter in stop (or the end of input) what
 * is of class or encoded; needless encodings are decoded, the others get
 * upper-case digits.
 */
static AtpErr
copy_part(Work *w, unsigned class, const char *stop, bool in_did, size_t *at)
{
	const char *in = w->in;
	const char *end = w->end;
	char	   *out = w->out;

	for (;;)
	{
		unsigned	value;

		while (in < end && atp_char_is(*in, class))
			*out++ = *in++;
		if (in == end || *in != '%')
			break;
		if (!atp_is_triplet(in, end))
			return atp_fail(ATP_E_PERCENT, in - w->s, at);
		value = atp_hex_value(in[1]) << 4 | atp_hex_value(in[2]);
		if (atp_is_needless_encoding((char) value, in_did))
			*out++ = (char) value;
		else
		{
			*out++ = '%';
			*out++ = hex_digit[value >> 4];
			*out++ = hex_digit[value & 15];
		}
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

/* D8: past the ':' or "%3A" at p, or NULL when there is none. */
static char *
skip_colon(char *p, const char *end)
{
	if (p < end && *p == ':')
		return p + 1;
	if (end - p >= 3 && memcmp(p, "%3A", 3) == 0)
		return p + 3;
	return NULL;
}

/* "did" in any case and a colon, as such or encoded. */
static bool
begins_did(char *a, const char *end)
{
	return end - a > 3 && atp_char_lower(a[0]) == 'd' && atp_char_lower(a[1]) == 'i' &&
		atp_char_lower(a[2]) == 'd' && skip_colon(a + 3, end) != NULL;
}

/*
 * N4: "%25HH" is "%HH" encoded twice.  Looks at the end of what has been
 * written, after each character, so that it costs the same however deeply the
 * text was encoded; returns the new end.
 */
static char *
collapse_tail(const char *start, char *out)
{
	while (out - start >= 5 && memcmp(out - 5, "%25", 3) == 0 &&
		   atp_char_is(out[-2], ATP_C_HEX) && atp_char_is(out[-1], ATP_C_HEX))
	{
		char		value = (char) (atp_hex_value(out[-2]) << 4 | atp_hex_value(out[-1]));

		out -= 4;
		if (atp_is_needless_encoding(value, true))
			out[-1] = value;
		else
		{
			out[0] = atp_char_upper(out[2]);
			out[1] = atp_char_upper(out[3]);
			out += 2;
			break;
		}
	}
	return out;
}

/* Step 3: a to end, a DID that has been through step 2; returns its new end. */
static char *
finish_did(char *a, char *end)
{
	char	   *in = skip_colon(a + 3, end);
	char	   *out = a + 3;
	char	   *id;

	*out++ = ':';
	while (in < end && *in != ':' && *in != '%')
		*out++ = *in++;
	in = skip_colon(in, end);
	if (in == NULL)
		return out;				/* no DID: it ends in its method */
	*out++ = ':';
	id = out;
	if (memchr(in, '%', end - in) == NULL)
	{
		memmove(out, in, end - in);
		out += end - in;
	}
	else
	{
		while (in < end)
		{
			*out++ = *in++;
			out = collapse_tail(id, out);
		}
	}
	return a + atp_did_normalize(a, out - a, a);
}

/* Steps 3 and 4. */
static AtpErr
normalize_authority(Work *w, size_t *at)
{
	const char *in = w->in;
	char	   *a = w->out;
	AtpErr		err = copy_part(w, ATP_C_AUTHORITY, "/?#", false, at);

	if (err != ATP_OK)
		return err;
	if (w->in == in)
		return atp_fail(ATP_E_URI_AUTHORITY_EMPTY, in - w->s, at);
	if (begins_did(a, w->out))
	{
		if (memchr(in, '%', w->in - in) != NULL)
		{
			/* once more, with the encodings that a DID needs */
			w->in = in;
			w->out = a;
			err = copy_part(w, ATP_C_AUTHORITY, "/?#", true, at);
			if (err != ATP_OK)
				return err;
		}
		w->out = finish_did(a, w->out);
		err = atp_did_check(a, w->out - a, at);
		/* an offset in rewritten text is none in the input */
		if (err != ATP_OK)
			*at = (w->in - in == w->out - a ? *at : 0) + (in - w->s);
		return err;
	}
	if (*a == ':' || w->out[-1] == ':')
		return atp_fail(ATP_E_URI_AUTHORITY_COLON, (*a == ':' ? in : w->in - 1) - w->s, at);
	atp_lower_encoded(a, w->out - a);
	return ATP_OK;
}

/* Steps 5 and 6. */
static AtpErr
normalize_path(Work *w, size_t *at)
{
	char	   *path = w->out;
	char	   *from;
	char	   *to;
	size_t		unused;

	/* remove_dot_segments (RFC 3986, 5.2.4): ".." takes an empty segment, too */
	while (w->in < w->end && *w->in == '/')
	{
		char	   *segment = w->out;
		size_t		n;
		AtpErr		err;

		*w->out++ = *w->in++;
		err = copy_part(w, ATP_C_PCHAR, "/?#", false, at);
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

	/* only now the slashes that are repeated or last */
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
	}
	return ATP_OK;
}

AtpErr
atp_uri_normalize(AtpScheme scheme, const char *restrict s, size_t n, char *restrict out, size_t *on, size_t *at)
{
	Work		w = {s, s, s + n, out};
	AtpErr		err;

	if (n > ATP_URI_MAX)
		return atp_fail(ATP_E_URI_LONG, ATP_URI_MAX, at);
	for (const char *prefix = atp_uri_prefix(scheme); *prefix != '\0'; prefix++)
	{
		if (w.in == w.end || atp_char_lower(*w.in) != *prefix)
			return atp_fail(scheme == ATP_SCHEME_AT ? ATP_E_URI_SCHEME_AT :
							ATP_E_URI_SCHEME_NOSH, w.in - s, at);
		w.in++;
		*w.out++ = *prefix;
	}
	err = normalize_authority(&w, at);
	if (err == ATP_OK)
		err = normalize_path(&w, at);
	if (err == ATP_OK && w.in < w.end && *w.in == '?')
	{
		*w.out++ = *w.in++;
		err = copy_part(&w, ATP_C_QUERY, "#", false, at);
	}
	if (err == ATP_OK && w.in < w.end && *w.in == '#')
	{
		*w.out++ = *w.in++;
		if (w.in == w.end || *w.in != '/')
			return atp_fail(ATP_E_URI_FRAGMENT, w.in - s, at);
		err = copy_part(&w, ATP_C_QUERY, "", false, at);
	}
	*on = w.out - out;
	return err;
}
