/*
 * identity_log.c
 *		Identities of did:plc accounts by logs that the database follows: see identity_log.h.
 *
 * identity.log_time is the time of the operation from which a row was filled.  Times rise within an account's log (M-04), so
 * a later operation has a later time at every directory.  A row that a document has filled was read at a time of this
 * server's clock: an operation that is more than an hour older was in the document.
 */
#include "postgres.h"

#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "common/clock.h"
#include "common/signature.h"
#include "config/extension.h"
#include "config/spi.h"
#include "core/wire/diddoc.h"
#include "fmgr.h"
#include "identity/identity_document.h"
#include "identity/identity_log.h"
#include "miscadmin.h"
#include "storage/lock.h"
#include "types/types.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/timestamp.h"

PG_FUNCTION_INFO_V1(atp_did_key);

int			atp_plc_lag_ms;

void
atp_identity_log_init(void)
{
	DefineCustomIntVariable("atproto.plc_lag",
							"How far the log of a did:plc directory may lag behind to be asked in place of the directory.",
							"An event whose key is not known, or does not fit, waits so long for the log. Experimental.",
							&atp_plc_lag_ms, 10000, 0, 3600 * 1000,
							PGC_SIGHUP, GUC_UNIT_MS, NULL, NULL, NULL);
}

/* ------------------------------------------------------------------------
 * Which logs
 * ------------------------------------------------------------------------
 */

char *
atp_identity_log_sql(const char *sql, const char *target)
{
	const char *schema = atp_extension_schema();
	const char *quoted = quote_identifier(target);
	StringInfoData out;

	initStringInfo(&out);
	for (; *sql != '\0'; sql++)
		if (*sql == '@' || *sql == '#')
			appendStringInfoString(&out, *sql == '@' ? schema : quoted);
		else
			appendStringInfoChar(&out, *sql);
	return out.data;
}

/* Most databases follow no directory, and read one table here. */
List *
atp_identity_fresh_logs(void)
{
	AtpResult	found;
	List	   *logs = NIL;

	if (atp_run("SELECT FROM atproto.subscription WHERE identities LIMIT 1", ATP_NO_ARGS) == 0)
		return NIL;
	found = atp_query("SELECT d.name, d.target::text AS target, s.dids IS NOT NULL AS named"
					  " FROM atproto.stat_directory d JOIN atproto.subscription s ON s.name = d.name"
					  " WHERE d.fresh AND d.complete AND d.believed ORDER BY d.name", ATP_NO_ARGS);
	for (uint64 i = 0; i < found.n; i++)
	{
		AtpTuple	row = atp_result_row(found, i);
		AtpIdentityLog *log = palloc(sizeof(AtpIdentityLog));

		log->subscription = atp_get_text(row, "name");
		log->target = atp_get_text(row, "target");
		log->named = atp_get_bool(row, "named");
		logs = lappend(logs, log);
	}
	atp_result_free(found);
	return logs;
}

bool
atp_identity_log_is_believed(Oid owner, const char *target)
{
	AtpCaller	caller = atp_as_table_owner("identity");
	AtpResult	found = atp_query("SELECT atproto.log_is_believed($1, $2::name) AS believed",
								  ATP_ARGS((AtpArg) {ObjectIdGetDatum(owner), OIDOID}, atp_text_arg(target)));
	bool		believed = atp_get_bool(atp_result_row(found, 0), "believed");

	atp_result_free(found);
	atp_owner_end(caller);
	return believed;
}

/* ------------------------------------------------------------------------
 * From the log's rows to identities
 * ------------------------------------------------------------------------
 */

/* An object that no statement of a user can lock. */
static bool
lock_followers(LOCKMODE mode, bool wait)
{
	LOCKTAG		tag;

	SET_LOCKTAG_OBJECT(tag, MyDatabaseId, RelationRelationId, atp_relation("identity"), 1);
	return LockAcquire(&tag, mode, false, !wait) != LOCKACQUIRE_NOT_AVAIL;
}

bool
atp_identity_log_try_lock(void)
{
	return lock_followers(AccessShareLock, false);
}

static AtpSpan
text_span(AtpTuple row, const char *column)
{
	char	   *text = atp_get_text_or_null(row, column);

	return (AtpSpan) {text, text == NULL ? 0 : strlen(text)};
}

void
atp_identity_take_state(AtpIdentity *identity, AtpTuple row, TimestampTz now)
{
	AtpDidDoc	doc;

	atp_diddoc_of_parts(text_span(row, "key"), text_span(row, "label_key"), text_span(row, "server"), text_span(row, "log_handle"),
						atp_signature_point, NULL, &doc);
	if (atp_get_bool(row, "gone"))
	{
		identity->has_key = identity->has_label_key = false;
		identity->pds = NULL;
		identity->handle = NULL;
		(void) atp_identity_settle_broken(identity, ATP_IDENTITY_GONE, "The account's log ends with a tombstone.", now);
	}
	else
		(void) atp_identity_take_document(identity, &doc, now);
	identity->log_time = DatumGetTimestampTz(atp_get_arg(row, "since", TIMESTAMPTZOID).value);
	identity->stale = false;
	identity->doubted_by = NIL;
}

