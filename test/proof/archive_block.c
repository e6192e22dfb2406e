/*
 * archive_block.c
 *		Columns of blocks: any bytes that are too few for two rows (in the long form three), and the rows in them.
 *
 * proves: atp_archive_block_open atp_archive_block_next place_texts check_rows take_text get_value value_at
 * sources: core/errors.c
 * short: -DN=42 --unwind 9
 * long: -DN=74 --unwind 9
 * by hand: 22 s
 * assumes: nothing is known of the checks of a row, which are not called
 */
#include "core/archive/archive_block.c"
#include "lib/proof.h"

static bool
is_inside(const void *text, size_t n, AtpBytes bytes)
{
	const uint8_t *p = text;

	return p >= bytes.ptr && p + n <= bytes.ptr + bytes.len;
}

int
main(void)
{
	AtpArchiveBlock block;
	AtpArchiveRow row;
	AtpBytes	bytes;
	uint64_t	after = any_u64();
	uint64_t	min_seq = any_u64();
	uint64_t	max_seq = any_u64();
	size_t		texts = 0;
	uint32_t	rows = 0;
	size_t		at;
	AtpErr		err;

	ANY_BUFFER(s, n, N);
	bytes = (AtpBytes) {s, n};
	err = atp_archive_block_open(&block, bytes, after, min_seq, max_seq, &at);
	LAW_OF_ERRORS(err, at, n);
	if (err != ATP_OK)
		return 0;
	for (; atp_archive_block_next(&block, &row); rows++)
	{
		LAW(row.seq > after && row.seq >= min_seq && row.seq <= max_seq && row.seq < ATP_ARCHIVE_SEQ_LIMIT);
		LAW(row.kind >= ATP_ARCHIVE_CREATE && row.kind <= ATP_ARCHIVE_CREATE_RESYNC);
		LAW(is_inside(row.did.ptr, row.did.len, bytes) && is_inside(row.collection.ptr, row.collection.len, bytes));
		LAW(is_inside(row.rkey.ptr, row.rkey.len, bytes) && is_inside(row.rev.ptr, row.rev.len, bytes));
		LAW(is_inside(row.payload.ptr, row.payload.len, bytes));
		texts += row.did.len + row.collection.len + row.rkey.len + row.rev.len + row.payload.len;
		after = row.seq;
	}
	LAW(rows == block.nrows && COUNT_LEN + ROW_WIDTH * (size_t) rows + texts == n);
	if (rows == (N - COUNT_LEN) / ROW_WIDTH)
		REACHED("as many rows as there is room for");
	return 0;
}
