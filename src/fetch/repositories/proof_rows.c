/*
 * proof_rows.c
 *		Rows of atproto.proof_result: which accounts are to be compared, and what was found (P-50 to P-54).
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "config/owner.h"
#include "config/spi.h"
#include "core/syntax/did.h"
#include "core/syntax/tid.h"
#include "fetch/repositories/proof_rows.h"
#include "fetch/repositories/repo_rows.h"
#include "identity/identity.h"
#include "identity/identity_request.h"
#include "config/extension.h"
#include "mb/pg_wchar.h"
#include "net/http.h"
#include "nodes/pg_list.h"
#include "tables/base/history.h"
#include "tables/base/job.h"
#include "types/types.h"
#include "utils/array.h"
#include "utils/builtins.h"

/* W-36, as for fetches of repositories (repo_rows.c) */
#define IDENTITY_AGE	"'1 hour'"
#define SOON			"'2 s'"

#define ERROR_MAX		1000	/* bytes */
#define REASON_MAX		100

/* An account that moves on, or whose events wait, is tried again after such pauses, doubled each time; the sixth time, it is listed. */
#define LATER			"'10 s'"
#define LATER_MOST		"'5 min'"
#define LATER_LISTED	"6"

/*
 * P-51: differences wait so long for the stream, and are compared anew after as long a time as they wait already, because a
 * comparison may fetch the whole repository, and an archive may be read for days.
 */
#define OPEN_FOR		"'10 min'"
#define OPEN_LOOK \
	"CASE WHEN p.open_since < now() - interval " OPEN_FOR " THEN LEAST(now() - p.open_since, interval '1 hour')" \
	" ELSE LEAST(GREATEST(interval '30 s', now() - p.open_since), COALESCE(p.open_since, now()) + interval " OPEN_FOR " + interval '1 s' - now()) END"

#define DUE				"p.state <> 'done' AND p.next_try <= now()"

/* The row of a job, unless a session has locked the row. */
#define OF_JOB	" WHERE ctid = (SELECT ctid FROM atproto.proof_result WHERE target = $1::name AND did OPERATOR(@.=) $2 FOR NO KEY UPDATE SKIP LOCKED)"

bool
atp_proofs_wanted(void)
{
	AtpResult	found = atp_query("SELECT FROM atproto.proof_result WHERE state <> 'done' AND next_try <= now() + interval '1 min' LIMIT 1", ATP_NO_ARGS);

	atp_result_free(found);
	return found.n > 0;
}

static AtpArg
did_arg(const struct varlena *did)
{
	return (AtpArg) {PointerGetDatum(did), atp_type("did"), false};
}

/* ------------------------------------------------------------------------
 * Hosts
 * ------------------------------------------------------------------------
 */
typedef struct Places
{
	int			n;
	Datum	   *targets;
	Datum	   *dids;
	Datum	   *hosts;
	Datum	   *errors;
	Datum	   *reasons;
	bool	   *no_host;
	bool	   *no_error;
} Places;

/* Why no server can be asked; the error of the look-up is not part of the reason (P-52). */
static void
note_problem(Places *places, int i, AtpTuple row, bool has_server)
{
	char	   *state = atp_get_text_or_null(row, "state");
	char	   *error = atp_get_text_or_null(row, "error");
	char	   *reason = has_server ? "the account's server has no valid URL" : psprintf("the account's identity is %s", state == NULL ? "not known" : state);

	places->reasons[i] = CStringGetTextDatum(reason);
	places->errors[i] = CStringGetTextDatum(has_server || error == NULL ? reason : psprintf("%s: %s", reason, error));
}

static void
place_one(Places *places, AtpTuple row)
{
	char	   *server = atp_get_text_or_null(row, "server");
	char	   *host = server == NULL ? NULL : atp_http_host_of(server);
	bool		asks = atp_get_bool(row, "asks");
	int			i = places->n++;

	places->targets[i] = CStringGetTextDatum(atp_get_text(row, "target"));
	places->dids[i] = atp_get_arg(row, "did", atp_type("did")).value;
	places->no_host[i] = asks || host == NULL;
	places->hosts[i] = places->no_host[i] ? (Datum) 0 : CStringGetTextDatum(host);
	places->no_error[i] = asks || host != NULL;
	if (!places->no_error[i])
		note_problem(places, i, row, server != NULL);
}

