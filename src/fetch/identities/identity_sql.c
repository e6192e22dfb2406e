/*
 * identity_sql.c
 *		SQL functions for identities: they return the stored identity, and queue a look-up if
 *		needed.  check_handle() queues the verification of a handle.  Only await() waits, for the
 *		fetcher; no function here uses the network.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/pg_type.h"
#include "common/clock.h"
#include "common/compat.h"
#include "config/extension.h"
#include "config/option.h"
#include "config/spi.h"
#include "config/wake.h"
#include "core/syntax/did.h"
#include "core/syntax/did_web.h"
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
#include "utils/memutils.h"
#include "utils/timestamp.h"

PG_FUNCTION_INFO_V1(atp_resolve);
PG_FUNCTION_INFO_V1(atp_identity_refresh);
PG_FUNCTION_INFO_V1(atp_await);

#define POLL_MS		50

/*
 * W-01: the error of a DID whose method has no documents here is raised at once, not after a
 * look-up in vain.
 */
void
atp_identity_check_method(struct varlena *did)
{
	char		text[ATP_DID_MAX];
	char		host[ATP_DID_WEB_HOST];
	size_t		n = atp_did_copy(did, text);
	size_t		len;
	size_t		at;
	AtpErr		err = atp_did_document_host(text, n, host, &len, &at);

	if (err != ATP_OK)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("the document of this DID cannot be read"),
				 errdetail("%s", atp_err_text(err))));
}

void
atp_identity_request_lookup(struct varlena *did, bool refresh)
{
	atp_identity_requests_add(&did, 1, refresh, ATP_REQUEST_USER, GetUserId(), true);
	atp_wake_fetcher();
}

/* Queue a look-up if the identity is unknown or old, unless the transaction is read-only. */
static void
request_if_due(struct varlena *did, const AtpIdentity *identity)
{
	if (!RecoveryInProgress() && !XactReadOnly && atp_identity_is_due(identity, atp_time_of_day()))
		atp_identity_request_lookup(did, false);
}

/* ------------------------------------------------------------------------
 * resolve(), identity_refresh()
 * ------------------------------------------------------------------------
 */

static Datum
key_text(bool has, const uint8_t key[ATP_MULTIKEY_LEN], bool *isnull)
{
	char		text[ATP_MULTIKEY_TEXT];

	*isnull = !has;
	return has ? PointerGetDatum(cstring_to_text_with_len(text, atp_multikey_text(key, text))) : (Datum) 0;
}

static Datum
text_datum(const char *s, bool *isnull)
{
	*isnull = s == NULL;
	return s == NULL ? (Datum) 0 : CStringGetTextDatum(s);
}

static Datum
identity_row(FunctionCallInfo fcinfo, struct varlena *did, const AtpIdentity *identity)
{
	TupleDesc	desc;
	Datum		values[9];
	bool		nulls[9] = {false};
	AtpIdentityState state = identity->state == ATP_IDENTITY_UNKNOWN ? ATP_IDENTITY_WANTED : identity->state;

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	values[0] = PointerGetDatum(did);
	values[1] = CStringGetTextDatum(atp_identity_state_name(state));
	values[2] = key_text(identity->has_key, identity->key, &nulls[2]);
	values[3] = key_text(identity->has_label_key, identity->label_key, &nulls[3]);
	values[4] = text_datum(identity->pds, &nulls[4]);
	/* W-23 */
	values[5] = PointerGetDatum(identity->handle);
	nulls[5] = identity->handle == NULL || !identity->handle_is_valid;
	values[6] = TimestampTzGetDatum(identity->resolved_at);
	nulls[6] = identity->resolved_at == DT_NOBEGIN;
	values[7] = BoolGetDatum(identity->stale);
	values[8] = text_datum(identity->error, &nulls[8]);
	return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, nulls));
}

/* SQL: atproto.resolve(did) */
Datum
atp_resolve(PG_FUNCTION_ARGS)
{
	struct varlena *did = PG_GETARG_VARLENA_PP(0);
	MemoryContext caller = CurrentMemoryContext;
	AtpIdentity identity;
	Datum		row;

	atp_identity_check_method(did);
	SPI_connect();
	atp_identities_read(&did, 1, &identity);
	request_if_due(did, &identity);
	/* the result is built in SPI's memory, so it is copied to the caller's */
	row = identity_row(fcinfo, did, &identity);
	MemoryContextSwitchTo(caller);
	row = datumCopy(row, false, -1);
	SPI_finish();
	return row;
}

/* SQL: atproto.identity_refresh(did) */
Datum
atp_identity_refresh(PG_FUNCTION_ARGS)
{
	struct varlena *did = PG_GETARG_VARLENA_PP(0);

	atp_identity_check_method(did);
	SPI_connect();
	atp_identity_request_lookup(did, true);
	SPI_finish();
	PG_RETURN_VOID();
}

/* ------------------------------------------------------------------------
 * await()
 * ------------------------------------------------------------------------
 */

