/*
 * resolve_handle.c
 *		SQL procedure atproto.resolve_handle(): the account of a handle, verified both ways (W-20 to W-25).
 *
 * The procedure sends no request: the fetcher asks the domain of the handle (task_handle.c), then reads the document of
 * the account that the domain names (task_identity.c).  Between the steps the procedure commits and polls.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "common/clock.h"
#include "config/extension.h"
#include "config/option.h"
#include "config/spi.h"
#include "config/wake.h"
#include "fetch/engine/waiting.h"
#include "fetch/identities/identity_sql.h"
#include "fmgr.h"
#include "funcapi.h"
#include "identity/identity.h"
#include "identity/identity_request.h"
#include "miscadmin.h"
#include "net/dns.h"
#include "types/types.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/guc.h"
#include "utils/timestamp.h"

PG_FUNCTION_INFO_V1(atp_resolve_handle);

#define POLL_MS		50

typedef struct Resolving
{
	struct varlena *handle;
	struct varlena *did;		/* the account that the domain names */
	char	   *error;			/* why the domain names no account */
	AtpTime		begin;
	int			timeout_ms;
} Resolving;

static AtpArg
handle_arg(const Resolving *r)
{
	return (AtpArg) {PointerGetDatum(r->handle), atp_type("handle")};
}

static char *
handle_text(const Resolving *r)
{
	return text_to_cstring((text *) r->handle);
}

static AtpArg
role_arg(Oid role)
{
	return (AtpArg) {ObjectIdGetDatum(role), OIDOID};
}

static void
check_limit(Oid role)
{
	AtpResult	found = atp_query("SELECT count(*) >= $2 AS full FROM (SELECT FROM atproto.handle_lookup WHERE role = $1 AND answered_at IS NULL LIMIT $2) l",
								  ATP_ARGS(role_arg(role), atp_int8_arg(atp_queue_limit)));
	bool		full = atp_get_bool(atp_result_row(found, 0), "full");

	atp_result_free(found);
	if (full)
		ereport(ERROR,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("role \"%s\" has asked for %d handles that are still to be looked up",
						GetUserNameFromId(role, true), atp_queue_limit),
				 errhint("Wait for them, or increase \"%s\".", "atproto.queue_limit")));
}

/* A second session of the role that asks for the same handle waits for the same look-up. */
static void
queue_lookup(const Resolving *r)
{
	int			nest = atp_waiting_step();
	AtpCaller	caller = atp_as_table_owner("handle_lookup");

	check_limit(caller.user);
	atp_run("INSERT INTO atproto.handle_lookup AS l (handle, role, requested_at) VALUES ($1, $2, $3)"
			" ON CONFLICT (handle, role) DO UPDATE SET requested_at = excluded.requested_at, next_try = 'epoch',"
			"  answered_at = NULL, did = NULL, error = NULL WHERE l.answered_at IS NOT NULL",
			ATP_ARGS(handle_arg(r), role_arg(caller.user), atp_time_arg(atp_time_of_day())));
	atp_owner_end(caller);
	atp_wake_fetcher();
	AtEOXact_GUC(false, nest);
}

/* Has the domain answered?  The answer outlives the transaction. */
static bool
domain_has_answered(Resolving *r)
{
	int			nest = atp_waiting_step();
	AtpCaller	caller = atp_as_table_owner("handle_lookup");
	AtpResult	found = atp_query(atp_identity_sql("SELECT did, error FROM atproto.handle_lookup WHERE handle OPERATOR(@.=) $1 AND role = $2 AND answered_at IS NOT NULL"),
								  ATP_ARGS(handle_arg(r), role_arg(caller.user)));
	bool		answered = found.n > 0;

	if (answered)
	{
		AtpArg		did = atp_get_arg(atp_result_row(found, 0), "did", atp_type("did"));

		r->did = did.isnull ? NULL : PG_DETOAST_DATUM_COPY(did.value);
		r->error = atp_get_text_or_null(atp_result_row(found, 0), "error");
	}
	atp_result_free(found);
	atp_owner_end(caller);
	AtEOXact_GUC(false, nest);
	return answered;
}