/* Ask for identities, in the name of the owner of each account's subscription. */
static void
ask_identities(AtpResult found)
{
	struct varlena **dids = palloc(sizeof(struct varlena *) * Max(found.n, 1));
	Oid			owner = InvalidOid;
	int			n = 0;

	/* the rows come in the order of owners */
	for (uint64 i = 0; i <= found.n; i++)
	{
		AtpTuple	row = i < found.n ? atp_result_row(found, i) : (AtpTuple) {NULL};
		bool		isnull;
		Oid			next = i < found.n ? DatumGetObjectId(atp_get(row, "owner", OIDOID, &isnull)) : InvalidOid;

		if (n > 0 && next != owner)
		{
			atp_identity_requests_add(dids, atp_sort_dids(dids, n), true, ATP_REQUEST_OTHER, owner, false);
			n = 0;
		}
		owner = next;
		if (i < found.n && atp_get_bool(row, "asks"))
			dids[n++] = atp_get_copy(row, "did", atp_type("did"));
	}
}

int
atp_proofs_place(int max)
{
	AtpResult	found = atp_query(atp_identity_sql("SELECT p.target::text AS target, p.did, s.owner::oid AS owner, " ATP_REPO_SERVER " AS server, i.state, i.error,"
												   " (" ATP_REPO_SOURCE " = 'pds' OR s.verify = 'full') AND (i.resolved_at IS NULL OR i.resolved_at < now() - interval " IDENTITY_AGE ")"
												   "  AND (i.asked_at IS NULL OR i.asked_at < now() - interval " IDENTITY_AGE ") AS asks"
												   " FROM (SELECT * FROM atproto.proof_result p WHERE " DUE " AND p.host IS NULL ORDER BY p.next_try LIMIT $1) p"
												   " JOIN atproto.subscription s ON s.name = p.subscription"
												   " LEFT JOIN atproto.identity i ON i.did OPERATOR(@.=) p.did ORDER BY owner"), ATP_ARGS(atp_int4_arg(max)));
	Places		places = {
		.targets = palloc(sizeof(Datum) * Max(found.n, 1)), .dids = palloc(sizeof(Datum) * Max(found.n, 1)),
		.hosts = palloc(sizeof(Datum) * Max(found.n, 1)), .errors = palloc0(sizeof(Datum) * Max(found.n, 1)),
		.reasons = palloc0(sizeof(Datum) * Max(found.n, 1)),
		.no_host = palloc(sizeof(bool) * Max(found.n, 1)), .no_error = palloc(sizeof(bool) * Max(found.n, 1))
	};

	for (uint64 i = 0; i < found.n; i++)
		place_one(&places, atp_result_row(found, i));
	ask_identities(found);
	if (places.n > 0)
		atp_run(atp_identity_sql("WITH l AS (SELECT p.target, p.did, u.host, u.error, u.reason FROM unnest($1, $2, $3, $4, $5) u (target, did, host, error, reason)"
								 "  JOIN atproto.proof_result p ON p.target = u.target::name AND p.did OPERATOR(@.=) u.did FOR NO KEY UPDATE OF p SKIP LOCKED)"
								 " UPDATE atproto.proof_result p SET host = l.host, error = COALESCE(l.error, p.error), reason = COALESCE(l.reason, p.reason), tries = p.tries + (l.error IS NOT NULL)::integer,"
								 "  next_try = CASE WHEN l.host IS NOT NULL THEN p.next_try WHEN l.error IS NULL THEN now() + interval " SOON
								 "   ELSE now() + least(interval '1 min' * power(2, least(p.tries, 20)), interval '1 day') END"
								 " FROM l WHERE p.target = l.target AND p.did OPERATOR(@.=) l.did"),
				ATP_ARGS(atp_array_arg(TEXTOID, places.targets, NULL, places.n), atp_array_arg(atp_type("did"), places.dids, NULL, places.n),
						 atp_array_arg(TEXTOID, places.hosts, places.no_host, places.n), atp_array_arg(TEXTOID, places.errors, places.no_error, places.n),
						 atp_array_arg(TEXTOID, places.reasons, places.no_error, places.n)));
	return places.n;
}