/* LIMIT keeps the planner from a join, in which the view's window function would run over the whole log. */
#define NEWEST \
	" CROSS JOIN LATERAL (SELECT " ATP_LOG_STATE ", " ATP_LOG_IS_DOUBTED " AS doubted FROM #.plc_history h" \
	"  WHERE h.did OPERATOR(@.=) w.did AND h.until IS NULL LIMIT 1) h"

/* What the logs read so far say of an account. */
typedef struct Said
{
	bool		has;			/* a log has the account, and may answer */
	bool		follows;		/* a log of all accounts follows the account */
	bool		silent;			/* a log may lack an operation of the account: then all logs are silent */
} Said;

/* Two logs may differ while one of them lags: the later operation counts. */
static void
read_log(const AtpIdentityLog *log, struct varlena *const *dids, int n, AtpIdentity *identities, Said *said, TimestampTz now)
{
	AtpResult	found = atp_query(atp_identity_log_sql("SELECT w.n::int4 AS n, h.*, " ATP_LOG_ANSWERS("w.did", "$2", "$3") " AS answers"
													   " FROM unnest($1) WITH ORDINALITY w (did, n)" NEWEST, log->target),
								  ATP_ARGS(atp_dids_arg(dids, n), atp_text_arg(log->subscription), atp_bool_arg(log->named)));

	for (int i = 0; i < n; i++)
		said[i].follows |= !log->named;
	for (uint64 i = 0; i < found.n; i++)
	{
		AtpTuple	row = atp_result_row(found, i);
		int			at = atp_get_int4(row, "n") - 1;
		TimestampTz since = DatumGetTimestampTz(atp_get_arg(row, "since", TIMESTAMPTZOID).value);

		said[at].silent |= atp_get_bool(row, "doubted") || (!log->named && !atp_get_bool(row, "answers"));
		if (!atp_get_bool(row, "answers") || (said[at].has && identities[at].log_time >= since))
			continue;
		said[at].has = true;
		atp_identity_take_state(&identities[at], row, now);
	}
	atp_result_free(found);
}

void
atp_identity_log_read(struct varlena *const *dids, int n, AtpIdentity *identities, AtpLogAnswer *answers, TimestampTz now)
{
	AtpCaller	caller;
	ListCell   *cell;
	Said	   *said = palloc0(sizeof(Said) * Max(n, 1));

	if (n == 0)
		return;
	caller = atp_as_table_owner("identity");
	foreach(cell, atp_identity_fresh_logs())
		read_log(lfirst(cell), dids, n, identities, said, now);
	atp_owner_end(caller);
	for (int i = 0; i < n; i++)
		answers[i] = said[i].silent ? ATP_LOG_SILENT : said[i].has ? ATP_LOG_HAS : said[i].follows ? ATP_LOG_LACKS : ATP_LOG_SILENT;
}

/* Does the table's row alone not decide about an event? */
static bool
is_incomplete(const AtpIdentity *identity, TimestampTz now)
{
	return atp_identity_is_due(identity, now) || identity->doubted_by != NIL || !atp_identity_is_usable(identity, now);
}

void
atp_identities_complete(struct varlena *const *dids, int n, AtpIdentity *identities, TimestampTz now)
{
	struct varlena **some = palloc(sizeof(struct varlena *) * Max(n, 1));
	AtpIdentity *completed = palloc(sizeof(AtpIdentity) * Max(n, 1));
	AtpLogAnswer *answers = palloc(sizeof(AtpLogAnswer) * Max(n, 1));
	int		   *of = palloc(sizeof(int) * Max(n, 1));
	int			nsome = 0;

	for (int i = 0; i < n; i++)
		if (is_incomplete(&identities[i], now))
		{
			of[nsome] = i;
			completed[nsome] = identities[i];
			some[nsome++] = dids[i];
		}
	atp_identity_log_read(some, nsome, completed, answers, now);
	for (int i = 0; i < nsome; i++)
		if (answers[i] == ATP_LOG_HAS)
		{
			identities[of[i]] = completed[i];
			identities[of[i]].from_log = true;
		}
}

/* ------------------------------------------------------------------------
 * Following
 * ------------------------------------------------------------------------
 */

/*
 * SQL: the newest operations of accounts whose rows were filled earlier, or were filled by a document that is older.  An account
 * without a row, or whose document was never read, is of interest only if somebody asks for the account, and only while the log may
 * answer ($1, and by the requests of the subscription $2, which names accounts: $3): an old state would be taken for the present one.
 * A document that was read while the log may lack an operation may have that operation.
 */