bool
atp_identity_is_settled(struct varlena *did)
{
	AtpCaller	caller = atp_as_table_owner("identity_request");
	AtpResult	found = atp_query(atp_identity_sql("SELECT FROM unnest($1) u (did) JOIN atproto.identity_request w"
												   " ON w.did OPERATOR(@.=) u.did WHERE w.role = $2"),
								  ATP_ARGS(atp_dids_arg(&did, 1), (AtpArg) {ObjectIdGetDatum(caller.user), OIDOID}));
	bool		settled = found.n == 0;

	atp_result_free(found);
	atp_owner_end(caller);
	return settled;
}

static bool
check_step(struct varlena *did, bool first)
{
	int			nest = atp_waiting_step();
	AtpIdentity identity;
	bool		settled;

	if (first)
	{
		atp_identities_read(&did, 1, &identity);
		request_if_due(did, &identity);
	}
	settled = !first && atp_identity_is_settled(did);
	AtEOXact_GUC(false, nest);
	return settled;
}

pg_noreturn static void
give_up(struct varlena *did)
{
	AtpIdentity identity;
	char	   *why;

	(void) atp_waiting_step();
	atp_identities_read(&did, 1, &identity);
	why = atp_get_text_or_null(atp_result_row(atp_query("SELECT atproto.why_not_served() AS why", ATP_NO_ARGS), 0), "why");
	ereport(ERROR,
			(errcode(ERRCODE_QUERY_CANCELED),
			 errmsg("there is no answer yet about the account"),
			 identity.error != NULL ? errdetail("The last look-up failed: %s", identity.error) :
			 errdetail("The account's DID document has not been read yet."),
			 why == NULL ? errhint("It is still asked for: see table \"%s\".", "atproto.identity_request") :
			 errhint("Nobody asks for it: %s.", why)));
}

/* An answer without a key or a server, or that there is no such account, is an answer, too. */
static void
warn_of_answer(struct varlena *did)
{
	int			nest = atp_waiting_step();
	AtpIdentity identity;

	atp_identities_read(&did, 1, &identity);
	if (identity.error != NULL && identity.state != ATP_IDENTITY_GOOD)
		ereport(WARNING,
				(errmsg("the account has no usable DID document"),
				 errdetail("State \"%s\": %s", atp_identity_state_name(identity.state), identity.error)));
	AtEOXact_GUC(false, nest);
}

/* SQL: CALL atproto.await(did, timeout) */
Datum
atp_await(PG_FUNCTION_ARGS)
{
	AtpTime		begin = atp_now();
	int			ms;
	struct varlena *did;

	if (PG_ARGISNULL(0) || PG_ARGISNULL(1))
		atp_argument_is_null(PG_ARGISNULL(0) ? "did" : "timeout");
	ms = atp_interval_ms(PG_GETARG_INTERVAL_P(1));
	atp_waiting_begin(fcinfo, "atproto.await", "Nobody sees what it asks for before that is committed.");
	/* SPI's memory outlives the transactions of a procedure */
	did = (struct varlena *) DatumGetPointer(datumCopy(PointerGetDatum(PG_GETARG_VARLENA_PP(0)), false, -1));
	atp_identity_check_method(did);
	(void) check_step(did, true);
	SPI_commit();
	while (!check_step(did, false))
	{
		if (atp_remaining(atp_now(), begin, ms) == 0)
			give_up(did);
		atp_waiting_pause(POLL_MS);
	}
	warn_of_answer(did);
	SPI_finish();
	PG_RETURN_VOID();
}

/* check_handle(did) */
PG_FUNCTION_INFO_V1(atp_check_handle);
Datum
atp_check_handle(PG_FUNCTION_ARGS)
{
	struct varlena *did = PG_GETARG_VARLENA_PP(0);
	Oid			role = GetUserId();
	AtpResult	found;
	AtpCaller	caller;
	bool		full;

	if (!atp_dns_supported)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("handles are not verified by this build"),
				 errhint("Build the extension where c-ares and its header are installed.")));
	SPI_connect();
	atp_identity_requests_add(&did, 1, false, ATP_REQUEST_USER, role, true);
	caller = atp_as_table_owner("handle_request");
	found = atp_query("SELECT count(*) >= $2 AS full FROM (SELECT FROM atproto.handle_request WHERE role = $1 LIMIT $2) w",
					  ATP_ARGS((AtpArg) {ObjectIdGetDatum(role), OIDOID}, atp_int8_arg(atp_queue_limit)));
	full = atp_get_bool(atp_result_row(found, 0), "full");
	atp_result_free(found);
	if (full)
		ereport(ERROR,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("role \"%s\" has asked for %d handles that are still to be looked up",
						GetUserNameFromId(role, true), atp_queue_limit),
				 errhint("Wait for them, or increase \"%s\".", "atproto.queue_limit")));
	atp_run("INSERT INTO atproto.handle_request (did, role, requested_at) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
			ATP_ARGS(atp_did_arg(did), (AtpArg) {ObjectIdGetDatum(role), OIDOID},
					 atp_time_arg(atp_time_of_day())));
	atp_owner_end(caller);
	atp_wake_fetcher();
	SPI_finish();
	PG_RETURN_VOID();
}
