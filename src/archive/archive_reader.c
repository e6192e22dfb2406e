/*
 * archive_reader.c
 *		Reads the archive of a Jetstream over HTTP: see archive_reader.h.
 *
 * A page of the plan names units: segments, and ranges of blocks.  A unit becomes transfers: one for a segment, one for each
 * block of a range.  Transfers are requested a few ahead, and taken in their order (H-16): of transfers behind the first,
 * libcurl receives as much as fits into the buffer of a request, and then the server has to wait.  The first transfer's bytes go to the decompressor as
 * they come; rows are handed out when a block is whole, and its checksum right.
 */
#include "postgres.h"

#include "archive/archive_reader.h"
#include "archive/refused_block.h"
#include "core/archive/segment_blocks.h"
#include "net/http.h"
#include "net/unzstd.h"
#include "utils/memutils.h"

#define AHEAD			16		/* concurrent transfers */
#define PIECE			65536	/* bytes read at a time */
#define WHOLE_MS		(60 * 60 * 1000)
#define PLAN_MS			60000
#define SLOW_BYTES		1024	/* H-14: a second ... */
#define SLOW_S			30		/* ... for so long */
#define GENERATIONS_MAX	3		/* changed files in a row, after which the page is planned anew (H-11) */
#define REST_MAX_S		3600	/* H-60 */

typedef struct Transfer
{
	AtpPlanUnit unit;
	uint32		block;			/* of a range: the number of the block in its segment */
	AtpHttp    *http;			/* NULL: no request */
	bool		judged;			/* the status was looked at */
	bool		done;			/* a range's block was received and handed out */
	/* of a segment */
	int64		from;			/* the request asks for the bytes from here on ... */
	int64		at;				/* ... and so many bytes of the file were taken */
	int64		total;			/* of the file; -1: unknown */
	char		etag[ATP_HTTP_ETAG_MAX + 1];	/* of the first answer; "": no ETag */
	bool		is_short;		/* the answer was a range from there on, but has ended before the file does */
	int			generations;	/* how often the file has changed meanwhile */
	AtpSegmentBlocks blocks;
	int64		good_at;		/* offset behind the last block whose rows were handed out; 0: none was ... */
	AtpSegmentBlocks good;		/* ... and the state of the segment at good_at */
} Transfer;

struct AtpArchive
{
	MemoryContext cxt;
	AtpArchiveOptions options;
	AtpUnzstd  *unzstd;

	/* the page */
	AtpHttp    *asked;			/* the request of the page, whose body has the units */
	uint64		after;			/* what was asked ... */
	uint64		tip;			/* ... to here; 0: to the end */
	bool		has_plan;
	AtpPlan		plan;
	AtpPlanUnits units;
	uint32		next_block;		/* of the present range */
	bool		in_range;
	bool		no_more_units;

	/* transfers of the page, in the order of the plan */
	Transfer	queue[AHEAD];
	int			first;
	int			n;

	/* bytes of the first transfer that were read and not used yet */
	uint8_t		piece[PIECE];
	const uint8_t *in;
	size_t		nin;

	/* the open block */
	bool		in_block;
	AtpArchiveBlock block;
	uint64		last;			/* number of the last row of the blocks before */
	uint64		segment_last;	/* the same before the first transfer, if this is a segment */
	char	   *bad;			/* why the block that is received now is refused, although its bytes are still hashed; NULL: it is not */
	AtpRefusedBlock refused;

	/* how it failed */
	char	   *error;
	int			rest_s;
	bool		denied;
	bool		gone;			/* the page has to be planned anew */
	bool		stays_bad;
	bool		is_refused;		/* the request of a page was */

	AtpArchiveCounts counts;
};