#define BEHIND(accounts) \
	"SELECT w.did, h.* FROM (SELECT i.did FROM atproto.identity i WHERE " accounts \
	"  UNION SELECT r.did FROM atproto.identity_request r WHERE " accounts ") w" \
	" LEFT JOIN atproto.identity i ON i.did OPERATOR(@.=) w.did" NEWEST \
	" CROSS JOIN LATERAL (SELECT CASE WHEN i.state IN ('gone', 'invalid') THEN i.asked_at ELSE i.resolved_at END AS read_at," \
	"  $1 AND " ATP_LOG_ANSWERS("w.did", "$2", "$3") " AS answers) r" \
	" WHERE NOT h.doubted AND CASE WHEN i.log_time IS NOT NULL THEN h.since > i.log_time WHEN r.read_at IS NULL THEN r.answers" \
	"  ELSE h.since > r.read_at - CASE WHEN r.answers THEN interval '1 h' ELSE '0' END END ORDER BY w.did USING OPERATOR(@.<)"

static bool
may_answer(const AtpSubscription *sub)
{
	return atp_run("SELECT FROM atproto.stat_directory WHERE name = $1 AND fresh AND complete AND believed", ATP_ARGS(atp_text_arg(sub->name))) > 0;
}

/* The look-ups of consumers are done: an event whose key still does not fit asks again. */
static void
remove_requests(struct varlena *const *dids, int n)
{
	atp_run(atp_identity_sql("WITH l AS (SELECT w.did, w.role, w.owner, w.refresh FROM atproto.identity_request w"
							 "  WHERE w.did OPERATOR(@.=) ANY ($1) AND w.role = 0 FOR UPDATE SKIP LOCKED)"
							 " DELETE FROM atproto.identity_request w USING l"
							 " WHERE w.did OPERATOR(@.=) l.did AND w.role = l.role AND w.owner = l.owner AND w.refresh = l.refresh"),
			ATP_ARGS(atp_dids_arg(dids, n)));
}

static AtpResult
find_behind(const AtpSubscription *sub, struct varlena *const *dids, int n)
{
	AtpArg		answers = atp_bool_arg(may_answer(sub));
	AtpArg		name = atp_text_arg(sub->name);
	AtpArg		named = atp_bool_arg(sub->settings.ndids >= 0);

	if (n < 0)
		return atp_query(atp_identity_log_sql(BEHIND("true"), sub->target), ATP_ARGS(answers, name, named));
	return atp_query(atp_identity_log_sql(BEHIND("did OPERATOR(@.=) ANY ($4)"), sub->target),
					 ATP_ARGS(answers, name, named, atp_dids_arg(dids, n)));
}

List *
atp_identity_log_follow(const AtpSubscription *sub, struct varlena *const *dids, int n, TimestampTz now)
{
	AtpCaller	caller = atp_as_table_owner("identity");
	List	   *released = NIL;
	AtpResult	found;
	struct varlena **behind;
	AtpIdentity *identities;

	/* the next statement sees each row that the fetcher has written by a log without these operations */
	(void) lock_followers(AccessExclusiveLock, true);
	found = find_behind(sub, dids, n);
	behind = palloc(sizeof(struct varlena *) * Max(found.n, 1));
	identities = palloc(sizeof(AtpIdentity) * Max(found.n, 1));
	for (uint64 i = 0; i < found.n; i++)
	{
		behind[i] = atp_get_copy(atp_result_row(found, i), "did", atp_type("did"));
		released = lappend(released, behind[i]);
	}
	if (found.n > 0)
	{
		remove_requests(behind, found.n);
		atp_identities_read(behind, found.n, identities);
		for (uint64 i = 0; i < found.n; i++)
		{
			atp_identity_take_state(&identities[i], atp_result_row(found, i), now);
			if (identities[i].asked_at == DT_NOBEGIN)
				identities[i].asked_at = now;
		}
		atp_identities_write_by_log(behind, found.n, identities);
	}
	atp_result_free(found);
	atp_owner_end(caller);
	return released;
}

void
atp_identity_log_doubt(const AtpSubscription *sub)
{
	AtpCaller	caller = atp_as_table_owner("identity");
	AtpResult	found = atp_query(atp_identity_log_sql("SELECT w.did FROM (SELECT DISTINCT did FROM #.plc_refused) w" NEWEST " WHERE h.doubted"
													   " UNION SELECT did FROM atproto.dead_letter WHERE subscription = $1 AND did IS NOT NULL", sub->target),
								  ATP_ARGS(atp_text_arg(sub->name)));
	struct varlena **dids = palloc(sizeof(struct varlena *) * Max(found.n, 1));

	for (uint64 i = 0; i < found.n; i++)
		dids[i] = atp_get_copy(atp_result_row(found, i), "did", atp_type("did"));
	atp_identities_doubt(dids, atp_sort_dids(dids, (int) found.n), sub->owner);
	atp_result_free(found);
	atp_owner_end(caller);
}

/* SQL: atproto.did_key(key) */
Datum
atp_did_key(PG_FUNCTION_ARGS)
{
	bytea	   *key = PG_GETARG_BYTEA_PP(0);
	const uint8_t *bytes = (const uint8_t *) VARDATA_ANY(key);
	char		text[ATP_MULTIKEY_TEXT];
	int			n;

	if (VARSIZE_ANY_EXHDR(key) != ATP_MULTIKEY_LEN)
		PG_RETURN_NULL();
	n = (int) atp_multikey_text(bytes, text);
	PG_RETURN_TEXT_P(cstring_to_text(psprintf("did:key:%.*s", n, text)));
}
