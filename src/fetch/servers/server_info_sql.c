/*
 * server_info_sql.c
 *		atproto.describe_server() and atproto.host_status(): they queue a request in table
 *		server_info_request, and wait for the fetcher's answer.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "common/clock.h"
#include "config/owner.h"
#include "config/spi.h"
#include "config/wake.h"
#include "fetch/engine/fetch.h"
#include "fetch/servers/server_info.h"
#include "fetch/engine/waiting.h"
#include "fmgr.h"
#include "funcapi.h"
#include "identity/identity.h"
#include "lib/stringinfo.h"
#include "net/http_policy.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/jsonb.h"
#include "utils/timestamp.h"

PG_FUNCTION_INFO_V1(atp_describe_server);
PG_FUNCTION_INFO_V1(atp_host_status);

#define POLL_MS		50
#define URL_MAX		1000		/* bytes, as the CHECK of atproto.server_info_request.url */

/* An answer not older than this is returned again, without a new request. */
#define FRESH		"interval '10 s'"

/*
 * Begin the URL of a request to a server, given by name or by any URL; the caller appends the
 * parameters.
 */
static void
begin_url(StringInfo url, const char *server, const char *method)
{
	const char *host = strstr(server, "://");

	initStringInfo(url);
	host = host == NULL ? server : host + 3;
	/* an event stream's URL is accepted, too: HTTP has the same host */
	appendStringInfo(url, "%s://", strncmp(server, "ws://", 5) == 0 || strncmp(server, "http://", 7) == 0 ? "http" : "https");
	appendBinaryStringInfo(url, host, strcspn(host, "/?#"));
	appendStringInfo(url, "/xrpc/%s", method);
}

static void
check_url(const char *url)
{
	AtpHttpUrl	parts;
	const char *fault = atp_http_url(url, &parts);

	if (fault == NULL && strlen(url) > URL_MAX)
		fault = "there is no room for so long a URL";
	if (fault != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("this host cannot be asked"),
				 errdetail("%s: %s", url, fault)));
}

/* Queue the request, unless a fresh answer is stored. */
static void
queue_request(const char *url)
{
	int			nest = atp_waiting_step();
	AtpCaller	caller = atp_as_table_owner("server_info_request");
	AtpResult	found;
	int64		n;

	(void) atp_run("DELETE FROM atproto.server_info_request WHERE answered_at <= GREATEST(now() - interval '1 day',"
				   " (SELECT answered_at FROM atproto.server_info_request WHERE answered_at IS NOT NULL ORDER BY answered_at DESC OFFSET $1 LIMIT 1))",
				   ATP_ARGS(atp_int8_arg(ATP_SERVER_INFO_KEPT)));
	found = atp_query("SELECT count(*) AS n FROM atproto.server_info_request WHERE answered_at IS NULL", ATP_NO_ARGS);
	n = atp_get_int8(atp_result_row(found, 0), "n");
	atp_result_free(found);
	if (n >= ATP_SERVER_INFO_MAX)
		ereport(ERROR,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("there are %d requests that no host has answered yet", ATP_SERVER_INFO_MAX),
				 errhint("Try again in a minute.")));
	(void) atp_run("INSERT INTO atproto.server_info_request AS q (url, requested_at) VALUES ($1, now())"
				   " ON CONFLICT (url) DO UPDATE SET requested_at = now(), answered_at = NULL, answer = NULL, error = NULL"
				   " WHERE q.answered_at < now() - " FRESH,
				   ATP_ARGS(atp_text_arg(url)));
	atp_owner_end(caller);
	atp_wake_fetcher();
	AtEOXact_GUC(false, nest);
}

/* Read the answer into the procedure's memory; false: no answer yet. */
static bool
read_answer(const char *url, char **answer, char **error)
{
	int			nest = atp_waiting_step();
	AtpCaller	caller = atp_as_table_owner("server_info_request");
	AtpResult	found = atp_query("SELECT answer, error FROM atproto.server_info_request WHERE url = $1 AND answered_at IS NOT NULL",
								  ATP_ARGS(atp_text_arg(url)));
	bool		answered = found.n > 0;

	if (answered)
	{
		*answer = atp_get_text_or_null(atp_result_row(found, 0), "answer");
		*error = atp_get_text_or_null(atp_result_row(found, 0), "error");
	}
	atp_result_free(found);
	atp_owner_end(caller);
	AtEOXact_GUC(false, nest);
	return answered;
}

/* The result row of a procedure with a single INOUT parameter. */
static Datum
one_row(FunctionCallInfo fcinfo, Datum value)
{
	TupleDesc	desc;
	bool		isnull = false;

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), &value, &isnull));
}

/* Queue the request, wait, and return the answer. */
static Datum
answer_of(FunctionCallInfo fcinfo, const char *url, int timeout_ms)
{
	AtpTime		begin = atp_now();
	char	   *answer = NULL;
	char	   *error = NULL;
	Datum		value;
	Datum		row;

	check_url(url);
	queue_request(url);
	SPI_commit();
	while (!read_answer(url, &answer, &error))
	{
		if (atp_remaining(atp_now(), begin, timeout_ms) == 0)
			ereport(ERROR,
					(errcode(ERRCODE_QUERY_CANCELED),
					 errmsg("there is no answer yet"),
					 errdetail("%s is still being asked.", url)));
		atp_waiting_pause(POLL_MS);
	}
	if (error != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_CONNECTION_FAILURE), errmsg("the host did not answer"), errdetail("%s", error)));
	value = DirectFunctionCall1(jsonb_in, CStringGetDatum(answer));
	row = SPI_datumTransfer(one_row(fcinfo, value), false, -1);
	SPI_finish();
	return row;
}

static void
begin_procedure(FunctionCallInfo fcinfo, const char *name, int nargs)
{
	/* the INOUT parameter "answer" is second to last, and may be NULL */
	for (int i = 0; i < nargs; i++)
		if (i != nargs - 2 && PG_ARGISNULL(i))
			ereport(ERROR,
					(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
					 errmsg("hosts and timeout must not be null"),
					 errhint("Name hosts such as bsky.network; leave the timeout out for its default.")));
	atp_waiting_begin(fcinfo, name, "Nobody sees what it asks for before that is committed.");
}

/* SQL: CALL atproto.describe_server(server, answer, timeout) */
Datum
atp_describe_server(PG_FUNCTION_ARGS)
{
	StringInfoData url;

	begin_procedure(fcinfo, "atproto.describe_server", 3);
	begin_url(&url, text_to_cstring(PG_GETARG_TEXT_PP(0)), "com.atproto.server.describeServer");
	return answer_of(fcinfo, url.data, atp_interval_ms(PG_GETARG_INTERVAL_P(2)));
}

/* SQL: CALL atproto.host_status(relay, hostname, answer, timeout) */
Datum
atp_host_status(PG_FUNCTION_ARGS)
{
	StringInfoData url;

	begin_procedure(fcinfo, "atproto.host_status", 4);
	begin_url(&url, text_to_cstring(PG_GETARG_TEXT_PP(0)), "com.atproto.sync.getHostStatus");
	appendStringInfoString(&url, "?hostname=");
	atp_fetch_append_escaped(&url, text_to_cstring(PG_GETARG_TEXT_PP(1)));
	return answer_of(fcinfo, url.data, atp_interval_ms(PG_GETARG_INTERVAL_P(3)));
}