AtpArchive *
atp_archive_new(const AtpArchiveOptions *options)
{
	MemoryContext cxt = AllocSetContextCreate(TopMemoryContext, "atproto archive", ALLOCSET_DEFAULT_SIZES);
	AtpArchive *a = MemoryContextAllocZero(cxt, sizeof(AtpArchive));

	a->cxt = cxt;
	a->options = *options;
	a->options.origin = MemoryContextStrdup(cxt, options->origin);
	a->options.methods = MemoryContextStrdup(cxt, options->methods);
	a->options.headers = MemoryContextStrdup(cxt, options->headers);
	a->options.ca_file = options->ca_file != NULL ? MemoryContextStrdup(cxt, options->ca_file) : NULL;
	a->options.proxy = options->proxy != NULL ? MemoryContextStrdup(cxt, options->proxy) : NULL;
	a->unzstd = atp_unzstd_new_for_blocks(options->block_max);
	if (a->unzstd == NULL)
		ereport(ERROR, (errcode(ERRCODE_OUT_OF_MEMORY), errmsg("out of memory")));
	return a;
}

bool
atp_archive_has_limits(const AtpArchive *a, size_t memory, size_t block_max)
{
	return a->options.memory == memory && a->options.block_max == block_max;
}

/* ------------------------------------------------------------------------
 * Requests
 * ------------------------------------------------------------------------
 */

static AtpHttp *
ask_server(const AtpArchive *a, const char *url, const char *post, int64 body_max, const char *more)
{
	AtpHttpRequest request = {
		.owner = a, .url = url, .accept = post != NULL ? "application/json" : "application/octet-stream",
		.whole_ms = post != NULL ? PLAN_MS : WHOLE_MS, .body_max = body_max,
		.stream = post == NULL, .ahead_max = a->options.memory / AHEAD, .slow_bytes = SLOW_BYTES, .slow_s = SLOW_S, .post = post, .named = true,
		.ca_file = a->options.ca_file, .proxy = a->options.proxy
	};

	request.headers = psprintf("%s%s", a->options.headers, more);
	return atp_http_start(&request);
}

static Transfer *
first_transfer(AtpArchive *a)
{
	return &a->queue[a->first];
}

static void
request_transfer(AtpArchive *a, Transfer *t)
{
	char		name[ATP_SEGMENT_NAME_LEN + 1] = {0};
	char	   *url;
	const char *range = "";

	atp_segment_name_format(t->unit.segment, name);
	if (t->unit.is_whole)
		url = psprintf("%s/xrpc/%s.getSegment?name=%s", a->options.origin, a->options.methods, name);
	else
		url = psprintf("%s/xrpc/%s.getBlock?segment=%s&blockIndex=%u", a->options.origin, a->options.methods, name, t->block);
	if (t->from > 0)
		range = psprintf("Range: bytes=" INT64_FORMAT "-\r\nIf-Range: %s\r\n", t->from, t->etag);
	/* H-21: the frames of a segment have lengths of their own */
	t->is_short = false;
	t->http = ask_server(a, url, NULL, t->unit.is_whole ? PG_INT64_MAX : ATP_ARCHIVE_FRAME_MAX, range);
	t->judged = false;
}

static void
drop_transfer(Transfer *t)
{
	atp_http_free(t->http);
	t->http = NULL;
}

static void
drop_page(AtpArchive *a)
{
	for (int i = 0; i < a->n; i++)
		drop_transfer(&a->queue[(a->first + i) % AHEAD]);
	a->first = a->n = 0;
	atp_http_free(a->asked);
	a->asked = NULL;
	a->has_plan = a->in_range = a->no_more_units = a->in_block = false;
	a->in = NULL;
	a->nin = 0;
}

void
atp_archive_free(AtpArchive *a)
{
	if (a == NULL)
		return;
	drop_page(a);
	atp_unzstd_free(a->unzstd);
	MemoryContextDelete(a->cxt);
}

/* ------------------------------------------------------------------------
 * Failures
 * ------------------------------------------------------------------------
 */

static AtpArchiveStep
fail_step(AtpArchive *a, const char *error)
{
	if (a->error != NULL)
		pfree(a->error);
	a->error = MemoryContextStrdup(a->cxt, error);
	a->rest_s = 0;
	a->denied = a->gone = a->stays_bad = a->is_refused = false;
	return ATP_ARCHIVE_FAILED;
}

