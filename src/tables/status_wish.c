/*
 * status_wish.c
 *		The table status_wish: accounts whose server is asked whether they are active (V-39).
 *
 * A row stays for a while after the answer: as long as it does, nobody asks again.
 */
#include "postgres.h"

#include "clock.h"
#include "config/spi.h"
#include "config/wake.h"
#include "identity/identity.h"
#include "tables/status_wish.h"
#include "types/types.h"

void
atp_status_wish(const AtpApply *a, AtpEvent *const *events, int n)
{
	struct varlena **dids = palloc(sizeof(struct varlena *) * Max(n, 1));
	Datum	   *values[2];
	bool	   *nulls[2];
	int			ndids = 0;
	AtpCaller	caller;

	for (int c = 0; c < 2; c++)
	{
		values[c] = palloc(sizeof(Datum) * Max(n, 1));
		nulls[c] = palloc(sizeof(bool) * Max(n, 1));
	}
	for (int i = 0; i < n; i++)
	{
		if (ndids > 0 && atp_compare_dids(dids[ndids - 1], events[i]->did) == 0)
			continue;
		values[0][ndids] = TimestampTzGetDatum(events[i]->status_at);
		nulls[0][ndids] = !events[i]->has_status;
		values[1][ndids] = Int64GetDatum(events[i]->status_seq);
		nulls[1][ndids] = !events[i]->has_status_seq;
		dids[ndids++] = events[i]->did;
	}
	if (ndids == 0)
		return;
	caller = atp_as_table_owner("status_wish");
	if (atp_run(atp_identity_sql("INSERT INTO atproto.status_wish (target, subscription, wished_at, did, status_at, status_seq)"
								 " SELECT $1::name, $2, $3, u.* FROM unnest($4, $5, $6) u (did, status_at, status_seq)"
								 " ORDER BY u.did USING OPERATOR(@.<) ON CONFLICT (target, did) DO NOTHING"),
				ATP_ARGS(atp_text_arg(a->sub->target), atp_text_arg(a->sub->name), atp_time_arg(atp_time_of_day()),
						 atp_dids_arg(dids, ndids),
						 atp_array_arg(TIMESTAMPTZOID, values[0], nulls[0], ndids),
						 atp_array_arg(INT8OID, values[1], nulls[1], ndids))) > 0)
		atp_wake_fetcher();
	atp_owner_end(caller);
}