/* ------------------------------------------------------------------------
 * Jobs
 * ------------------------------------------------------------------------
 */
static AtpProofJob *
read_job(AtpTuple row)
{
	AtpProofJob *job = palloc0(sizeof(AtpProofJob));
	char		did[ATP_DID_MAX];
	bool		isnull;

	job->target = atp_get_text(row, "target");
	job->did = atp_get_copy(row, "did", atp_type("did"));
	job->did_text = pnstrdup(did, atp_did_copy(job->did, did));
	job->subscription = atp_get_text(row, "subscription");
	job->server = atp_get_text_or_null(row, "server");
	job->owner = DatumGetObjectId(atp_get(row, "owner", OIDOID, &isnull));
	job->set = atp_proved_set_read(row);
	return job;
}

List *
atp_proofs_due(char **hosts, int nhosts, const Oid *owners, int nowners, int max)
{
	Datum	   *values = palloc(sizeof(Datum) * Max(nhosts, 1));
	Datum	   *oids = palloc(sizeof(Datum) * Max(nowners, 1));
	AtpResult	found;
	List	   *jobs = NIL;

	for (int i = 0; i < nhosts; i++)
		values[i] = CStringGetTextDatum(hosts[i]);
	for (int i = 0; i < nowners; i++)
		oids[i] = ObjectIdGetDatum(owners[i]);
	found = atp_query(atp_identity_sql("SELECT p.target::text AS target, p.did, p.subscription, s.owner::oid AS owner, " ATP_REPO_SERVER " AS server, q.collections"
									   " FROM (SELECT * FROM atproto.proof_result p WHERE " DUE " AND p.host <> ALL ($1)"
									   "  AND NOT EXISTS (SELECT FROM atproto.subscription o WHERE o.name = p.subscription AND o.owner::oid = ANY ($3))"
									   "  ORDER BY p.next_try LIMIT $2) p"
									   " JOIN atproto.subscription s ON s.name = p.subscription JOIN atproto.proved_set q ON q.target = p.target AND q.id = p.proved_set"
									   " LEFT JOIN atproto.identity i ON i.did OPERATOR(@.=) p.did"),
					  ATP_ARGS(atp_array_arg(TEXTOID, values, NULL, nhosts), atp_int4_arg(max), atp_array_arg(OIDOID, oids, NULL, nowners)));
	for (uint64 i = 0; i < found.n; i++)
		jobs = lappend(jobs, read_job(atp_result_row(found, i)));
	atp_result_free(found);
	return jobs;
}

void
atp_proof_later(const AtpProofJob *job, const char *reason)
{
	atp_run(atp_identity_sql("UPDATE atproto.proof_result SET put_off = least(put_off + 1, 1000), next_try = now() + least(interval " LATER " * power(2, least(put_off, 20)), interval " LATER_MOST "),"
							 " error = CASE WHEN put_off >= " LATER_LISTED " THEN $3 ELSE error END, reason = CASE WHEN put_off >= " LATER_LISTED " THEN $3 ELSE reason END" OF_JOB),
			ATP_ARGS(atp_text_arg(job->target), did_arg(job->did), atp_text_arg(reason)));
}

