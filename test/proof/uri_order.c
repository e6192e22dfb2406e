/*
 * uri_order.c
 *		The order of two stored URIs is the order of their texts that uri.h describes (A-21), in both directions; they are
 *		equal only if the texts are.
 *
 * For each length of the common beginning there is a run of its own, with this length as a constant; uri_search.c proves
 * the function that finds it.  Two beginnings of paths are compared by a function that uri_path.c proves.
 *
 * proves: atp_uri_cmp
 * sources: core/syntax/uri_order.c core/syntax/uri_store.c core/syntax/chars.c
 * replaces: common_prefix:proof_common_prefix compare_path:proof_compare_path
 * short: --unwind 70 --max-field-sensitivity-array-size 80
 * by hand: 37 s
 * long: -DLONG --unwind 70 --max-field-sensitivity-array-size 80
 * assumes: packed DIDs and TIDs are as lib/stored_uri.h says; the shapes of main()
 */
#include "lib/stored_uri.h"

static size_t common;
static int	order;				/* of the texts */
static bool reversed;			/* the second text is compared with the first */
static size_t path;				/* where the first text's path begins in the stored form */

/* None of these functions is called by atp_uri_cmp(). */
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

size_t
proof_common_prefix(const uint8_t *a, const uint8_t *b, size_t n)
{
	LAW(common <= n);
	return common;
}

/* Called only where both paths begin, and where one begins with a tag that the other has not. */
int
proof_compare_path(const uint8_t *a, const uint8_t *a_end, const uint8_t *b, const uint8_t *b_end)
{
	LAW(common == path);
	LAW(*a != *b && (atp_is_path_tag(*a) || atp_is_path_tag(*b)));
	return reversed ? -order : order;
}

static void
compare_all(void)
{
	const uint8_t *a = uris[0].stored;
	const uint8_t *b = uris[1].stored;
	size_t		an = uris[0].stored_n;
	size_t		bn = uris[1].stored_n;
	size_t		least = an < bn ? an : bn;
	bool		same = true;

	order = order_of_texts();
	for (common = 0; common <= least; common++)
	{
		bool		differ = common == least || a[common] != b[common];

		if (same && differ)
		{
			reversed = false;
			LAW(sign(atp_uri_cmp(a, an, b, bn)) == order);
			reversed = true;
			LAW(sign(atp_uri_cmp(b, bn, a, an)) == -order);
			if (common > ATP_DID_PLC_STORED && common < least)
				REACHED("a difference behind the authority");
		}
		same = same && !differ;
	}
}

/* Any two URIs with these shapes. */
static void
compare(const char *s, const char *t)
{
	any_uri(0, s);
	any_uri(1, t);
	ASSUME(is_canonical(&uris[0], s) && is_canonical(&uris[1], t));
	path = uris[0].packed ? ATP_DID_PLC_STORED : authority_len(&uris[0], s);
	compare_all();
}

/* Any URI with a TID beside one whose second segment, from segment to end, is none. */
static void
compare_tid(const char *s, const char *t, size_t segment, size_t end)
{
	any_uri(0, s);
	any_uri(1, t);
	ASSUME(!has_loose_tid(&uris[1], segment, end));
	compare_all();
}

int
main(void)
{
	any_packed();
	/* packed DIDs and TIDs on both sides, and behind them '/' and '?', whose weights are not ordered as their codes */
	compare("D/xT?", "D/xT/");
	compare("D/a", "D?a");
	compare("D", "D?");
	/* a packed DID beside any other authority */
	compare("D/a", "did:plc:aaaaaaaaaaaaaaaaaaaaaaaa?a");
	compare("D", "did:plc:aaaaaaaaaaaaaaaaaaaaaaaaa");
	compare("D", "did:plc:aa/");
	compare("D", "did:plc:aa");
	/* a TID beside any other segment */
	compare_tid("x/xT", "x/x/aaaaaaaaaaaaa?", 4, 17);
	compare_tid("x/xT#", "x/x/aaaaaaaaaaaaaa", 4, 18);
	compare_tid("x/xT", "x/x/aa#", 4, 6);
	compare_tid("x/xT", "x/x/aa", 4, 6);
	compare_tid("x/xT", "x/x?a", 0, 0);
	/* listed beginnings of paths */
	compare("x1a", "x0a");
	compare("x/aa", "x1");
	compare("x?a", "x1");
	/* nothing is packed */
	compare("xa/a", "xa?a#");
	return 0;
}
