/*
 * fuzz_packed.c
 *		The packed form of DAG-CBOR: any strict DAG-CBOR comes back, whole and in parts; reading a damaged value stays
 *		within the value.
 *
 * Input: DAG-CBOR, or a stored value.
 */
#include "packed_check.h"

#define CHECK(cond)	do { if (!(cond)) abort(); } while (0)
#define PARTS		2000		/* parts read of one input */

extern int	LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Exactly one value, for the strict reader. */
static bool
is_strict(AtpBytes cbor)
{
	AtpCborReader r;
	AtpCborItem head;
	size_t		at;

	atp_cbor_init(&r, cbor.ptr, cbor.len, ATP_CBOR_DEPTH_DEFAULT);
	return atp_cbor_next(&r, &head, &at) == ATP_OK && atp_cbor_finish(&r, 0, &at) == ATP_OK && r.pos == cbor.len;
}

/* In memory of exactly this size, so that ASan reports a read or write beyond. */
static AtpBytes
unpack(const AtpPackedPart *part)
{
	size_t		n;
	size_t		again;
	uint8_t    *out;

	CHECK(atp_part_unpack(part, NULL, 0, &n) == ATP_OK);
	out = malloc(n);
	CHECK(atp_part_unpack(part, out, n, &again) == ATP_OK && again == n);
	return (AtpBytes) {out, n};
}

/* A part can be stored alone, and has the kind, number of members and text of the part's DAG-CBOR. */
static void
check_part(const AtpPackedPart *part, AtpBytes cbor)
{
	AtpBytes	unpacked = unpack(part);
	uint8_t    *stored = malloc(atp_part_size(part));
	char		buf[ATP_PART_TEXT_MAX];
	AtpCborReader r;
	AtpCborItem head;
	AtpCborKind kind;
	uint64_t	count;
	AtpSpan		text;
	bool		has_nul;
	size_t		at;

	CHECK(unpacked.len == cbor.len && memcmp(unpacked.ptr, cbor.ptr, cbor.len) == 0);
	atp_part_store(part, stored);
	CHECK(check_packed((AtpBytes) {stored, atp_part_size(part)}) == ATP_OK);
	atp_cbor_init(&r, cbor.ptr, cbor.len, ATP_CBOR_DEPTH_DEFAULT);
	CHECK(atp_cbor_next(&r, &head, &at) == ATP_OK);
	CHECK(atp_part_kind(part, &kind) == ATP_OK && kind == head.kind);
	CHECK(atp_part_count(part, &count) == ATP_OK);
	CHECK(count == (kind == ATP_CBOR_ARRAY || kind == ATP_CBOR_MAP ? head.u : 0));
	CHECK(atp_part_text(part, buf, &text, &has_nul) == ATP_OK && (text.ptr != NULL) == (kind == ATP_CBOR_TEXT));
	CHECK(text.ptr == NULL || (text.len == head.str.len && memcmp(text.ptr, head.str.ptr, text.len) == 0 && has_nul == head.has_nul));
	free((void *) unpacked.ptr);
	free(stored);
}

/* Reads the value with the strict reader, and goes to the same value in the packed form; r stands behind the value then. */
static void
check_parts(const AtpPackedPart *part, AtpCborReader *r, unsigned *budget)
{
	unsigned	depth = r->depth;
	size_t		start = r->pos;
	AtpCborItem head;
	size_t		at;
	bool		found;

	CHECK(atp_cbor_next(r, &head, &at) == ATP_OK);
	for (uint64_t i = 0; (head.kind == ATP_CBOR_ARRAY || head.kind == ATP_CBOR_MAP) && i < head.u && *budget > 0; i++)
	{
		AtpPackedPart		member = *part;
		AtpPackedPart		last = *part;
		AtpCborItem key;

		(*budget)--;
		if (head.kind == ATP_CBOR_MAP)
		{
			CHECK(atp_cbor_next(r, &key, &at) == ATP_OK);
			CHECK(atp_part_key(&member, atp_cbor_span(&key), &found) == ATP_OK && found);
			CHECK(atp_part_member(&last, 0, &found) == ATP_OK && !found);
		}
		else
		{
			CHECK(atp_part_member(&member, (int64_t) i, &found) == ATP_OK && found);
			CHECK(atp_part_member(&last, (int64_t) (i - head.u), &found) == ATP_OK && found);
			CHECK(last.code == member.code && last.content.ptr == member.content.ptr && last.content.len == member.content.len);
		}
		check_parts(&member, r, budget);
	}
	CHECK(atp_cbor_finish(r, depth, &at) == ATP_OK);
	check_part(part, (AtpBytes) {r->buf + start, r->pos - start});
}

