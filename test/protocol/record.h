/*
 * record.h
 *		Is a block a record?  The extension asks while it makes the jsonb of it;
 *		this is the answer alone.
 */
#ifndef ATP_TEST_RECORD_H
#define ATP_TEST_RECORD_H

#include "core/repo/record_check.h"
#include "data/jsonb_image.h"

static inline void
atp_no_pause(void)
{
}

static inline AtpErr
atp_record_check(const uint8_t *block, size_t n, size_t *at)
{
	size_t		ntokens;
	size_t		room;
	AtpErr		err = atp_jsonb_scan_record(block, n, NULL, 0, atp_no_pause, &ntokens, &room, at);

	/* these errors say that jsonb cannot hold the record, not that the record is wrong (D28) */
	return err == ATP_E_JSON_TOKENS || err == ATP_E_JSON_NUL || err == ATP_E_JSON_AMBIGUOUS ? ATP_OK : err;
}

#endif							/* ATP_TEST_RECORD_H */
