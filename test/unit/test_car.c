/*
 * test_car.c
 *		CAR files: rules B-50 to B-53, and the index over their blocks.
 */
#include "core/repo/car.h"
#include "core/codec/cid.h"
#include "core/codec/varint.h"
#include "core/repo/car_write.h"
#include "hex.h"
#include "repo.h"

#define ROOTS0	"a265726f6f7473806776657273696f6e01"	/* {roots: [], version: 1} */
#define CID0	"01550000"		/* identity of nothing */

/* Open, and read all sections without hashing. */
static void
check(const char *rule, const char *hex, AtpErr expected, size_t expected_at)
{
	AtpBytes	b = unhex(hex);
	AtpCar		car;
	AtpCarBlock block;
	size_t		at = 0;
	AtpErr		err = atp_car_open(&car, b.ptr, b.len, &at);

	while (err == ATP_OK)
		err = atp_car_next(&car, &block, &at);
	ok(err == expected && at == expected_at, "%s: %s: %s at %zu", rule, show(hex, strlen(hex)),
	   atp_err_text(err), at);
	free((void *) b.ptr);
}

static void
headers(void)
{
	check("B-50", "11" ROOTS0, ATP_E_CAR_END, 18);
	check("B-50", "", ATP_E_VARINT_TRUNCATED, 0);
	check("B-50", "00", ATP_E_CAR_SECTION_EMPTY, 0);
	check("B-50", "11a2", ATP_E_CAR_TRUNCATED, 0);
	check("B-50", "9100" ROOTS0, ATP_E_VARINT_LONG, 0);
	check("B-50", "ffffffffffffffff7f" ROOTS0, ATP_E_CAR_TRUNCATED, 0);
	check("B-50", "ffffffffffffffffff01" ROOTS0, ATP_E_VARINT_LONG, 0);
	check("B-50", "01a0", ATP_E_CAR_HEADER, 2);
	check("B-50", "0180", ATP_E_CAR_HEADER, 1);
	check("B-50", "0aa16776657273696f6e01", ATP_E_CAR_HEADER, 11);
	check("B-50", "08a165726f6f747380", ATP_E_CAR_HEADER, 9);
	check("B-50", "0aa16776657273696f6e02", ATP_E_CAR_VERSION, 10);
	check("B-50", "11a265726f6f7473806776657273696f6e00", ATP_E_CAR_VERSION, 17);
	check("B-50", "11a265726f6f7473806776657273696f6e02", ATP_E_CAR_VERSION, 17);
	check("B-50", "11a265726f6f7473f66776657273696f6e01", ATP_E_CAR_ROOTS, 8);
	check("B-50", "12a265726f6f747381006776657273696f6e01", ATP_E_CAR_ROOTS, 9);
	check("B-50", "12" ROOTS0 "00", ATP_E_CBOR_TRAILING, 18);
	check("B-50", "14a361610065726f6f7473806776657273696f6e01", ATP_E_CAR_END, 21);
	check("B-50", "11a26776657273696f6e0165726f6f747380", ATP_E_CBOR_KEY_ORDER, 11);
}

/* Of several roots, the first counts. */
static void
first_root(void)
{
	AtpBytes	b = unhex("21a265726f6f747382" "d82a4500" CID0 "d82a450001710000" "6776657273696f6e01");
	AtpCar		car;
	size_t		at;

	ok(atp_car_open(&car, b.ptr, b.len, &at) == ATP_OK && car.nroots == 2 && car.root.len == 4 && car.root.ptr[1] == 0x55,
	   "B-50: the first of two roots");
	free((void *) b.ptr);
}

/* A header that contains a text of n bytes. */
static void
large_header(size_t n, AtpErr expected)
{
	AtpCborWriter w = {.cap = n + 64};
	uint8_t		varint[9];
	char	   *text = malloc(n);
	size_t		len;
	AtpCar		car;
	size_t		at;
	AtpErr		err;

	w.buf = malloc(w.cap);
	memset(text, 'x', n);
	w.len = 3;					/* of the varint, which comes later */
	atp_cbor_put_map(&w, 3);
	atp_cbor_put_key(&w, "a");
	atp_cbor_put_text(&w, text, n);
	atp_cbor_put_key(&w, "roots");
	atp_cbor_put_array(&w, 0);
	atp_cbor_put_key(&w, "version");
	atp_cbor_put_uint(&w, 1);
	len = atp_varint_write(w.len - 3, varint);
	memcpy(w.buf, varint, len);
	err = atp_car_open(&car, w.buf, w.len, &at);
	ok(len == 3 && err == expected, "B-50: a header of %zu bytes: %s", w.len - 3, atp_err_text(err));
	free(w.buf);
	free(text);
}

