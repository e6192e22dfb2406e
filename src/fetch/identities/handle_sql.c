/*
 * handle_sql.c
 *		atproto.check_handle(): queues the verification of an account's handle for the fetcher.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "common/clock.h"
#include "config/extension.h"
#include "config/spi.h"
#include "config/wake.h"
#include "fmgr.h"
#include "identity/identity.h"
#include "identity/identity_request.h"
#include "miscadmin.h"
#include "net/dns.h"
#include "utils/timestamp.h"

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
	atp_identity_requests_add(&did, 1, false, ATP_REQUEST_USER, role);
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
			ATP_ARGS((AtpArg) {PointerGetDatum(did), atp_type("did")}, (AtpArg) {ObjectIdGetDatum(role), OIDOID},
					 atp_time_arg(atp_time_of_day())));
	atp_owner_end(caller);
	atp_wake_fetcher();
	SPI_finish();
	PG_RETURN_VOID();
}
