/*
 * server_info.c
 *		The fetcher's task behind describe_server() and host_status(): sends the requests in table
 *		server_info_request, and writes the answers there.
 *
 * An answer is stored as text if it is a JSON object.  The waiting procedure converts the text to
 * jsonb, so an error of that conversion is raised in the user's session.
 */
#include "postgres.h"

#include "common/clock.h"
#include "config/spi.h"
#include "config/transaction.h"
#include "core/codec/json.h"
#include "fetch/engine/task.h"
#include "fetch/engine/fetch.h"
#include "fetch/servers/server_info.h"
#include "lib/ilist.h"
#include "mb/pg_wchar.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#define RUNNING_MAX		16
#define LOOK_MS			250		/* between two looks at the table */
#define REDIRECTS_MAX	3

/* A running request. */
typedef struct InfoRequest
{
	dlist_node	node;
	AtpHttp    *http;
	char		url[FLEXIBLE_ARRAY_MEMBER];
} InfoRequest;

static dlist_head all_running = DLIST_STATIC_INIT(all_running);
static int	nrunning;
static AtpTime looked;
static bool more;				/* the last look found unanswered rows */
static const char owner;		/* its address identifies our requests */

static bool
is_running(const char *url)
{
	dlist_iter	i;

	dlist_foreach(i, &all_running)
		if (strcmp(dlist_container(InfoRequest, node, i.cur)->url, url) == 0)
			return true;
	return false;
}

static bool
server_info_wanted(void)
{
	return atp_run("SELECT FROM atproto.server_info_request WHERE answered_at IS NULL LIMIT 1", ATP_NO_ARGS) > 0;
}

/* False: the host's limits forbid a request now. */
static bool
start_request(const char *url)
{
	InfoRequest *running = MemoryContextAlloc(TopMemoryContext, offsetof(InfoRequest, url) + strlen(url) + 1);
	AtpHttpRequest request = {
		.owner = &owner,
		.arg = running,
		.url = url,
		.accept = "application/json",
		.redirects = REDIRECTS_MAX,
	};
	long		wait_ms;

	running->http = atp_fetch_start(&request, NULL, &wait_ms);
	if (running->http == NULL)
	{
		pfree(running);
		return false;
	}
	memcpy(running->url, url, strlen(url) + 1);
	dlist_push_tail(&all_running, &running->node);
	nrunning++;
	return true;
}

static bool
is_json_object(const AtpHttpAnswer *answer)
{
	AtpJsonReader reader;
	AtpJsonItem item;
	size_t		at;

	if (!pg_verifymbstr(answer->body, answer->body_len, true))
		return false;
	atp_json_init(&reader, answer->body, answer->body_len, ATP_JSON_DEPTH_DEFAULT);
	return atp_json_next(&reader, &item, &at) == ATP_OK && item.kind == ATP_JSON_OBJECT &&
		atp_json_finish(&reader, &item, &at) == ATP_OK && atp_json_next(&reader, &item, &at) == ATP_E_JSON_END;
}

static void
write_answer(const InfoRequest *running)
{
	const AtpHttpAnswer *answer = atp_http_answer(running->http);
	const char *error = answer->error;

	if (error == NULL && !is_json_object(answer))
		error = psprintf("%s: no JSON object", running->url);
	(void) atp_run("UPDATE atproto.server_info_request SET answered_at = $2, answer = $3, error = left($4, 250)"
				   " WHERE url = $1 AND answered_at IS NULL",
				   ATP_ARGS(atp_text_arg(running->url), atp_time_arg(atp_time_of_day()),
							atp_text_arg(error == NULL ? answer->body : NULL), atp_text_arg(error)));
}

/* Write the answers of requests that have ended. */
static void
write_ended(void)
{
	AtpHttp    *http;

	while ((http = atp_fetch_next(&owner)) != NULL)
	{
		InfoRequest *running = atp_http_arg(http);

		atp_begin("writing what a host has answered");
		write_answer(running);
		atp_commit();
		atp_fetch_free(http);
		dlist_delete(&running->node);
		nrunning--;
		pfree(running);
	}
}

static void
start_due_requests(void)
{
	AtpResult	due;

	atp_begin("looking for requests to hosts");
	/* a request this old gets an error, even if its procedure would wait longer */
	(void) atp_run("UPDATE atproto.server_info_request SET answered_at = now(), error = 'the host could not be asked in time'"
				   " WHERE answered_at IS NULL AND requested_at < now() - " ATP_SERVER_INFO_EXPIRY, ATP_NO_ARGS);
	due = atp_query("SELECT url FROM atproto.server_info_request WHERE answered_at IS NULL ORDER BY requested_at", ATP_NO_ARGS);
	more = due.n > 0;
	for (uint64 i = 0; i < due.n && nrunning < RUNNING_MAX; i++)
	{
		const char *url = atp_get_text(atp_result_row(due, i), "url");

		if (!is_running(url))
			(void) start_request(url);
	}
	atp_result_free(due);
	atp_commit();
}

static long
step_server_info(AtpTime now)
{
	long		left = looked == 0 ? 0 : atp_remaining(now, looked, LOOK_MS);

	write_ended();
	if (left > 0)
		return left;
	looked = now;
	start_due_requests();
	return more ? LOOK_MS : -1;
}

const AtpTask atp_server_info_task = {"server_info", server_info_wanted, NULL, step_server_info, .kinds = 1};
