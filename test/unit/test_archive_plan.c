/*
 * test_archive_plan.c
 *		Plans of an archive, and requests for them: rule H-20.
 */
#include "core/archive/archive_plan.h"
#include "hex.h"
#include "unit.h"

#define LIMIT	"1000000000000000"
#define MOST	"999999999999999"
#define STATS	"\"stats\":{\"segmentsExamined\":9,\"segmentsMatched\":2,\"blocksMatched\":7,\"entries\":3}"
#define ENDS	"\"sealedTipSeq\":900,\"plannedThroughSeq\":900," STATS
#define PAGE(segments)	"{" ENDS ",\"segments\":[" segments "]}"
#define SEGMENT(digit, seqs, rest) \
	"{\"name\":\"seg_000000000" #digit ".jss\",\"index\":" #digit ",\"checksum\":\"0123456789abcdef\"," seqs "," rest "}"
#define SEQS	"\"minSeq\":5,\"maxSeq\":80"
#define WHOLE	"\"mode\":\"segment\""
#define BLOCKS(ranges)	"\"mode\":\"blocks\",\"blocks\":[" ranges "]"

static AtpPlan plan;
static char units_text[65536];

/* The units as text: 3[5-80], or 3[5-80]2-4 */
static AtpErr
read_plan(const char *text, size_t n, size_t *at)
{
	char	   *copy = (char *) copy_of(text, n);
	AtpErr		err = atp_plan_parse(copy, n, &plan, at);

	*units_text = '\0';
	if (err == ATP_OK)
	{
		AtpPlanUnits units;
		const AtpPlanUnit *u = &units.unit;
		char	   *p = units_text;
		uint32_t	found = 0;
		size_t		unused;

		atp_plan_units_begin(&units, &plan);
		while ((err = atp_plan_units_next(&units, &unused)) == ATP_OK)
		{
			found++;
			if (p - units_text > 60000)
				continue;
			p += sprintf(p, "%s%lu[%lu-%lu]", found > 1 ? " " : "", (unsigned long) u->segment, (unsigned long) u->min_seq, (unsigned long) u->max_seq);
			if (!u->is_whole)
				p += sprintf(p, "%u-%u", u->first, u->last);
		}
		err = err == ATP_E_JSON_END && found == plan.units ? ATP_OK : ATP_ERR_COUNT;
	}
	free(copy);
	return *at <= n ? err : ATP_ERR_COUNT;
}

static void
good(const char *what, const char *text, const char *expected)
{
	size_t		at = 0;
	AtpErr		err = read_plan(text, strlen(text), &at);

	ok(err == ATP_OK && strcmp(units_text, expected) == 0, "H-20: %s: %s: %s", what, units_text, atp_err_text(err));
}

static void
bad(const char *what, const char *text, AtpErr expected, const char *place)
{
	size_t		at = 0;
	AtpErr		err = read_plan(text, strlen(text), &at);

	ok(err == expected && (place == NULL || at == (size_t) (strstr(text, place) - text)), "H-20: %s: %s at %zu", what, atp_err_text(err), at);
}

