/*
 * nsid.c
 *		Namespaced identifiers, and patterns of them: see nsid.h.
 */
#include "core/syntax/chars.h"
#include "core/syntax/nsid.h"

/*
 * I-01, I-02: three segments or more with the characters of labels, 317 bytes;
 * the first segment and the name do not begin with a digit, and the name has no
 * hyphen.  I-03: the published examples.  I-07: a '#' is no character of it.
 */
AtpErr
atp_nsid_check(const char *s, size_t n, size_t *at)
{
	unsigned	segments;
	size_t		name;
	const char *hyphen;
	AtpErr		err;

	if (n == 0)
		return atp_fail(ATP_E_EMPTY, 0, at);
	if (n > ATP_NSID_MAX)
		return atp_fail(ATP_E_NSID_LONG, ATP_NSID_MAX, at);
	err = atp_labels_check(s, n, &segments, &name, at);
	if (err != ATP_OK)
		return err;
	if (atp_char_is(s[0], ATP_C_DIGIT))
		return atp_fail(ATP_E_NSID_FIRST, 0, at);
	if (segments < 3)
		return atp_fail(ATP_E_NSID_SEGMENTS, n, at);
	if (atp_char_is(s[name], ATP_C_DIGIT))
		return atp_fail(ATP_E_NSID_NAME_DIGIT, name, at);
	hyphen = memchr(s + name, '-', n - name);
	if (hyphen != NULL)
		return atp_fail(ATP_E_NSID_NAME_HYPHEN, hyphen - s, at);
	return ATP_OK;
}

AtpSpan
atp_nsid_name(const char *s, size_t n)
{
	size_t		name = n;

	while (s[name - 1] != '.')
		name--;
	return (AtpSpan) {s + name, n - name};
}

AtpSpan
atp_nsid_domain(const char *s, size_t n)
{
	return (AtpSpan) {s, n - atp_nsid_name(s, n).len - 1};
}

void
atp_nsid_normalize(const char *s, size_t n, char *out)
{
	size_t		domain = atp_nsid_domain(s, n).len;

	for (size_t i = 0; i < domain; i++)
		out[i] = atp_char_lower(s[i]);
	memmove(out + domain, s + domain, n - domain);
}

AtpErr
atp_nsid_pattern_check(const char *s, size_t n, size_t *at)
{
	unsigned	segments;
	size_t		last;
	AtpErr		err;

	if (n == 0 || s[n - 1] != '*')
		return atp_nsid_check(s, n, at);
	if (n > ATP_NSID_MAX)
		return atp_fail(ATP_E_NSID_LONG, ATP_NSID_MAX, at);
	if (n == 1)
		return ATP_OK;
	if (s[n - 2] != '.')
		return atp_fail(ATP_E_NSID_STAR, n - 1, at);
	err = atp_labels_check(s, n - 2, &segments, &last, at);
	if (err != ATP_OK)
		return err;
	if (atp_char_is(s[0], ATP_C_DIGIT))
		return atp_fail(ATP_E_NSID_FIRST, 0, at);
	return ATP_OK;
}

bool
atp_nsid_matches(const char *s, size_t n, const char *pattern, size_t pn)
{
	if (pattern[pn - 1] != '*')
		return n == pn && memcmp(s, pattern, n) == 0;
	return n >= pn && memcmp(s, pattern, pn - 1) == 0;
}
