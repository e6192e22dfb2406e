/*
 * test_car_push.c
 *		CAR files in pieces: wherever a file is cut into pieces, the reader of pieces gives the
 *		result of the parser of whole files.
 */
#include "core/repo/car_push.h"
#include "hex.h"
#include "repo.h"

#define SEEN_MAX	1024

/* What a reader has read of a file. */
typedef struct Seen
{
	size_t		n;
	size_t		at[SEEN_MAX];
	size_t		len[SEEN_MAX];
	uint8_t		cid[SEEN_MAX][ATP_CID_MAX];
	uint8_t	   *room;			/* of exactly the requested size, for ASan */
	size_t		most;			/* greatest sum of requests */
	size_t		limit;			/* limit of the granted room */
	AtpErr		stop;			/* said at the last block */
	size_t		stop_at;
} Seen;

static uint8_t *
room(void *ctx, size_t n)
{
	Seen	   *seen = ctx;

	free(seen->room);
	seen->room = NULL;
	if (n > seen->most)
		seen->most = n;
	if (n <= seen->limit)
		seen->room = malloc(n);
	return seen->room;
}

static void
see(Seen *seen, const AtpCarBlock *block)
{
	if (seen->n == SEEN_MAX)
		exit(2);
	seen->at[seen->n] = block->at;
	seen->len[seen->n] = block->data.len;
	memset(seen->cid[seen->n], 0, ATP_CID_MAX);
	memcpy(seen->cid[seen->n++], block->cid.ptr, block->cid.len);
}

static AtpErr
take(void *ctx, const AtpCarBlock *block)
{
	Seen	   *seen = ctx;

	see(seen, block);
	return seen->stop != ATP_OK && seen->n == seen->stop_at ? seen->stop : ATP_OK;
}

static void
seen_clear(Seen *seen)
{
	free(seen->room);
	*seen = (Seen) {.limit = SIZE_MAX};
}

static bool
same(const Seen *a, const Seen *b)
{
	return a->n == b->n && memcmp(a->at, b->at, a->n * sizeof(a->at[0])) == 0 &&
		memcmp(a->len, b->len, a->n * sizeof(a->len[0])) == 0 &&
		memcmp(a->cid, b->cid, a->n * sizeof(a->cid[0])) == 0;
}

/* Reads the whole file at once, with the parser of whole files. */
static AtpErr
whole(const uint8_t *file, size_t n, Seen *seen, size_t *at)
{
	AtpCar		car;
	AtpCarBlock block;
	AtpErr		err = atp_car_open(&car, file, n, at);

	if (err == ATP_OK && car.nroots == 0)
		return ATP_E_CAR_NO_ROOT;
	if (err == ATP_OK && !atp_cid_is_node(car.root))
		return ATP_E_COMMIT_ROOT;
	while (err == ATP_OK && (err = atp_car_next(&car, &block, at)) == ATP_OK)
	{
		err = atp_car_verify(&block, sha256, NULL);
		if (err == ATP_OK && !atp_cid_is_blessed(block.cid.ptr, block.cid.len))
			err = ATP_E_CID_NOT_BLESSED;
		if (err == ATP_OK)
			see(seen, &block);
	}
	return err == ATP_E_CAR_END ? ATP_OK : err;
}

/* In pieces of at most so many bytes, chosen by the state of a generator. */
static AtpErr
pieces(AtpCarPush *push, const uint8_t *file, size_t n, size_t most, uint64_t *state, Seen *seen, size_t *at)
{
	AtpErr		err = ATP_OK;

	atp_car_push_begin(push, &(AtpCarTaker) {room, take, seen, sha256, NULL});
	while (n > 0 && err == ATP_OK)
	{
		size_t		len;
		uint8_t    *copy;

		*state = *state * UINT64_C(6364136223846793005) + 1442695040888963407;
		len = 1 + (size_t) (*state >> 33) % most;
		if (len > n)
			len = n;
		copy = copy_of(file, len);
		err = atp_car_push(push, copy, len, at);
		free(copy);
		file += len;
		n -= len;
	}
	return err == ATP_OK ? atp_car_push_end(push, at) : err;
}

static Repo repo;

static void
make_repo(size_t records)
{
	static char names[200][64];
	const char *paths[200];

	for (size_t i = 0; i < records; i++)
	{
		sprintf(names[i], "app.example.record/%05zu", i);
		paths[i] = names[i];
	}
	repo_make(&repo, paths, records);
}