static void
sections(void)
{
	check("B-53", "11" ROOTS0 "00", ATP_E_CAR_SECTION_EMPTY, 18);
	check("B-53", "11" ROOTS0 "04" CID0, ATP_E_CAR_END, 23);
	check("B-53", "11" ROOTS0 "05" CID0 "aa" "04" CID0, ATP_E_CAR_END, 29);
	check("B-53", "11" ROOTS0 "05" CID0, ATP_E_CAR_TRUNCATED, 18);
	check("B-53", "11" ROOTS0 "03015500" "00", ATP_E_VARINT_TRUNCATED, 22);
	check("B-53", "11" ROOTS0 "8000", ATP_E_VARINT_LONG, 18);
	check("B-53", "11" ROOTS0 "80", ATP_E_VARINT_TRUNCATED, 18);
	check("B-53", "11" ROOTS0 "ffffffffffffffff7f", ATP_E_CAR_TRUNCATED, 18);
	check("B-53", "11" ROOTS0 "2212200000000000000000000000000000000000000000000000000000000000000000",
		  ATP_E_CID_V0, 19);
}

static void
hashes(void)
{
	uint8_t		cid[ATP_CID_BLESSED_LEN];
	uint8_t		data[] = "block";
	AtpCarBlock block = {.cid = {cid, sizeof(cid)}, .data = {data, 5}};

	block_cid(data, 5, cid);
	ok(atp_car_verify(&block, sha256, NULL) == ATP_OK, "B-53: hash is right");
	data[0] ^= 1;
	ok(atp_car_verify(&block, sha256, NULL) == ATP_E_CAR_HASH, "B-53: hash is wrong");
	data[0] ^= 1;
	cid[2] = 0x13;
	ok(atp_car_verify(&block, sha256, NULL) == ATP_E_CAR_HASH_FUNCTION,
	   "B-53: another hash function");
}

/* Blocks whose CIDs differ only in the end, or only in the beginning. */
static void
index_of(uint64_t seed)
{
	static uint8_t cids[REPO_BLOCKS + 1][ATP_CID_BLESSED_LEN];
	static Index ix;
	unsigned	found = 0;
	AtpCarBlock block = {.data = {cids[0], 0}};

	index_clear(&ix);
	ix.index.seed = seed;
	ok(atp_car_index_find(&ix.index, cid_span(cids[0])) == NULL, "nothing in an empty index");
	for (unsigned i = 0; i <= REPO_BLOCKS; i++)
	{
		cids[i][0] = 1;
		cids[i][4] = (uint8_t) i;
		cids[i][35] = (uint8_t) (i >> 8);
	}
	for (unsigned i = 0; i < REPO_BLOCKS; i++)
	{
		block.cid = cid_span(cids[i]);
		block.at = i;
		found += atp_car_index_find(&ix.index, block.cid) == NULL &&
			atp_car_index_add(&ix.index, &block);
	}
	ok(found == REPO_BLOCKS && ix.index.n == REPO_BLOCKS, "B-52: %u blocks added", found);
	found = 0;
	for (unsigned i = 0; i < REPO_BLOCKS; i++)
	{
		const AtpCarBlock *b = atp_car_index_find(&ix.index, cid_span(cids[i]));

		found += b != NULL && b->at == i;
	}
	ok(found == REPO_BLOCKS, "B-52: %u blocks found", found);
	ok(atp_car_index_find(&ix.index, cid_span(cids[REPO_BLOCKS])) == NULL, "one that is not there");
	ok(!atp_car_index_add(&ix.index, &block), "the index is full");

	index_clear(&ix);
	ix.index.seed = seed;
	ok(atp_car_index_add(&ix.index, &block) && atp_car_index_add(&ix.index, &block) &&
	   ix.index.n == 1, "B-52: a block that comes twice is kept once");
}

