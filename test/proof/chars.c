/*
 * chars.c
 *		Labels between dots, %HH, and lower case: what handles, NSIDs, DIDs and URIs are made of.
 *
 * proves: atp_labels_check atp_lower_encoded atp_scan_encoded atp_is_triplet atp_triplet_value atp_put_triplet
 *	atp_char_lower atp_hex_value
 * sources: core/syntax/chars.c
 * short: -DN=5 --unwind 6
 * long: -DN=10 --unwind 12
 * not proved: labels of 63 characters and more: the loop is longer than the bound
 */
#include "core/syntax/chars.h"
#include "lib/proof.h"

static void
labels(void)
{
	unsigned	labels;
	unsigned	dots = 0;
	size_t		last;
	size_t		at;
	AtpErr		err;

	ANY_TEXT(s, n, N);
	err = atp_labels_check(s, n, &labels, &last, &at);
	LAW_OF_ERRORS(err, at, n);
	if (err != ATP_OK)
		return;
	for (size_t i = 0; i < n; i++)
		dots += s[i] == '.';
	LAW(labels == dots + 1);
	LAW(last < n && (last == 0 || s[last - 1] == '.'));
	LAW(s[0] != '.' && s[0] != '-' && s[n - 1] != '.' && s[n - 1] != '-');
	if (labels > 1)
		REACHED("two labels");
}

static void
triplets(void)
{
	char		c = (char) any_byte();
	char		text[3];
	char		once[N];

	LAW(atp_put_triplet(text, c) == text + 3);
	LAW(atp_is_triplet(text, text + 3) && !atp_is_triplet(text, text + 2));
	LAW(atp_triplet_value(text) == c);
	ANY_TEXT(s, n, N);
	ASSUME(atp_scan_encoded(s, s + n, ATP_C_DID) == s + n);
	atp_lower_encoded(s, n);
	LAW(atp_scan_encoded(s, s + n, ATP_C_DID) == s + n);
	memcpy(once, s, n);
	atp_lower_encoded(s, n);
	LAW(same_bytes(s, n, once, n));
	if (n > 3 && s[1] == '%')
		REACHED("a text with an encoding");
}

int
main(void)
{
	labels();
	triplets();
	return 0;
}