static void
test_pages(void)
{
	good("an empty archive", "{\"sealedTipSeq\":0,\"plannedThroughSeq\":0,\"segments\":[],\"stats\":{\"blocksMatched\":0}}", "");
	ok(plan.sealed_tip_seq == 0 && plan.planned_through_seq == 0 && plan.blocks_matched == 0, "its end");
	good("whole segments and ranges",
		 PAGE(SEGMENT(1, SEQS, WHOLE) "," SEGMENT(2, "\"minSeq\":81,\"maxSeq\":400", BLOCKS("{\"first\":0,\"last\":0},{\"first\":1,\"last\":7}")) ","
			  SEGMENT(9, "\"minSeq\":401,\"maxSeq\":900", WHOLE)), "1[5-80] 2[81-400]0-0 2[81-400]1-7 9[401-900]");
	ok(plan.sealed_tip_seq == 900 && plan.planned_through_seq == 900 && plan.blocks_matched == 7 && plan.units == 4, "its numbers");
	good("a page that ends within a segment", "{\"segments\":[" SEGMENT(1, SEQS, BLOCKS("{\"last\":3,\"first\":2}")) "]," STATS
		 ",\"plannedThroughSeq\":70,\"sealedTipSeq\":" MOST "}", "1[5-80]2-3");
	good("no range, and a member more", PAGE(SEGMENT(1, SEQS, "\"x\":[{\"first\":1}]," BLOCKS(""))), "");
	good("a whole segment that has ranges, too", PAGE(SEGMENT(1, SEQS, WHOLE ",\"blocks\":[{\"first\":1,\"last\":2}]")), "1[5-80]");
	good("white space and escapes", " { \"s\\u0065gments\" : [ {\"n\\u0061me\":\"seg\\u005f0000000003.jss\", \"index\":3.0, " SEQS ", \"mode\":\"se\\u0067ment\"} ] , "
		 ENDS " }\n", "3[5-80]");
	good("the last block", PAGE(SEGMENT(1, SEQS, BLOCKS("{\"first\":1048575,\"last\":1048575}"))), "1[5-80]1048575-1048575");
	good("the greatest index", PAGE("{\"name\":\"seg_9ugxnorjlr.jss\",\"index\":" MOST "," SEQS "," WHOLE "}"), MOST "[5-80]");
}

