/*
 * server_info.c
 *		The fetcher's task behind describe_server() and host_status(): sends the requests in table
 *		host_question, and writes the answers there.
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
typedef struct Question
{
	dlist_node	node;
	AtpHttp    *http;
	char		url[FLEXIBLE_ARRAY_MEMBER];
} Question;

static dlist_head questions = DLIST_STATIC_INIT(questions);
static int	nquestions;
static AtpTime looked;
static bool more;				/* the last look found unanswered rows */
static const char owner;		/* its address identifies our requests */

static bool
is_running(const char *url)
{
	dlist_iter	i;

	dlist_foreach(i, &questions)
		if (strcmp(dlist_container(Question, node, i.cur)->url, url) == 0)
			return true;
	return false;
}

static bool
wanted(void)
{
	AtpResult	rows = atp_query("SELECT FROM atproto.host_question WHERE answered_at IS NULL LIMIT 1", ATP_NO_ARGS);

	atp_result_free(rows);
	return rows.n > 0;
}

/* False: the host's limits forbid a request now. */
static bool
ask(const char *url)
{
	Question   *question = MemoryContextAlloc(TopMemoryContext, offsetof(Question, url) + strlen(url) + 1);
	AtpHttpRequest request = {
		.owner = &owner,
		.arg = question,
		.url = url,
		.accept = "application/json",
		.redirects = REDIRECTS_MAX,
	};
	long		wait_ms;

	question->http = atp_fetch_start(&request, NULL, &wait_ms);
	if (question->http == NULL)
	{
		pfree(question);
		return false;
	}
	strcpy(question->url, url);
	dlist_push_tail(&questions, &question->node);
	nquestions++;
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
write_answer(const Question *question)
{
	const AtpHttpAnswer *answer = atp_http_answer(question->http);
	const char *error = answer->error;

	if (error == NULL && !is_json_object(answer))
		error = psprintf("%s: no JSON object", question->url);
	(void) atp_run("UPDATE atproto.host_question SET answered_at = $2, answer = $3, error = left($4, 250)"
				   " WHERE url = $1 AND answered_at IS NULL",
				   ATP_ARGS(atp_text_arg(question->url), atp_time_arg(atp_time_of_day()),
							atp_text_arg(error == NULL ? answer->body : NULL), atp_text_arg(error)));
}

/* Write the answers of requests that have ended. */
static void
conclude(void)
{
	AtpHttp    *http;

	while ((http = atp_fetch_next(&owner)) != NULL)
	{
		Question   *question = atp_http_arg(http);

		atp_begin("writing what a host has answered");
		write_answer(question);
		atp_commit();
		atp_fetch_free(http);
		dlist_delete(&question->node);
		nquestions--;
		pfree(question);
	}
}

static void
look(void)
{
	AtpResult	due;

	atp_begin("looking for questions to hosts");
	/* a request this old gets an error, even if its procedure would wait longer */
	(void) atp_run("UPDATE atproto.host_question SET answered_at = now(), error = 'the host could not be asked in time'"
				   " WHERE answered_at IS NULL AND asked_at < now() - " ATP_QUESTION_DEAD, ATP_NO_ARGS);
	due = atp_query("SELECT url FROM atproto.host_question WHERE answered_at IS NULL ORDER BY asked_at", ATP_NO_ARGS);
	more = due.n > 0;
	for (uint64 i = 0; i < due.n && nquestions < RUNNING_MAX; i++)
	{
		const char *url = atp_get_text(atp_result_row(due, i), "url");

		if (!is_running(url))
			(void) ask(url);
	}
	atp_result_free(due);
	atp_commit();
}

static long
step(AtpTime now)
{
	long		left = looked == 0 ? 0 : atp_remaining(now, looked, LOOK_MS);

	conclude();
	if (left > 0)
		return left;
	looked = now;
	look();
	return more ? LOOK_MS : -1;
}

const AtpErrand atp_question_errand = {"question", wanted, NULL, step, .kinds = 1};
