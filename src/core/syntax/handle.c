/*
 * handle.c
 *		Handles: syntax, normal form, and the list of disallowed TLDs; at-identifiers.
 */
#include "core/syntax/chars.h"
#include "core/syntax/did.h"
#include "core/syntax/handle.h"

/*
 * I-10: two labels or more, 253 bytes, and the last label does not begin with a
 * digit.  I-11: the published invalid examples.  I-14: only ASCII is accepted,
 * so that an internationalized name comes as "xn--...".
 */
AtpErr
atp_handle_check(const char *s, size_t n, size_t *at)
{
	unsigned	labels;
	size_t		last;
	AtpErr		err;

	if (n == 0)
		return atp_fail(ATP_E_EMPTY, 0, at);
	if (n > ATP_HANDLE_MAX)
		return atp_fail(ATP_E_HANDLE_LONG, ATP_HANDLE_MAX, at);
	err = atp_labels_check(s, n, &labels, &last, at);
	if (err != ATP_OK)
		return err;
	if (labels < 2)
		return atp_fail(ATP_E_HANDLE_LABELS, n, at);
	if (atp_char_is(s[last], ATP_C_DIGIT))
		return atp_fail(ATP_E_HANDLE_TLD, last, at);
	return ATP_OK;
}

/* I-12 */
void
atp_handle_normalize(const char *s, size_t n, char *out)
{
	for (size_t i = 0; i < n; i++)
		out[i] = atp_char_lower(s[i]);
}

bool
atp_handle_tld_allowed(const char *s, size_t n)
{
	static const char *const reserved[] = {
		"alt", "arpa", "example", "internal", "invalid", "local", "localhost", "onion"
	};
	size_t		tld = n;

	while (tld > 0 && s[tld - 1] != '.')
		tld--;
	for (size_t i = 0; i < sizeof(reserved) / sizeof(reserved[0]); i++)
	{
		const char *r = reserved[i];
		size_t		j = tld;

		while (j < n && *r != '\0' && atp_char_lower(s[j]) == *r)
			j++, r++;
		if (j == n && *r == '\0')
			return false;
	}
	return true;
}

AtpErr
atp_identifier_check(const char *s, size_t n, size_t *at)
{
	if (n >= 4 && memcmp(s, "did:", 4) == 0)
		return atp_did_check(s, n, at);
	return atp_handle_check(s, n, at);
}