static void
test_faults(void)
{
	bad("nothing", "", ATP_E_JSON_SYNTAX, NULL);
	bad("HTML", "<html>", ATP_E_JSON_SYNTAX, NULL);
	bad("something behind it", PAGE("") "~", ATP_E_JSON_SYNTAX, "~");
	bad("an array", "[]", ATP_E_JSON_OBJECT, NULL);
	bad("no members", "{}", ATP_E_PLAN_MEMBER, NULL);
	bad("no segments", "{" ENDS "}", ATP_E_PLAN_MEMBER, NULL);
	bad("no numbers", "{\"segments\":[]," STATS "}", ATP_E_PLAN_MEMBER, NULL);
	bad("no statistics", "{\"segments\":[],\"sealedTipSeq\":0,\"plannedThroughSeq\":0}", ATP_E_PLAN_MEMBER, NULL);
	bad("no number of blocks", "{\"segments\":[],\"sealedTipSeq\":0,\"plannedThroughSeq\":0,\"stats\":{}}", ATP_E_PLAN_MEMBER, NULL);
	bad("a member twice", "{" ENDS ",\"segments\":[],\"segments\":[]}", ATP_E_JSON_TWICE, NULL);
	bad("a number twice", "{" ENDS ",\"segments\":[],\"sealedTipSeq\":900}", ATP_E_JSON_TWICE, NULL);
	bad("beyond the end", "{\"sealedTipSeq\":5,\"plannedThroughSeq\":6,\"segments\":[]," STATS "}", ATP_E_PLAN_THROUGH, NULL);
	bad("a text for a number", "{\"sealedTipSeq\":\"5\",\"plannedThroughSeq\":5,\"segments\":[]," STATS "}", ATP_E_PLAN_MEMBER, NULL);
	bad("a fraction", "{\"sealedTipSeq\":5.5,\"plannedThroughSeq\":5,\"segments\":[]," STATS "}", ATP_E_PLAN_NUMBER, "5.5");
	bad("an exponent", "{\"sealedTipSeq\":1e3,\"plannedThroughSeq\":5,\"segments\":[]," STATS "}", ATP_E_PLAN_NUMBER, "1e3");
	bad("a negative number", "{\"sealedTipSeq\":-1,\"plannedThroughSeq\":5,\"segments\":[]," STATS "}", ATP_E_PLAN_NUMBER, "-1");
	bad("10^15", "{\"sealedTipSeq\":" LIMIT ",\"plannedThroughSeq\":5,\"segments\":[]," STATS "}", ATP_E_PLAN_NUMBER, LIMIT);
	bad("2^64", "{\"sealedTipSeq\":18446744073709551616,\"plannedThroughSeq\":5,\"segments\":[]," STATS "}", ATP_E_PLAN_NUMBER, "1844");
	bad("10^15 blocks", "{\"sealedTipSeq\":5,\"plannedThroughSeq\":5,\"segments\":[],\"stats\":{\"blocksMatched\":" LIMIT "}}", ATP_E_PLAN_NUMBER, LIMIT);
	bad("nested too deep", PAGE(SEGMENT(1, SEQS, WHOLE ",\"x\":[[[[[[[[[[[[[[]]]]]]]]]]]]]]")), ATP_E_JSON_DEPTH, NULL);
	good("nested as deep as may be", PAGE(SEGMENT(1, SEQS, WHOLE ",\"x\":[[[[[[[[[[[[[]]]]]]]]]]]]]")), "1[5-80]");
	bad("no JSON in what is not read", PAGE(SEGMENT(1, SEQS, WHOLE ",\"x\":[tru]")), ATP_E_JSON_SYNTAX, "tru]");

	bad("a segment that is a number", PAGE("7"), ATP_E_PLAN_MEMBER, NULL);
	bad("a segment without a name", PAGE("{\"index\":1," SEQS "," WHOLE "}"), ATP_E_PLAN_MEMBER, NULL);
	bad("another name", PAGE("{\"name\":\"../../../passwd\",\"index\":1," SEQS "," WHOLE "}"), ATP_E_SEGMENT_NAME, "../../");
	bad("a long name", PAGE("{\"name\":\"seg_0000000001.jss0000\",\"index\":1," SEQS "," WHOLE "}"), ATP_E_SEGMENT_NAME, "seg_");
	bad("a name in upper case", PAGE("{\"name\":\"seg_000000000A.jss\",\"index\":10," SEQS "," WHOLE "}"), ATP_E_SEGMENT_NAME, "seg_");
	bad("a name of another index", PAGE("{\"name\":\"seg_000000000a.jss\",\"index\":11," SEQS "," WHOLE "}"), ATP_E_PLAN_ORDER, "seg_");
	bad("an index of 10^15", PAGE("{\"name\":\"seg_9ugxnorjls.jss\",\"index\":" LIMIT "," SEQS "," WHOLE "}"), ATP_E_PLAN_NUMBER, LIMIT);
	bad("a segment twice", PAGE(SEGMENT(1, SEQS, WHOLE) "," SEGMENT(1, SEQS, WHOLE)), ATP_E_PLAN_ORDER, NULL);
	bad("segments that descend", PAGE(SEGMENT(3, SEQS, WHOLE) "," SEGMENT(2, SEQS, BLOCKS(""))), ATP_E_PLAN_ORDER, NULL);
	bad("no mode", PAGE("{\"name\":\"seg_0000000001.jss\",\"index\":1," SEQS "}"), ATP_E_PLAN_MEMBER, NULL);
	bad("another mode", PAGE(SEGMENT(1, SEQS, "\"mode\":\"rows\"")), ATP_E_PLAN_MODE, "rows");
	bad("a member of a segment twice", PAGE(SEGMENT(1, SEQS ",\"minSeq\":6", WHOLE)), ATP_E_JSON_TWICE, NULL);
	bad("numbers that fall", PAGE(SEGMENT(1, "\"minSeq\":6,\"maxSeq\":5", WHOLE)), ATP_E_PLAN_SEQ, NULL);
	bad("a number that is none", PAGE(SEGMENT(1, "\"minSeq\":6,\"maxSeq\":-7", WHOLE)), ATP_E_PLAN_NUMBER, "-7");

	bad("no ranges", PAGE(SEGMENT(1, SEQS, "\"mode\":\"blocks\"")), ATP_E_PLAN_MEMBER, NULL);
	bad("ranges that are an object", PAGE(SEGMENT(1, SEQS, "\"mode\":\"blocks\",\"blocks\":{\"first\":1,\"last\":2}")), ATP_E_PLAN_MEMBER, NULL);
	bad("a range that is a number", PAGE(SEGMENT(1, SEQS, BLOCKS("7"))), ATP_E_PLAN_MEMBER, NULL);
	bad("a range without an end", PAGE(SEGMENT(1, SEQS, BLOCKS("{\"first\":1}"))), ATP_E_PLAN_MEMBER, NULL);
	bad("a range that ends before it begins", PAGE(SEGMENT(1, SEQS, BLOCKS("{\"first\":2,\"last\":1}"))), ATP_E_PLAN_RANGE, NULL);
	bad("ranges with a common block", PAGE(SEGMENT(1, SEQS, BLOCKS("{\"first\":1,\"last\":2},{\"first\":2,\"last\":3}"))), ATP_E_PLAN_RANGE, NULL);
	bad("ranges that descend", PAGE(SEGMENT(1, SEQS, BLOCKS("{\"first\":5,\"last\":6},{\"first\":1,\"last\":2}"))), ATP_E_PLAN_RANGE, NULL);
	bad("2^20", PAGE(SEGMENT(1, SEQS, BLOCKS("{\"first\":1,\"last\":1048576}"))), ATP_E_PLAN_RANGE, NULL);
	bad("a negative block", PAGE(SEGMENT(1, SEQS, BLOCKS("{\"first\":-1,\"last\":1}"))), ATP_E_PLAN_NUMBER, "-1");
	bad("a block twice", PAGE(SEGMENT(1, SEQS, BLOCKS("{\"first\":1,\"last\":1,\"last\":2}"))), ATP_E_JSON_TWICE, NULL);
	good("ranges of the next segment begin anew", PAGE(SEGMENT(1, SEQS, BLOCKS("{\"first\":5,\"last\":6}")) "," SEGMENT(2, SEQS, BLOCKS("{\"first\":1,\"last\":1}"))),
		 "1[5-80]5-6 2[5-80]1-1");
}

