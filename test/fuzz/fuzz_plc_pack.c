/*
 * fuzz_plc_pack.c
 *		The packed form of directory operations (M-20): any bytes come back, whatever texts have ids; bytes of anybody
 *		unpack within their bounds, or not at all.
 *
 * Input: a byte that says which texts have ids, 36 bytes of a CID, and the bytes.
 */
#include <stdlib.h>

#include "core/plc/plc_pack.h"

#define CHECK(cond)	do { if (!(cond)) abort(); } while (0)
#define TEXTS		256
#define SMALL		300

extern int	LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The texts that have got an id, which lies in each range of ids. */
typedef struct Shared
{
	unsigned	mask;
	unsigned	n;
	AtpSpan		texts[TEXTS];
} Shared;

static uint32_t
note_text(void *ctx, AtpSpan text)
{
	CHECK(text.len >= ATP_PLC_SHARED_MIN && text.len <= ATP_PLC_SHARED_MAX);
	return 0;
}

static uint32_t
id_of_index(unsigned i)
{
	return i < 100 ? i + 1 : i < 200 ? i + 0x7f80 : i + 0x10000000;
}

static uint32_t
id_of_text(void *ctx, AtpSpan text)
{
	Shared	   *shared = ctx;

	CHECK(text.len >= ATP_PLC_SHARED_MIN && text.len <= ATP_PLC_SHARED_MAX);
	for (unsigned i = 0; i < shared->n; i++)
		if (shared->texts[i].len == text.len && memcmp(shared->texts[i].ptr, text.ptr, text.len) == 0)
			return id_of_index(i);
	if ((text.len & shared->mask) == 0 || shared->n == TEXTS)
		return 0;
	shared->texts[shared->n] = text;
	return id_of_index(shared->n++);
}

static AtpSpan
text_of_id(void *ctx, uint32_t id)
{
	const Shared *shared = ctx;

	for (unsigned i = 0; i < shared->n; i++)
		if (id_of_index(i) == id)
			return shared->texts[i];
	return (AtpSpan) {NULL, 0};
}

static void
pack_and_unpack(AtpBytes in, const uint8_t *prev, Shared *shared)
{
	const AtpPlcTexts texts = {.id = id_of_text, .text = text_of_id, .ctx = shared};
	uint8_t    *packed = malloc(atp_plc_pack_room(in.len));
	uint8_t    *out = malloc(in.len + 1);
	const AtpPlcTexts notes = {.id = note_text};
	size_t		n;
	size_t		again;
	size_t		pos = 0;
	uint32_t	id;

	atp_plc_op_note(in, prev, &notes);
	n = atp_plc_op_pack(in, 7, prev, &texts, packed);
	CHECK(n <= atp_plc_pack_room(in.len));
	CHECK(atp_plc_packed_signer((AtpBytes) {packed, n}) == 7);
	CHECK(atp_plc_op_unpack((AtpBytes) {packed, n}, prev, &texts, out, in.len, &again));
	CHECK(again == in.len && (in.len == 0 || memcmp(out, in.ptr, in.len) == 0));
	CHECK(in.len == 0 || !atp_plc_op_unpack((AtpBytes) {packed, n}, prev, &texts, out, in.len - 1, &again));
	while (atp_plc_packed_id((AtpBytes) {packed, n}, &pos, &id))
		CHECK(text_of_id(shared, id).ptr != NULL);
	free(packed);
	free(out);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	Shared		shared = {.n = 0};
	const AtpPlcTexts texts = {.id = id_of_text, .text = text_of_id, .ctx = &shared};
	uint8_t		out[SMALL];
	size_t		n;
	AtpBytes	in;

	if (size < 37)
		return 0;
	in = (AtpBytes) {data + 37, size - 37};
	shared.mask = data[0];
	pack_and_unpack(in, data + 1, &shared);
	(void) atp_plc_op_unpack(in, data + 1, &texts, out, sizeof(out), &n);
	pack_and_unpack(in, NULL, &shared);
	return 0;
}
