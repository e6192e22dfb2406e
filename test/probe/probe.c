/*
 * probe.c
 *		The fetcher's task for tests: sends the requests in table atproto_probe.request, which a
 *		test creates.  The Makefile links this file into the library of a build with
 *		ATP_INJECTION_POINTS; the product has no such task.
 *
 * A row in state 'new' describes a request; when the state is 'done', the remaining columns have
 * the answer.  If "piece" is not 0, the body is read as a stream, in pieces of so many bytes.
 */
#include "postgres.h"

#include "catalog/namespace.h"
#include "config/spi.h"
#include "config/transaction.h"
#include "fetch/engine/task.h"
#include "fetch/engine/fetch.h"
#include "mb/pg_wchar.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

/* A running request. */
typedef struct Probe
{
	int			id;
	int			piece;
	int64		read;			/* bytes read from a stream */
	int			largest;		/* largest piece read */
	AtpHttp    *http;
} Probe;

/*
 * Milliseconds between two looks at the table, and between two checks whether a test has created
 * the table.
 */
#define PROBE_MS		10
#define PROBE_TABLE_MS	1000

static List *probes = NIL;		/* requests that are read as streams */
static const char owner;

/*
 * A look into the catalog caches instead of a query: most tests have no such table, and their
 * fetchers check every second.
 */
static bool
table_exists(void)
{
	Oid			nsp = get_namespace_oid("atproto_probe", true);

	return OidIsValid(nsp) && OidIsValid(get_relname_relid("request", nsp));
}

static bool
probe_wanted(void)
{
	AtpResult	rows;

	if (!table_exists())
		return false;
	rows = atp_query("SELECT FROM atproto_probe.request WHERE state <> 'done' LIMIT 1", ATP_NO_ARGS);
	atp_result_free(rows);
	return rows.n > 0;
}

/* Requests that an earlier process had started are started again. */
static void
probe_begin(void)
{
	atp_begin("probing");
	if (probe_wanted())
		(void) atp_run("UPDATE atproto_probe.request SET state = 'new' WHERE state = 'running'", ATP_NO_ARGS);
	atp_commit();
}

/* False: the host's limits forbid a request now; the next look tries again. */
static bool
start_probe(AtpTuple row)
{
	long		wait_ms;
	MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);
	Probe	   *probe = palloc0(sizeof(Probe));
	AtpHostLimits limits = {atp_get_int4(row, "parallel"), atp_get_int4(row, "rate"), atp_get_int4(row, "rate")};
	AtpHttpRequest request = {
		.owner = &owner,
		.arg = probe,
		.url = atp_get_text(row, "url"),
		.accept = atp_get_text_or_null(row, "accept"),
		.redirects = atp_get_int4(row, "redirects"),
		.whole_ms = atp_get_int4(row, "whole_ms"),
		.body_max = atp_get_int8(row, "body_max"),
		.cut = atp_get_bool(row, "cut"),
		.gzip = atp_get_bool(row, "gzip"),
		.http2 = atp_get_bool(row, "http2"),
		.slow_bytes = 1000,
		.slow_s = atp_get_int4(row, "slow_s"),
	};

	probe->id = atp_get_int4(row, "id");
	probe->piece = atp_get_int4(row, "piece");
	request.stream = probe->piece > 0;
	probe->http = atp_fetch_start(&request, limits.parallel > 0 ? &limits : NULL, &wait_ms);
	if (probe->http == NULL)
		pfree(probe);
	else if (request.stream)
		probes = lappend(probes, probe);
	MemoryContextSwitchTo(old);
	return probe->http != NULL;
}

static void
write_answer(Probe *probe)
{
	const AtpHttpAnswer *a = atp_http_answer(probe->http);
	bool		kept = a->body != NULL && pg_verifymbstr(a->body, strlen(a->body), true);

	(void) atp_run("UPDATE atproto_probe.request SET state = 'done', outcome = $2, status = $3, error = $4, final_url = $5,"
				   " body = $6, body_len = $7, read = $8, largest = $9, content_type = $10 WHERE id = $1",
				   ATP_ARGS(atp_int4_arg(probe->id), atp_text_arg(atp_http_outcome_name(a->outcome)),
							atp_int4_arg(a->status), atp_text_arg(a->error), atp_text_arg(a->url),
							atp_text_arg(kept ? a->body : NULL), atp_int8_arg(a->body_len),
							atp_int8_arg(probe->read), atp_int4_arg(probe->largest), atp_text_arg(a->content_type)));
	atp_fetch_free(probe->http);
	pfree(probe);
}

/* Read a single piece of each stream in a round, so that a slow reader's buffer fills. */
static void
read_streams(void)
{
	ListCell   *lc;

	foreach(lc, probes)
	{
		Probe	   *probe = lfirst(lc);
		char	   *piece = palloc(probe->piece);
		size_t		n = atp_http_read(probe->http, piece, probe->piece);

		probe->read += n;
		probe->largest = Max(probe->largest, (int) n);
	}
}

/* Read the rest of a stream that has ended. */
static void
drain_stream(Probe *probe)
{
	char		piece[4096];
	size_t		n;

	while (probe->piece > 0 && (n = atp_http_read(probe->http, piece, sizeof(piece))) > 0)
		probe->read += n;
}

/*
 * All work is done at fixed intervals.  A transaction at each call would wake the process again,
 * and would hide from tests that a wake-up is missing.
 */
static long
probe_step(AtpTime now)
{
	static AtpTime looked = 0;
	static bool exists = false;
	AtpHttp    *http;
	long		timeout;

	read_streams();
	timeout = looked == 0 ? 0 : atp_remaining(now, looked, exists ? PROBE_MS : PROBE_TABLE_MS);
	if (timeout > 0)
		return timeout;
	looked = now;
	atp_begin("probing");
	exists = table_exists();
	timeout = exists ? PROBE_MS : PROBE_TABLE_MS;
	if (probe_wanted())
	{
		AtpResult	rows = atp_query("SELECT * FROM atproto_probe.request WHERE state = 'new' ORDER BY id", ATP_NO_ARGS);

		while ((http = atp_fetch_next(&owner)) != NULL)
		{
			Probe	   *probe = atp_http_arg(http);

			drain_stream(probe);
			probes = list_delete_ptr(probes, probe);
			write_answer(probe);
		}
		for (uint64 i = 0; i < rows.n; i++)
		{
			AtpTuple	row = atp_result_row(rows, i);

			if (start_probe(row))
				(void) atp_run("UPDATE atproto_probe.request SET state = 'running' WHERE id = $1",
							   ATP_ARGS(atp_int4_arg(atp_get_int4(row, "id"))));
		}
		atp_result_free(rows);
	}
	atp_commit();
	return timeout;
}

static const AtpTask probe_task = {"probe", probe_wanted, probe_begin, probe_step, .kinds = 2};

/* Runs when the library is loaded. */
__attribute__((constructor)) static void
register_probe(void)
{
	atp_task_for_tests = &probe_task;
}