/* A request has failed. */
static AtpArchiveStep
fail_request(AtpArchive *a, AtpHttp *http)
{
	const AtpHttpAnswer *answer = atp_http_answer(http);
	int64		rest = answer->retry_after_s >= 0 ? answer->retry_after_s : answer->reset_s;

	(void) fail_step(a, answer->error != NULL ? answer->error : psprintf("%s: HTTP status %d", answer->url, answer->status));
	if (answer->status == 429 || answer->status == 503)
		a->rest_s = (int) Min(Max(rest, 0), REST_MAX_S);
	a->denied = answer->status == 401 || answer->status == 403;
	/* H-11: a missing file, and a range that the file does not have */
	a->gone = answer->status == 404 || answer->status == 416 || answer->status == 410;
	return ATP_ARCHIVE_FAILED;
}

/* H-22: a block or a segment is wrong. */
static AtpArchiveStep
fail_contents(AtpArchive *a, const Transfer *t, uint32 block, const char *why, size_t at)
{
	char		name[ATP_SEGMENT_NAME_LEN + 1] = {0};
	const char *more = atp_refused_again(&a->refused, t->unit.segment, block);

	atp_segment_name_format(t->unit.segment, name);
	(void) fail_step(a, psprintf("block %u of segment %s is refused: %s (byte %zu)%s", block, name, why, atp_byte_number(at), more));
	a->stays_bad = a->refused.times >= ATP_REFUSED_MAX;
	return ATP_ARCHIVE_FAILED;
}

const char *
atp_archive_error(const AtpArchive *a)
{
	return a->error;
}

int
atp_archive_rest_s(const AtpArchive *a)
{
	return a->rest_s;
}

bool
atp_archive_is_denied(const AtpArchive *a)
{
	return a->denied;
}

bool
atp_archive_is_refused(const AtpArchive *a)
{
	return a->is_refused;
}

bool
atp_archive_stays_bad(const AtpArchive *a)
{
	return a->stays_bad;
}

/* The bytes of a block begin. */
static void
begin_block(AtpArchive *a)
{
	atp_unzstd_begin(a->unzstd);
	atp_refused_begin(&a->refused);
	if (a->bad != NULL)
		pfree(a->bad);
	a->bad = NULL;
}

/* Begin the transfer again from the first byte. */
static void
begin_anew(AtpArchive *a, Transfer *t)
{
	t->from = t->at = 0;
	t->total = -1;
	t->etag[0] = '\0';
	t->good_at = 0;
	a->last = a->segment_last;
	a->in_block = false;
}

/* Begin a segment again behind the last block that was right; the file must have an ETag. */
static void
begin_at_block(AtpArchive *a, Transfer *t)
{
	t->at = t->good_at;
	t->blocks = t->good;
	begin_block(a);
}

bool
atp_archive_again(AtpArchive *a)
{
	Transfer   *t = first_transfer(a);
	bool		broken;

	if (!a->has_plan || a->gone || a->n == 0 || t->generations >= GENERATIONS_MAX)
		return false;
	/* a transfer goes on where the connection was cut, or a range ended, only if the file has an ETag */
	broken = t->is_short || (t->http != NULL && atp_http_answer(t->http) != NULL && atp_http_answer(t->http)->outcome != ATP_HTTP_OK);
	drop_transfer(t);
	a->in = NULL;
	a->nin = 0;
	if (!t->unit.is_whole || t->etag[0] == '\0' || t->etag[0] == 'W' || (!broken && t->good_at == 0))
		begin_anew(a, t);
	else if (!broken)
		begin_at_block(a, t);
	t->from = t->at;
	request_transfer(a, t);
	/* request failed transfers behind the first one, too */
	for (int i = 1; i < a->n; i++)
	{
		Transfer   *other = &a->queue[(a->first + i) % AHEAD];
		const AtpHttpAnswer *answer = atp_http_answer(other->http);

		if (answer != NULL && (answer->outcome != ATP_HTTP_OK || answer->status != 200))
		{
			drop_transfer(other);
			request_transfer(a, other);
		}
	}
	return true;
}

/* ------------------------------------------------------------------------
 * The plan
 * ------------------------------------------------------------------------
 */

