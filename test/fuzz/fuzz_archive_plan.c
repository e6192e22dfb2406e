/*
 * fuzz_archive_plan.c
 *		Plans of an archive (H-20): an accepted page is JSON without bytes behind the JSON, and the units ascend within
 *		the limits; a written request is JSON with the texts of the caller.
 *
 * Input: a byte, and a page if the byte is even, else a collection and a DID with a NUL between them.
 */
#include <stdlib.h>

#include "core/archive/archive_plan.h"
#include "whole_json.h"

#define CHECK(cond)	do { if (!(cond)) abort(); } while (0)

extern int	LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
read_page(const char *s, size_t n)
{
	AtpPlan		plan;
	AtpPlanUnits units;
	AtpPlanUnit last = {0};
	uint32_t	found = 0;
	size_t		at = 0;
	char	   *more;
	AtpErr		err = atp_plan_parse(s, n, &plan, &at);

	CHECK(at <= n);
	if (err != ATP_OK)
		return;
	CHECK(read_json(s, n, ATP_PLAN_DEPTH_MAX) == ATP_E_JSON_END);
	CHECK(plan.planned_through_seq <= plan.sealed_tip_seq && plan.sealed_tip_seq < ATP_ARCHIVE_SEQ_LIMIT);
	atp_plan_units_begin(&units, &plan);
	for (; (err = atp_plan_units_next(&units, &at)) == ATP_OK; found++)
	{
		const AtpPlanUnit *u = &units.unit;

		CHECK(u->min_seq <= u->max_seq && u->max_seq < ATP_ARCHIVE_SEQ_LIMIT && u->segment < ATP_ARCHIVE_SEQ_LIMIT);
		CHECK(u->is_whole ? u->first == 0 && u->last == 0 : u->first <= u->last && u->last < ATP_ARCHIVE_BLOCKS_MAX);
		CHECK(found == 0 || u->segment > last.segment || (u->segment == last.segment && !u->is_whole && !last.is_whole && u->first > last.last));
		last = *u;
	}
	CHECK(err == ATP_E_JSON_END && found == plan.units && found <= ATP_PLAN_UNITS_MAX);
	more = malloc(n + 1);
	memcpy(more, s, n);
	more[n] = '{';
	CHECK(atp_plan_parse(more, n + 1, &plan, &at) != ATP_OK);
	free(more);
}

static void
write_request(const char *s, size_t n)
{
	const char *nul = memchr(s, '\0', n);
	AtpSpan		texts[2] = {{s, nul != NULL ? (size_t) (nul - s) : n}, {"did:web:a.example.com", 21}};
	AtpPlanRequest request = {.kinds = ATP_PLAN_COMMIT, .collections = &texts[0], .ncollections = 1, .dids = &texts[1], .ndids = 1, .before_seq = 7};
	size_t		len = 0;
	char	   *out;

	if (nul != NULL)
		texts[1] = (AtpSpan) {nul + 1, n - texts[0].len - 1};
	if (atp_plan_request_write(&request, NULL, 0, &len) != ATP_OK)
		return;
	out = malloc(len);
	CHECK(atp_plan_request_write(&request, out, len, &len) == ATP_OK && read_json(out, len, ATP_PLAN_DEPTH_MAX) == ATP_E_JSON_END);
	CHECK(len == strlen("{'kinds':['commit'],'collections':[''],'dids':[''],'beforeSeq':7}") + texts[0].len + texts[1].len);
	free(out);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0)
		return 0;
	if (data[0] % 2 == 0)
		read_page((const char *) data + 1, size - 1);
	else
		write_request((const char *) data + 1, size - 1);
	return 0;
}