static void
all_splits(void)
{
	static Seen expected;
	static Seen seen;
	uint64_t	state = 1;
	bool		equal = true;
	AtpCarPush	push;
	size_t		at;

	make_repo(150);
	seen_clear(&expected);
	ok(whole(repo.car, repo.len, &expected, &at) == ATP_OK && expected.n > 150, "a repository of %zu blocks", expected.n);
	for (int round = 0; round < 400; round++)
	{
		size_t		most = round < 2 ? 1 : round < 300 ? 1 + (size_t) round : repo.len * 2;

		seen_clear(&seen);
		equal = equal && pieces(&push, repo.car, repo.len, most, &state, &seen, &at) == ATP_OK && same(&seen, &expected) &&
			push.blocks == expected.n && push.bytes == repo.len && push.nroots == 1 &&
			memcmp(push.root, repo.commit, sizeof(repo.commit)) == 0;
	}
	ok(equal, "R-40: 400 ways to cut it, the same blocks");
	seen_clear(&seen);
	atp_car_push_begin(&push, &(AtpCarTaker) {room, take, &seen, sha256, NULL});
	ok(atp_car_push(&push, repo.car, repo.len, &at) == ATP_OK && atp_car_push_end(&push, &at) == ATP_OK &&
	   seen.most == 0, "R-46: what lies whole in a piece takes no memory");
}

/*
 * a file that ends inside a section is recognized as truncated; at the end of a section only the walk
 * finds the fault.
 */
static void
truncated(void)
{
	static Seen expected;
	static Seen seen;
	uint64_t	state = 2;
	bool		equal = true;
	size_t		whole_ones = 0;

	make_repo(8);
	for (size_t n = 0; n <= repo.len; n++)
	{
		AtpCarPush	push;
		size_t		at_expected = 0;
		size_t		at = 0;
		AtpErr		err_expected;
		AtpErr		err;

		seen_clear(&expected);
		seen_clear(&seen);
		err_expected = whole(repo.car, n, &expected, &at_expected);
		err = pieces(&push, repo.car, n, 40, &state, &seen, &at);
		equal = equal && err == err_expected && same(&seen, &expected) && (err == ATP_OK || at == at_expected);
		whole_ones += err == ATP_OK;
	}
	ok(equal, "R-40: cut at each of its bytes");
	ok(whole_ones == expected.n + 1, "cut between two blocks no reader sees it");
}

/* Each bit flipped once: the same fault at the same place, and no later block. */
static void
wrong_bits(void)
{
	static Seen expected;
	static Seen seen;
	uint64_t	state = 3;
	size_t		others = 0;
	size_t		accepted = 0;

	make_repo(3);
	for (size_t i = 0; i < repo.len * 8; i++)
	{
		AtpCarPush	push;
		size_t		at_expected = 0;
		size_t		at = 0;
		AtpErr		err_expected;
		AtpErr		err;

		repo.car[i / 8] ^= (uint8_t) (1 << i % 8);
		seen_clear(&expected);
		seen_clear(&seen);
		err_expected = whole(repo.car, repo.len, &expected, &at_expected);
		err = pieces(&push, repo.car, repo.len, 60, &state, &seen, &at);
		repo.car[i / 8] ^= (uint8_t) (1 << i % 8);
		accepted += err == ATP_OK;
		if (err_expected == ATP_E_CAR_TRUNCATED &&
			(err == ATP_E_CAR_SECTION_SIZE || err == ATP_E_CAR_HEADER_SIZE))
			continue;
		others += err != err_expected || !same(&seen, &expected) ||
			(err != ATP_OK && err != ATP_E_CAR_NO_ROOT && err != ATP_E_COMMIT_ROOT && at != at_expected);
	}
	ok(others == 0, "R-41: each bit wrong: as the other reader finds it; %zu differ", others);
	/* of the file, only the root's digest is under no hash */
	ok(accepted == 32 * 8, "R-41: %zu of %zu bits wrong are accepted: those of the root's digest", accepted, repo.len * 8);
}

static void
check(const char *what, const char *hex, AtpErr expected, size_t expected_at)
{
	static Seen seen;
	AtpBytes	b = unhex(hex);
	uint64_t	state = 4;

	for (size_t most = 1; most < 100; most += 98)
	{
		AtpCarPush	push;
		size_t		at = 0;
		AtpErr		err;

		seen_clear(&seen);
		err = pieces(&push, b.ptr, b.len, most, &state, &seen, &at);
		ok(err == expected && at == expected_at, "R-40: %s: %s at %zu", what, atp_err_text(err), at);
	}
	free((void *) b.ptr);
}

/* {roots: [a CID of zeros], version: 1}: 59 bytes with its varint */
#define HEADER	"3aa265726f6f747381d82a58250001711220" "0000000000000000000000000000000000000000000000000000000000000000" "6776657273696f6e01"
/* the empty block, as raw bytes; and with the codec dag-pb */
#define EMPTY	"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