void
atp_archive_filter(AtpArchive *a, const AtpPlanRequest *filter)
{
	a->options.filter = *filter;
}

void
atp_archive_plan(AtpArchive *a, int64 after, int64 tip)
{
	AtpPlanRequest request = a->options.filter;
	size_t		n = 0;
	char	   *body;

	drop_page(a);
	a->after = Max(after, 0);
	a->tip = tip;
	a->last = a->segment_last = 0;
	request.after_seq = a->after;
	request.before_seq = a->tip;
	/* H-27: what the server cannot be asked by is filtered here */
	if (atp_plan_request_write(&request, NULL, 0, &n) != ATP_OK)
	{
		request.ncollections = request.ndids = 0;
		(void) atp_plan_request_write(&request, NULL, 0, &n);
	}
	body = palloc0(n + 1);
	(void) atp_plan_request_write(&request, body, n, &n);
	a->asked = ask_server(a, psprintf("%s/xrpc/%s.planSnapshot", a->options.origin, a->options.methods), body, ATP_PLAN_MAX, "");
	pfree(body);
}

const AtpPlan *
atp_archive_plan_of(const AtpArchive *a)
{
	return &a->plan;
}

static AtpArchiveStep
read_plan(AtpArchive *a)
{
	const AtpHttpAnswer *answer = atp_http_answer(a->asked);
	size_t		at = 0;
	AtpErr		err;

	if (answer == NULL)
		return ATP_ARCHIVE_WAITS;
	if (answer->outcome != ATP_HTTP_OK || answer->status != 200)
	{
		(void) fail_request(a, a->asked);
		a->is_refused = answer->status == 400;
		return ATP_ARCHIVE_FAILED;
	}
	a->counts.bytes += answer->body_len;
	err = atp_plan_parse(answer->body, answer->body_len, &a->plan, &at);
	if (err != ATP_OK)
		return fail_step(a, psprintf("the plan of %s is refused: %s (byte %zu)", a->options.origin, atp_err_text(err), atp_byte_number(at)));
	/* H-06 */
	if (a->plan.planned_through_seq <= a->after && a->plan.planned_through_seq < a->plan.sealed_tip_seq)
		return fail_step(a, psprintf("the plan of %s is refused: it ends at %llu, and begins after %llu", a->options.origin,
								(unsigned long long) a->plan.planned_through_seq, (unsigned long long) a->after));
	atp_plan_units_begin(&a->units, &a->plan);
	a->has_plan = true;
	return ATP_ARCHIVE_PLANNED;
}

/* The next block of a range, or the next unit; false: there is no further unit. */
static bool
next_unit(AtpArchive *a, Transfer *t)
{
	size_t		at;

	if (a->in_range && a->next_block < a->units.unit.last)
		a->next_block++;
	else if (!a->no_more_units && atp_plan_units_next(&a->units, &at) == ATP_OK)
	{
		a->in_range = !a->units.unit.is_whole;
		a->next_block = a->units.unit.first;
	}
	else
	{
		a->no_more_units = true;
		return false;
	}
	*t = (Transfer) {.unit = a->units.unit, .block = a->next_block, .total = -1};
	return true;
}

/* Request transfers ahead, but none behind a segment, whose bytes fill the line for long. */
static void
fill_queue(AtpArchive *a)
{
	while (a->n < AHEAD && !(a->n > 0 && a->queue[(a->first + a->n - 1) % AHEAD].unit.is_whole))
	{
		Transfer   *t = &a->queue[(a->first + a->n) % AHEAD];

		if (!next_unit(a, t))
			return;
		request_transfer(a, t);
		a->n++;
	}
}

/* ------------------------------------------------------------------------
 * Transfers
 * ------------------------------------------------------------------------
 */

