/*
 * refused_block.c
 *		The block of an archive that was refused last: see refused_block.h.
 */
#include "postgres.h"

#include "archive/refused_block.h"
#include "utils/builtins.h"

bool
atp_refused_is(const AtpRefusedBlock *refused, uint64 segment, uint32 block)
{
	return refused->times > 0 && refused->segment == segment && refused->block == block;
}

void
atp_refused_begin(AtpRefusedBlock *refused)
{
	atp_sha256_begin(&refused->sha256);
	refused->nbytes = 0;
}

void
atp_refused_add(AtpRefusedBlock *refused, AtpBytes bytes)
{
	atp_sha256_add(&refused->sha256, bytes.ptr, bytes.len);
	refused->nbytes += bytes.len;
}

const char *
atp_refused_again(AtpRefusedBlock *refused, uint64 segment, uint32 block)
{
	uint8_t		sha256[32];
	char		hex[2 * sizeof(sha256) + 1] = {0};

	refused->times = atp_refused_is(refused, segment, block) ? refused->times + 1 : 1;
	refused->segment = segment;
	refused->block = block;
	if (refused->times < ATP_REFUSED_MAX)
		return "";
	/* the length of a block, or the head of a segment, may be wrong: then no bytes of the block have come */
	if (refused->nbytes == 0)
		return psprintf("; refused %d times", refused->times);
	atp_sha256_end(&refused->sha256, sha256);
	(void) hex_encode((const char *) sha256, sizeof(sha256), hex);
	return psprintf("; refused %d times, SHA-256 of its " UINT64_FORMAT " bytes: %s", refused->times, refused->nbytes, hex);
}

void
atp_refused_end(AtpRefusedBlock *refused, uint64 segment, uint32 block)
{
	if (atp_refused_is(refused, segment, block))
		refused->times = 0;
}