static void
faults(void)
{
	check("nothing", "", ATP_E_VARINT_TRUNCATED, 0);
	check("a header alone", HEADER, ATP_OK, 59);
	check("no root", "11a265726f6f7473806776657273696f6e01", ATP_E_CAR_NO_ROOT, 0);
	check("a root that is raw bytes", "3aa265726f6f747381d82a58250001551220" "0000000000000000000000000000000000000000000000000000000000000000" "6776657273696f6e01",
		  ATP_E_COMMIT_ROOT, 0);
	check("version 2", "11a265726f6f7473806776657273696f6e02", ATP_E_CAR_VERSION, 17);
	check("an empty header", "00", ATP_E_CAR_SECTION_EMPTY, 0);
	check("a header of 1,000,001 bytes", "c1843d", ATP_E_CAR_HEADER_SIZE, 0);
	check("a header of 1,000,000 bytes", "c0843d", ATP_E_CAR_TRUNCATED, 0);
	check("an empty section", HEADER "00", ATP_E_CAR_SECTION_EMPTY, 59);
	check("a varint that is too long", HEADER "8000", ATP_E_VARINT_LONG, 59);
	check("a varint of ten bytes", HEADER "80808080808080808001", ATP_E_VARINT_LONG, 59);
	check("a varint that is cut", HEADER "80", ATP_E_VARINT_TRUNCATED, 59);
	check("a section of 2^63 - 1 bytes", HEADER "ffffffffffffffff7f", ATP_E_CAR_SECTION_SIZE, 59);
	check("a section of 2,000,101 bytes", HEADER "e5897a", ATP_E_CAR_SECTION_SIZE, 59);
	check("a section of 2,000,100 bytes", HEADER "e4897a", ATP_E_CAR_TRUNCATED, 59);
	check("a block", HEADER "2401551220" EMPTY, ATP_OK, 96);
	check("the same twice", HEADER "2401551220" EMPTY "2401551220" EMPTY, ATP_OK, 133);
	check("a block with a wrong hash", HEADER "2501551220" EMPTY "00", ATP_E_CAR_HASH, 59);
	check("a CID with another codec", HEADER "2401701220" EMPTY, ATP_E_CID_NOT_BLESSED, 59);
	check("a CID that is the block itself", HEADER "0401550000", ATP_E_CAR_HASH_FUNCTION, 59);
	check("a CID of SHA-512", HEADER "2401551320" EMPTY, ATP_E_CAR_HASH_FUNCTION, 59);
	check("a CID of version 0", HEADER "221220" EMPTY, ATP_E_CID_V0, 60);
	check("a CID of version 2", HEADER "2402551220" EMPTY, ATP_E_CID_VERSION, 60);
	check("a section shorter than its CID", HEADER "230155122000000000000000000000000000000000000000000000000000000000000000", ATP_E_CID_TRUNCATED, 63);
}

static void
large_blocks(void)
{
	static Seen seen;
	static uint8_t data[ATP_CAR_BLOCK_MAX + 1];
	static uint8_t file[ATP_CAR_PUSH_ROOM + 200];
	static const uint8_t root[ATP_CID_BLESSED_LEN] = {1, 0x71, 0x12, 0x20};
	uint64_t	state = 5;

	for (size_t over = 0; over < 2; over++)
	{
		AtpCborWriter w = {.buf = file, .cap = sizeof(file)};
		uint8_t		cid[ATP_CID_BLESSED_LEN];
		AtpCarPush	push;
		size_t		at;
		AtpErr		err;

		block_cid(data, ATP_CAR_BLOCK_MAX + over, cid);
		atp_car_put_header(&w, cid_span(root));
		atp_car_put_block(&w, cid_span(cid), data, ATP_CAR_BLOCK_MAX + over);
		seen_clear(&seen);
		err = pieces(&push, file, w.len, 30000, &state, &seen, &at);
		ok(err == (over ? ATP_E_CAR_SECTION_SIZE : ATP_OK) && seen.most <= ATP_CAR_PUSH_ROOM,
		   "R-45: a block of %zu bytes: %s", ATP_CAR_BLOCK_MAX + over, atp_err_text(err));
		if (over)
			continue;
		seen_clear(&seen);
		seen.limit = 1000;
		err = pieces(&push, file, w.len, 30000, &state, &seen, &at);
		ok(err == ATP_E_CAR_ROOM && seen.n == 0, "who has no memory for it: %s", atp_err_text(err));
	}
}

static void
stopped(void)
{
	static Seen seen;
	AtpCarPush	push;
	size_t		at;

	make_repo(20);
	seen_clear(&seen);
	seen.stop = ATP_E_CAR_BLOCKS;
	seen.stop_at = 5;
	atp_car_push_begin(&push, &(AtpCarTaker) {room, take, &seen, sha256, NULL});
	ok(atp_car_push(&push, repo.car, repo.len, &at) == ATP_E_CAR_BLOCKS && seen.n == 5 && push.blocks == 4 &&
	   at == seen.at[4], "who takes the blocks can end it");
	ok(atp_car_push(&push, repo.car, repo.len, &at) == ATP_E_CAR_BLOCKS && seen.n == 5 &&
	   atp_car_push_end(&push, &at) == ATP_E_CAR_BLOCKS, "then nothing is taken any more");
	seen_clear(&seen);
}

int
main(void)
{
	all_splits();
	truncated();
	wrong_bits();
	faults();
	large_blocks();
	stopped();
	return done_testing();
}
