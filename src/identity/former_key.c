/*
 * former_key.c
 *		Former signing keys of an account of did:plc: see former_key.h.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "common/clock.h"
#include "config/spi.h"
#include "core/syntax/tid.h"
#include "identity/former_key.h"
#include "identity/identity_log.h"
#include "types/types.h"
#include "utils/timestamp.h"

#define TOLERANCE_US	(10 * 60 * USECS_PER_SEC)
#define OPERATIONS_MAX	"200"

static TimestampTz
time_of(AtpTuple row, const char *column)
{
	return DatumGetTimestampTz(atp_get_arg(row, column, TIMESTAMPTZOID).value);
}

/* The account's newest operation comes first. */
static AtpFormerKeys
take_rows(AtpResult rows)
{
	TimestampTz now = atp_time_of_day();
	TimestampTz until = DT_NOEND;
	AtpFormerKeys former = {.keys = palloc(sizeof(AtpFormerKey) * rows.n)};

	for (uint64 i = 0; i < rows.n; i++)
	{
		AtpTuple	row = atp_result_row(rows, i);
		AtpIdentity then = {.state = ATP_IDENTITY_UNKNOWN};

		atp_identity_take_state(&then, row, now);
		if (i == 0)
			former.pds = then.pds;
		else if (then.has_key)
		{
			AtpFormerKey *key = &former.keys[former.n++];

			memcpy(key->key, then.key, ATP_MULTIKEY_LEN);
			key->since = then.log_time;
			key->until = until;
		}
		until = then.log_time;
	}
	if (former.pds == NULL)
		former.n = 0;
	return former;
}

/* The operations of the chain that holds now, the newest first; none, if the log may not answer for the account. */
static AtpResult
read_chain(const AtpIdentityLog *log, struct varlena *did)
{
	return atp_query(atp_identity_log_sql("SELECT " ATP_LOG_STATE ", h.until IS NULL AND " ATP_LOG_IS_DOUBTED " AS doubted FROM #.plc_history h"
										  " WHERE h.did OPERATOR(@.=) $1 AND " ATP_LOG_ANSWERS("$1", "$2", "$3")
										  " ORDER BY h.n DESC LIMIT " OPERATIONS_MAX, log->target),
					 ATP_ARGS(atp_did_arg(did), atp_text_arg(log->subscription), atp_bool_arg(log->named)));
}

AtpFormerKeys
atp_former_keys(struct varlena *did)
{
	AtpFormerKeys former = {0};
	TimestampTz newest = DT_NOBEGIN;
	bool		doubted = false;
	AtpCaller	caller = atp_as_table_owner("identity");
	ListCell   *cell;

	foreach(cell, atp_identity_fresh_logs())
	{
		const AtpIdentityLog *log = lfirst(cell);
		AtpResult	rows = read_chain(log, did);

		doubted |= rows.n > 0 && atp_get_bool(atp_result_row(rows, 0), "doubted");
		/* two logs may differ while one log lags: the log with the later operation counts */
		if (rows.n > 0 && time_of(atp_result_row(rows, 0), "since") > newest)
		{
			newest = time_of(atp_result_row(rows, 0), "since");
			former = take_rows(rows);
		}
		atp_result_free(rows);
	}
	atp_owner_end(caller);
	return doubted ? (AtpFormerKeys) {0} : former;
}

bool
atp_former_key_is_of(const AtpFormerKey *key, uint64 rev)
{
	TimestampTz at = (TimestampTz) atp_tid_micros(rev) - ATP_UNIX_TO_POSTGRES;

	return at >= key->since - TOLERANCE_US && at <= key->until + TOLERANCE_US;
}