/* Compare the answer's headers with the request (H-11). */
static AtpArchiveStep
judge_head(AtpArchive *a, Transfer *t, const AtpHttpAnswer *head)
{
	int			status = atp_http_status(t->http);
	const char *etag = head->etag != NULL ? head->etag : "";

	t->judged = true;
	if (t->from > 0)
	{
		if (status == 206 && strcmp(etag, t->etag) == 0 && head->range_from == t->from && head->range_total == t->total)
			return ATP_ARCHIVE_ROW;
		/* the server has another generation of the file; applied rows stay, because their numbers are below the position */
		t->generations++;
		begin_anew(a, t);
		return fail_step(a, psprintf("%s has changed while it was read", atp_http_answer(t->http) != NULL ? atp_http_answer(t->http)->url : "a segment"));
	}
	if (status != 200)
		return fail_step(a, psprintf("HTTP status %d instead of a whole file", status));
	if (t->unit.is_whole)
	{
		strlcpy(t->etag, etag, sizeof(t->etag));
		t->total = head->length;
		atp_segment_blocks_begin(&t->blocks, t->total >= 0 ? (uint64) t->total : PG_INT64_MAX);
	}
	begin_block(a);
	return ATP_ARCHIVE_ROW;
}

/*
 * Have bytes of the first transfer at a->in.  ATP_ARCHIVE_ROW: there are some.  ATP_ARCHIVE_BLOCK_READ: the transfer has
 * ended, and there are no more.
 */
static AtpArchiveStep
have_bytes(AtpArchive *a, Transfer *t)
{
	const AtpHttpAnswer *answer;
	const AtpHttpAnswer *head;

	if (a->nin > 0)
		return ATP_ARCHIVE_ROW;
	if (!t->judged)
	{
		AtpArchiveStep step;

		answer = atp_http_answer(t->http);
		head = atp_http_head(t->http);
		if (answer != NULL && (answer->status < 200 || answer->status > 299))
			return fail_request(a, t->http);
		if (head == NULL || (atp_http_status(t->http) >= 300 && answer == NULL))
			return ATP_ARCHIVE_WAITS;
		if ((step = judge_head(a, t, head)) != ATP_ARCHIVE_ROW)
			return step;
	}
	a->nin = atp_http_read(t->http, a->piece, sizeof(a->piece));
	a->in = a->piece;
	a->counts.bytes += a->nin;
	if (a->nin > 0)
		return ATP_ARCHIVE_ROW;
	answer = atp_http_answer(t->http);
	if (answer == NULL)
		return ATP_ARCHIVE_WAITS;
	return answer->outcome == ATP_HTTP_OK ? ATP_ARCHIVE_BLOCK_READ : fail_request(a, t->http);
}

/* A block's frame is whole: check the block, and begin with its rows. */
static AtpArchiveStep
open_block(AtpArchive *a, const Transfer *t, uint32 number)
{
	AtpEnd		end = {0};
	size_t		len = 0;
	size_t		at = 0;
	const uint8_t *content;
	AtpErr		err;

	if (a->bad != NULL)
		return fail_contents(a, t, number, a->bad, 0);
	content = atp_unzstd_end(a->unzstd, &len, &end);
	if (content == NULL)
		return fail_contents(a, t, number, end.why, 0);
	err = atp_archive_block_open(&a->block, (AtpBytes) {content, len}, a->last, t->unit.min_seq, t->unit.max_seq, &at);
	if (err != ATP_OK)
		return fail_contents(a, t, number, atp_err_text(err), at);
	atp_refused_end(&a->refused, t->unit.segment, number);
	a->in_block = true;
	return ATP_ARCHIVE_ROW;
}

/* Bytes of the open block.  If the block was refused before, all of its bytes are hashed, also behind a fault. */
static AtpArchiveStep
push_bytes(AtpArchive *a, const Transfer *t, uint32 number, AtpBytes bytes)
{
	bool		known = atp_refused_is(&a->refused, t->unit.segment, number);
	AtpEnd		end = {0};
	const char *why;

	if (known)
		atp_refused_add(&a->refused, bytes);
	if (a->bad != NULL || atp_unzstd_push(a->unzstd, bytes.ptr, bytes.len, &end))
		return ATP_ARCHIVE_ROW;
	why = end.drop != ATP_DROP_TOO_LARGE ? end.why : psprintf("%s, the limit of atproto.history_block_max", end.why);
	if (!known)
		return fail_contents(a, t, number, why, 0);
	a->bad = MemoryContextStrdup(a->cxt, why);
	return ATP_ARCHIVE_ROW;
}