static bool
claims_handle(const Resolving *r)
{
	AtpCaller	caller = atp_as_table_owner("identity");
	bool		claims = atp_run(atp_identity_sql("SELECT FROM atproto.identity WHERE did OPERATOR(@.=) $1 AND handle_claimed OPERATOR(@.=) $2"),
								 ATP_ARGS(atp_did_arg(r->did), handle_arg(r))) > 0;

	atp_owner_end(caller);
	return claims;
}

/* Does the document that was read last claim the handle?  If it does not, the document is read again. */
static bool
claims_at_once(const Resolving *r)
{
	int			nest = atp_waiting_step();
	AtpIdentity identity;
	bool		claims;

	atp_identity_check_method(r->did);
	atp_identities_read(&r->did, 1, &identity);
	claims = !atp_identity_is_due(&identity, atp_time_of_day()) && claims_handle(r);
	if (!claims)
		atp_identity_request_lookup(r->did, identity.resolved_at != DT_NOBEGIN);
	AtEOXact_GUC(false, nest);
	return claims;
}

static bool
document_is_read(Resolving *r)
{
	int			nest = atp_waiting_step();
	bool		settled = atp_identity_is_settled(r->did);

	AtEOXact_GUC(false, nest);
	return settled;
}

static void
wait_until(Resolving *r, bool (*is_done) (Resolving *r), const char *what)
{
	SPI_commit();
	while (!is_done(r))
	{
		if (atp_remaining(atp_now(), r->begin, r->timeout_ms) == 0)
			ereport(ERROR,
					(errcode(ERRCODE_QUERY_CANCELED),
					 errmsg("there is no answer yet about the handle"),
					 errdetail("%s has not answered.", what),
					 errhint("It is still asked for: call the procedure again, with a longer timeout.")));
		atp_waiting_pause(POLL_MS);
	}
}

static void
refuse_handle(const Resolving *r, const char *detail)
{
	ereport(ERROR,
			(errcode(ERRCODE_NO_DATA_FOUND),
			 errmsg("\"%s\" is the handle of no account", handle_text(r)),
			 errdetail("%s", detail)));
}

/* The domain names no account, or could not be asked: which of both, the detail says. */
static void
refuse_domain(const Resolving *r)
{
	ereport(ERROR,
			(errcode(ERRCODE_NO_DATA_FOUND),
			 errmsg("no account of the handle \"%s\" was found", handle_text(r)),
			 errdetail("%s", r->error != NULL ? r->error : "Its domain names no account.")));
}

static void
verify_claim(Resolving *r)
{
	int			nest;
	bool		claims;

	if (claims_at_once(r))
		return;
	wait_until(r, document_is_read, "The directory, or the host of the account's document,");
	nest = atp_waiting_step();
	claims = claims_handle(r);
	AtEOXact_GUC(false, nest);
	if (!claims)
		refuse_handle(r, "Its domain names an account whose document does not claim the handle.");
}

static Datum
row_of_did(FunctionCallInfo fcinfo, const Resolving *r)
{
	TupleDesc	desc;
	Datum		value = PointerGetDatum(r->did);
	bool		isnull = false;

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	return SPI_datumTransfer(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), &value, &isnull)), false, -1);
}

/* SQL: CALL atproto.resolve_handle(handle, did, timeout) */
Datum
atp_resolve_handle(PG_FUNCTION_ARGS)
{
	Resolving	r = {.begin = atp_now()};
	Datum		row;

	if (PG_ARGISNULL(0) || PG_ARGISNULL(2))
		atp_argument_is_null(PG_ARGISNULL(0) ? "handle" : "timeout");
	if (!atp_dns_supported)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("handles are not verified by this build"),
				 errhint("Build the extension where c-ares and its header are installed.")));
	r.timeout_ms = atp_interval_ms(PG_GETARG_INTERVAL_P(2));
	atp_waiting_begin(fcinfo, "atproto.resolve_handle", "Nobody sees what it asks for before that is committed.");
	/* SPI's memory outlives the transactions of a procedure */
	r.handle = (struct varlena *) DatumGetPointer(datumCopy(PointerGetDatum(PG_GETARG_VARLENA_PP(0)), false, -1));
	queue_lookup(&r);
	wait_until(&r, domain_has_answered, "The handle's domain");
	if (r.did == NULL)
		refuse_domain(&r);
	verify_claim(&r);
	row = row_of_did(fcinfo, &r);
	SPI_finish();
	return row;
}