/*
 * One block under many codecs: CIDs with the same digest.  The number of slots in a row that are taken bounds
 * the length of a search.
 */
static void
one_digest(uint64_t seed)
{
	enum
	{
		BLOCKS = 20000, SLOTS = 65536
	};
	uint8_t	   *cids = calloc(BLOCKS, 48);
	AtpCarIndex index = {
		.blocks = malloc(BLOCKS * sizeof(AtpCarBlock)), .cap = BLOCKS,
		.slots = calloc(SLOTS, sizeof(uint32_t)), .nslots = SLOTS, .seed = seed
	};
	unsigned	found = 0;
	unsigned	run = 0;
	unsigned	longest = 0;

	for (unsigned i = 0; i < BLOCKS; i++)
	{
		uint8_t    *cid = cids + i * 48;
		size_t		n = atp_varint_write(0x300000 + i, cid + 1);
		AtpCarBlock block = {.cid = {cid, 1 + n + 2 + 32}};

		cid[0] = 1;
		cid[1 + n] = ATP_CID_SHA2_256;
		cid[2 + n] = 32;
		memset(cid + 3 + n, 0xe3, 32);
		found += atp_car_index_add(&index, &block);
	}
	for (unsigned i = 0; i < BLOCKS; i++)
		found += atp_car_index_find(&index, index.blocks[i].cid) == &index.blocks[i];
	for (unsigned i = 0; i < SLOTS; i++)
	{
		run = index.slots[i] == 0 ? 0 : run + 1;
		longest = run > longest ? run : longest;
	}
	ok(found == 2 * BLOCKS && index.n == BLOCKS, "one block under %d codecs is as many", BLOCKS);
	ok(longest < 200, "no search for one looks at more than 200: at most %u slots in a row are taken", longest);
	free(index.blocks);
	free(index.slots);
	free(cids);
}

/* Every cut of a file is refused; every flipped bit of a block is noticed. */
static void
mutilate(void)
{
	static const char *const paths[] = {"com.example.a/1", "com.example.b/2"};
	static Repo repo;
	static Index ix;
	AtpCar		car;
	AtpCarBlock block;
	size_t		at;
	size_t		ends = 0;
	size_t		accepted = 0;
	size_t		body;

	repo_make(&repo, paths, 2);
	ok(index_fill(&ix, repo.car, repo.len, &at) == ATP_OK, "a file of the writer is read");
	ok(atp_car_open(&car, repo.car, repo.len, &at) == ATP_OK && car.nroots == 1 &&
	   memcmp(car.root.ptr, repo.commit, car.root.len) == 0, "B-51: the root is the commit");
	body = car.pos;
	while (atp_car_next(&car, &block, &at) == ATP_OK)
		ends++;
	for (size_t len = 0; len < repo.len; len++)
	{
		uint8_t    *cut = copy_of(repo.car, len);

		accepted += index_fill(&ix, cut, len, &at) == ATP_OK;
		free(cut);
	}
	/* a file cut after the header, or after a block, is a valid file again */
	ok(accepted == ends, "B-53: cuts that are still a file: %zu of %zu", accepted, repo.len);
	accepted = 0;
	for (size_t bit = 8 * body; bit < 8 * repo.len; bit++)
	{
		uint8_t    *flipped = copy_of(repo.car, repo.len);

		flipped[bit / 8] ^= 1 << bit % 8;
		accepted += index_fill(&ix, flipped, repo.len, &at) == ATP_OK;
		free(flipped);
	}

	/* The parser does not hash the codec of a CID: seven bits turn the CID into another CID of the same block. */
	ok(accepted == 7 * ends, "B-53: flipped bits that are not noticed: %zu", accepted);
}

int
main(void)
{
	headers();
	first_root();
	large_header(900000, ATP_OK);
	large_header(1000000, ATP_E_CAR_HEADER_SIZE);
	sections();
	hashes();
	one_digest(0);
	one_digest(UINT64_C(0x0123456789abcdef));
	index_of(0);
	index_of(UINT64_C(0x9e3779b97f4a7c15));
	mutilate();
	return done_testing();
}