/* The first transfer is a block of a range. */
static AtpArchiveStep
receive_block(AtpArchive *a, Transfer *t)
{
	AtpArchiveStep step;

	while ((step = have_bytes(a, t)) == ATP_ARCHIVE_ROW)
	{
		if ((step = push_bytes(a, t, t->block, (AtpBytes) {a->in, a->nin})) != ATP_ARCHIVE_ROW)
			return step;
		a->nin = 0;
	}
	if (step != ATP_ARCHIVE_BLOCK_READ)
		return step;
	/* a block that is refused is received again */
	t->done = (step = open_block(a, t, t->block)) == ATP_ARCHIVE_ROW;
	return step;
}

/* The first transfer is a segment. */
static AtpArchiveStep
receive_segment(AtpArchive *a, Transfer *t)
{
	AtpArchiveStep step;

	while (!atp_segment_blocks_is_whole(&t->blocks))
	{
		AtpSegmentPart part;
		size_t		before;
		size_t		at;
		AtpErr		err;

		if ((step = have_bytes(a, t)) == ATP_ARCHIVE_BLOCK_READ)
		{
			/* H-11: a cache may send less than the range that was asked for */
			t->is_short = t->from > 0 && t->at > t->from;
			return fail_contents(a, t, t->blocks.blocks, "the segment ends before its last block", t->at);
		}
		if (step != ATP_ARCHIVE_ROW)
			return step;
		before = a->nin;
		err = atp_segment_blocks_next(&t->blocks, &a->in, &a->nin, &part, &at);
		t->at += before - a->nin;
		if (err != ATP_OK)
			return fail_contents(a, t, t->blocks.blocks, atp_err_text(err), at);
		if (part.bytes.len > 0 && (step = push_bytes(a, t, part.block, part.bytes)) != ATP_ARCHIVE_ROW)
			return step;
		if (part.ends)
		{
			step = open_block(a, t, part.block);
			return step;
		}
	}
	t->done = true;
	return ATP_ARCHIVE_BLOCK_READ;
}

/* The next row of the block; false after the last. */
static bool
next_row(AtpArchive *a, AtpArchiveRow *row)
{
	if (!a->in_block || !atp_archive_block_next(&a->block, row))
		return false;
	a->last = row->seq;
	return true;
}

AtpArchiveStep
atp_archive_next(AtpArchive *a, AtpArchiveRow *row)
{
	for (;;)
	{
		Transfer   *t = first_transfer(a);
		AtpArchiveStep step;

		if (!a->has_plan)
			return read_plan(a);
		if (next_row(a, row))
			return ATP_ARCHIVE_ROW;
		if (a->in_block)
		{
			a->in_block = false;
			a->counts.blocks++;
			t->good_at = t->at;
			t->good = t->blocks;
			begin_block(a);
			return ATP_ARCHIVE_BLOCK_READ;
		}
		if (a->n > 0 && t->done)
		{
			drop_transfer(t);
			a->first = (a->first + 1) % AHEAD;
			a->n--;
			a->nin = 0;
			a->segment_last = a->last;
		}
		fill_queue(a);
		if (a->n == 0)
			return ATP_ARCHIVE_PAGE_READ;
		t = first_transfer(a);
		if (t->done)
			continue;
		/* the headers tell bytes of a segment from the bytes of an error */
		if (t->unit.is_whole && !t->judged && (step = have_bytes(a, t)) != ATP_ARCHIVE_ROW && step != ATP_ARCHIVE_BLOCK_READ)
			return step;
		step = t->unit.is_whole ? receive_segment(a, t) : receive_block(a, t);
		if (step != ATP_ARCHIVE_ROW && step != ATP_ARCHIVE_BLOCK_READ)
			return step;
	}
}

AtpArchiveCounts
atp_archive_counts(AtpArchive *a)
{
	AtpArchiveCounts counts = a->counts;

	a->counts = (AtpArchiveCounts) {0};
	return counts;
}