static void
check_stored(AtpBytes stored, AtpBytes cbor)
{
	unsigned	budget = PARTS;
	AtpCborReader r;
	AtpPackedPart		whole;

	CHECK(check_packed(stored) == ATP_OK);
	CHECK(atp_part_whole(stored, &whole) == ATP_OK);
	atp_cbor_init(&r, cbor.ptr, cbor.len, ATP_CBOR_DEPTH_DEFAULT);
	check_parts(&whole, &r, &budget);
}

/* The DAG-CBOR packed, and as a plain value. */
static void
pack(AtpBytes cbor)
{
	uint8_t    *out = malloc(ATP_PACKED_ROOM(cbor.len));
	size_t		n;
	size_t		at;
	uint8_t    *stored;

	if (atp_packed_store(cbor, out, &n, &at) == ATP_OK)
	{
		CHECK(n <= cbor.len + 1 && is_strict(cbor));
		stored = malloc(n);
		memcpy(stored, out, n);
		check_stored((AtpBytes) {stored, n}, cbor);
		free(stored);
		stored = malloc(cbor.len + 1);
		stored[0] = ATP_PACKED_PLAIN;
		memcpy(stored + 1, cbor.ptr, cbor.len);
		check_stored((AtpBytes) {stored, cbor.len + 1}, cbor);
		free(stored);
	}
	else
		CHECK(at <= cbor.len && !is_strict(cbor));
	free(out);
}

/* Reads fields and members of a damaged stored value: only the bounds must hold. */
static void
read_damaged(AtpBytes stored)
{
	static const char *const names[] = {"$type", "reply", "uri", "cid", "text", "subject", "createdAt", "zzz", ""};
	char		buf[ATP_PART_TEXT_MAX];
	AtpPackedPart		whole;
	AtpCborKind kind;
	uint64_t	count;
	AtpSpan		text;
	bool		has_nul;
	size_t		n;
	bool		found;

	if (atp_part_whole(stored, &whole) != ATP_OK)
		return;
	(void) atp_part_kind(&whole, &kind);
	(void) atp_part_count(&whole, &count);
	(void) atp_part_text(&whole, buf, &text, &has_nul);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
	{
		AtpPackedPart		part = whole;

		if (atp_part_key(&part, (AtpSpan) {names[i], strlen(names[i])}, &found) == ATP_OK && found)
		{
			(void) atp_part_text(&part, buf, &text, &has_nul);
			(void) atp_part_unpack(&part, NULL, 0, &n);
			(void) atp_part_key(&part, (AtpSpan) {"uri", 3}, &found);
		}
	}
	for (int64_t i = -2; i < 3; i++)
	{
		AtpPackedPart		part = whole;

		if (atp_part_member(&part, i, &found) == ATP_OK && found)
			(void) atp_part_text(&part, buf, &text, &has_nul);
	}
	if (check_packed(stored) == ATP_OK)
	{
		AtpBytes	cbor = unpack(&whole);

		check_stored(stored, cbor);
		free((void *) cbor.ptr);
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AtpBytes	in = {data, size};

	pack(in);
	read_damaged(in);
	return 0;
}