static void
test_limits(void)
{
	static char text[ATP_PLAN_MAX + 2];
	size_t		n;
	size_t		at;

	/* H-20: 200,000 units, in two segments */
	for (unsigned units = ATP_PLAN_UNITS_MAX; units <= ATP_PLAN_UNITS_MAX + 1; units++)
	{
		AtpErr		err;

		n = sprintf(text, "{" ENDS ",\"segments\":[" SEGMENT(1, SEQS, WHOLE) ",{\"name\":\"seg_0000000002.jss\",\"index\":2," SEQS ",\"mode\":\"blocks\",\"blocks\":[");
		for (unsigned i = 0; i < units - 1; i++)
			n += sprintf(text + n, "%s{\"first\":%u,\"last\":%u}", i == 0 ? "" : ",", 2 * i, 2 * i + 1);
		n += sprintf(text + n, "]}]}");
		err = read_plan(text, n, &at);
		ok(units == ATP_PLAN_UNITS_MAX ? err == ATP_OK && plan.units == units : err == ATP_E_PLAN_UNITS, "H-20: %u units: %s", units, atp_err_text(err));
	}
	n = sprintf(text, PAGE(""));
	memset(text + n, ' ', sizeof(text) - n);
	ok(read_plan(text, ATP_PLAN_MAX, &at) == ATP_OK, "H-20: 32 MB");
	ok(read_plan(text, ATP_PLAN_MAX + 1, &at) == ATP_E_PLAN_SIZE && at == ATP_PLAN_MAX, "H-20: 32 MB and a byte");
}

/* ------------------------------------------------------------------------
 * Requests
 * ------------------------------------------------------------------------
 */
static void
request(const char *what, const AtpPlanRequest *r, const char *expected)
{
	char		out[512];
	size_t		n = 0;
	int			differ = 0;
	AtpErr		err = atp_plan_request_write(r, out, sizeof(out), &n);

	for (size_t room = 0; err == ATP_OK && room <= n; room++)
	{
		char	   *exact = malloc(room + 1);
		size_t		again;

		differ += atp_plan_request_write(r, exact, room, &again) != ATP_OK || again != n || memcmp(exact, out, room) != 0;
		free(exact);
	}
	ok(err == ATP_OK && differ == 0 && n == strlen(expected) && memcmp(out, expected, n) == 0, "%s: %.*s", what, (int) n, out);
}

static void
refused(const char *what, const AtpPlanRequest *r, AtpErr expected)
{
	size_t		n = 0;
	AtpErr		err = atp_plan_request_write(r, NULL, 0, &n);

	ok(err == expected, "%s: %s", what, atp_err_text(err));
}