void
atp_proof_failed(const AtpProofJob *job, const char *reason, const char *error, bool asked)
{
	char	   *text = pnstrdup(error, pg_mbcliplen(error, strlen(error), ERROR_MAX));
	char	   *class = pnstrdup(reason, pg_mbcliplen(reason, strlen(reason), REASON_MAX));

	atp_run(atp_identity_sql("UPDATE atproto.proof_result SET error = CASE WHEN $6 OR error IS NULL THEN $3 ELSE error END, reason = CASE WHEN $6 OR error IS NULL THEN $5 ELSE reason END,"
							 " tries = tries + 1, put_off = 0, host = NULL, next_try = now() + $4 * interval '1 s'"
							 " * least(power(2, least(tries, 20)), 86400 / $4) * (0.8 + 0.4 * random())" OF_JOB),
			ATP_ARGS(atp_text_arg(job->target), did_arg(job->did), atp_text_arg(text), atp_int4_arg(atp_fetch_retry_s), atp_text_arg(class), atp_bool_arg(asked)));
}

/* ------------------------------------------------------------------------
 * Results
 * ------------------------------------------------------------------------
 */

/*
 * P-51: has each running stream of the target passed the time of this revision by a minute?  Then the stream does not
 * bring the commit any more, or has no event of the commit.  A stream without an event has passed nothing.
 */
#define PASSED \
	"COALESCE((SELECT bool_and(COALESCE(c.event_time > to_timestamp($5 / 1e6) + interval '1 min', false)) FROM atproto.subscription s" \
	" LEFT JOIN atproto.cursor c ON c.subscription = s.name AND c.endpoint = s.endpoint" \
	" WHERE s.target = $1::name AND s.by_repo AND s.enabled AND s.stopped IS NULL), false)"

/* Rows of any age are still to come while an archive is read into the target. */
#define IS_READ	"EXISTS (SELECT " ATP_SQL_READS_ARCHIVE ")"

bool
atp_proof_settle(const AtpProofJob *job, uint64 rev, uint64 stored, const AtpProofCounts *counts)
{
	bool		equal = counts->missing + counts->extra + counts->other == 0;
	Datum	   *paths = palloc(sizeof(Datum) * Max(counts->npaths, 1));
	AtpCaller	caller = atp_as_table_owner("proof_result");
	AtpResult	found;
	bool		is_final;

	for (int i = 0; i < counts->npaths; i++)
		paths[i] = CStringGetTextDatum(counts->paths[i]);
	found = atp_query(atp_identity_sql("UPDATE atproto.proof_result p SET rev = $3, equal = $4, records = $7, missing = $8, extra = $9, other = $10, letters = $11,"
									   " paths = $12, error = NULL, reason = NULL, tries = 0, put_off = 0, at = clock_timestamp(), state = CASE WHEN f.is_final THEN 'done' ELSE 'open' END,"
									   " open_since = CASE WHEN NOT f.is_final THEN COALESCE(p.open_since, now()) END,"
									   " next_try = CASE WHEN f.is_final THEN p.next_try ELSE now() + " OPEN_LOOK " END"
									   " FROM (SELECT ctid AS place, $4 OR NOT " IS_READ " AND ($6 OR COALESCE(open_since < now() - interval " OPEN_FOR ", false) OR " PASSED ") AS is_final"
									   "  FROM atproto.proof_result WHERE target = $1::name AND did OPERATOR(@.=) $2 FOR NO KEY UPDATE) f"
									   " WHERE p.ctid = f.place RETURNING f.is_final"),
					  ATP_ARGS(atp_text_arg(job->target), did_arg(job->did), (AtpArg) {AtpTidGetDatum(rev), atp_type("tid"), false}, atp_bool_arg(equal),
							   atp_int8_arg((int64) atp_tid_micros(rev)), atp_bool_arg(rev == stored), atp_int8_arg(counts->records), atp_int8_arg(counts->missing),
							   atp_int8_arg(counts->extra), atp_int8_arg(counts->other), atp_int8_arg(counts->letters),
							   atp_array_arg(TEXTOID, paths, NULL, counts->npaths)));
	is_final = found.n > 0 && atp_get_bool(atp_result_row(found, 0), "is_final");
	atp_result_free(found);
	atp_owner_end(caller);
	return is_final && !equal;
}