#define SPAN(text)	{text, sizeof(text) - 1}

static void
test_requests(void)
{
	const AtpSpan collections[] = {SPAN("app.bsky.feed.post"), SPAN("app.bsky.*")};
	const AtpSpan all[] = {SPAN("*")};
	const AtpSpan broken[] = {SPAN("app.bsky.feed.post\",\"x")};
	const AtpSpan dids[] = {SPAN("did:plc:ewvi7nxzyoun6zhxrhs64oiz"), SPAN("did:web:a.example.com")};
	const AtpSpan handle[] = {SPAN("alice.example.com")};
	static AtpSpan many[ATP_PLAN_DIDS_MAX + 1];

	request("all", &(AtpPlanRequest) {0}, "{}");
	request("from a number", &(AtpPlanRequest) {.after_seq = 1234567890}, "{\"afterSeq\":1234567890}");
	request("to a number", &(AtpPlanRequest) {.before_seq = 7}, "{\"beforeSeq\":7}");
	request("collections", &(AtpPlanRequest) {.collections = collections, .ncollections = 2, .after_seq = 5, .before_seq = 6},
			"{\"collections\":[\"app.bsky.feed.post\",\"app.bsky.*\"],\"afterSeq\":5,\"beforeSeq\":6}");
	request("kinds and accounts", &(AtpPlanRequest) {.kinds = ATP_PLAN_SYNC | ATP_PLAN_COMMIT, .dids = dids, .ndids = 2},
			"{\"kinds\":[\"commit\",\"sync\"],\"dids\":[\"did:plc:ewvi7nxzyoun6zhxrhs64oiz\",\"did:web:a.example.com\"]}");
	request("all kinds", &(AtpPlanRequest) {.kinds = 15}, "{\"kinds\":[\"commit\",\"identity\",\"account\",\"sync\"]}");

	for (size_t i = 0; i <= ATP_PLAN_DIDS_MAX; i++)
		many[i] = dids[1];
	refused("10,001 accounts", &(AtpPlanRequest) {.dids = many, .ndids = ATP_PLAN_DIDS_MAX + 1}, ATP_E_PLAN_REQUEST);
	refused("10,000 accounts", &(AtpPlanRequest) {.dids = many, .ndids = ATP_PLAN_DIDS_MAX}, ATP_OK);
	for (size_t i = 0; i <= ATP_PLAN_COLLECTIONS_MAX; i++)
		many[i] = collections[0];
	refused("101 collections", &(AtpPlanRequest) {.collections = many, .ncollections = ATP_PLAN_COLLECTIONS_MAX + 1}, ATP_E_PLAN_REQUEST);
	refused("100 collections", &(AtpPlanRequest) {.collections = many, .ncollections = ATP_PLAN_COLLECTIONS_MAX}, ATP_OK);
	refused("collections without commits", &(AtpPlanRequest) {.kinds = ATP_PLAN_SYNC, .collections = collections, .ncollections = 1}, ATP_E_PLAN_REQUEST);
	refused("an empty range", &(AtpPlanRequest) {.after_seq = 6, .before_seq = 6}, ATP_E_PLAN_REQUEST);
	refused("a time", &(AtpPlanRequest) {.after_seq = ATP_ARCHIVE_SEQ_LIMIT}, ATP_E_PLAN_REQUEST);
	refused("up to a time", &(AtpPlanRequest) {.before_seq = ATP_ARCHIVE_SEQ_LIMIT}, ATP_E_PLAN_REQUEST);
	refused("all collections by a pattern", &(AtpPlanRequest) {.collections = all, .ncollections = 1}, ATP_E_PLAN_REQUEST);
	refused("a collection with a quotation mark", &(AtpPlanRequest) {.collections = broken, .ncollections = 1}, ATP_E_LABEL_CHAR);
	refused("a handle", &(AtpPlanRequest) {.dids = handle, .ndids = 1}, ATP_E_DID_PREFIX);
}

int
main(void)
{
	test_pages();
	test_faults();
	test_limits();
	test_requests();
	return done_testing();
}
