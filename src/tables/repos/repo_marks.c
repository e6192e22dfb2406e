/*
 * repo_marks.c
 *		Marks in rows of the table repo, set without the states of the repositories.
 *
 * These statements change one or two columns: sync and hold where held events or dead letters are dropped or gone,
 * purge_rev of deleted accounts.  repo.c reads and writes whole states.  Invariant: hold is cleared only after the
 * held events were counted under the lock of the row.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "tables/records/record.h"
#include "tables/repos/held.h"
#include "tables/repos/repo_state.h"
#include "tables/repos/table_repo.h"
#include "types/types.h"

void
atp_repo_mark(AtpApply *a, struct varlena *did)
{
	Datum		value = PointerGetDatum(did);
	Datum		arg = atp_array(a->statements, ATP_TYPE_DID, &value, NULL, 1);

	(void) atp_execute(a->statements, &atp_repo_table.statements[ATP_MARK_REPO], &arg, NULL);
}

/* Execute a statement with an array of DIDs as its parameter; dids NULL: the parameter is null. */
static uint64
with_dids(AtpStatements *set, AtpRepoStatement statement, struct varlena *const *dids, int n)
{
	Datum		arg = dids == NULL ? (Datum) 0 : atp_array(set, ATP_TYPE_DID, (Datum *) dids, NULL, n);

	return atp_execute(set, &atp_repo_table.statements[statement], &arg, dids == NULL ? "n" : NULL);
}

void
atp_repo_mark_all(AtpApply *a, struct varlena *const *dids, int n)
{
	(void) with_dids(a->statements, ATP_LOCK_HOLDING, dids, n);
	(void) with_dids(a->statements, ATP_MARK_REPO, dids, n);
}

/* The DIDs that the last statement returned, sorted. */
static int
take_marked(int found, struct varlena ***marked)
{
	*marked = palloc(sizeof(struct varlena *) * Max(found, 1));
	return atp_sort_dids(*marked, atp_take_dids(*marked, found));
}

/* The held events of these repositories are dropped: mark the repositories that lose by that (ATP_SQL_LOSES). */
static int
mark_losing(AtpApply *a, struct varlena *const *dids, int n, struct varlena ***marked)
{
	return take_marked(with_dids(a->statements, ATP_MARK_DROPPED, dids, n), marked);
}

int
atp_repos_mark_dropped(AtpApply *a, struct varlena **dids, int n, struct varlena ***marked, int *nmarked)
{
	int			found = 0;

	*nmarked = 0;

	if (!atp_target_is_distributed(a->statements, &atp_repo_table))
		found = atp_take_dids(dids, with_dids(a->statements, ATP_LOCK_FREE_REPOS, dids, n));
	else
		/* Citus supports SKIP LOCKED only in queries for a single node, so only for a single DID */
		for (int i = 0; i < n; i++)
			found += atp_take_dids(&dids[found], with_dids(a->statements, ATP_LOCK_FREE_REPOS, &dids[i], 1));
	n = found;
	if (n == 0)
		return 0;
	*nmarked = mark_losing(a, dids, n, marked);
	return n;
}

int
atp_repos_mark_left(AtpApply *a, struct varlena *const *dids, int n, struct varlena ***marked)
{
	(void) with_dids(a->statements, ATP_LOCK_HOLDING, dids, n);
	return mark_losing(a, dids, n, marked);
}

int
atp_repos_mark_lettered(AtpApply *a, struct varlena *const *dids, int n, struct varlena *const *exported, int nexported,
						struct varlena ***marked)
{
	Datum		args[2] = {
		atp_array(a->statements, ATP_TYPE_DID, (Datum *) dids, NULL, n), atp_array(a->statements, ATP_TYPE_DID, (Datum *) exported, NULL, nexported)
	};

	(void) with_dids(a->statements, ATP_LOCK_HOLDING, dids, n);
	return take_marked(atp_execute(a->statements, &atp_repo_table.statements[ATP_MARK_LETTERED], args, NULL), marked);
}

void
atp_repos_forget(AtpApply *a, struct varlena *const *dids, int n)
{
	(void) with_dids(a->statements, ATP_FORGET_REPOS, dids, n);
}

/* Take the n DIDs returned by the last statement, leave out repositories with held events; returns the number left. */
static int
without_held(AtpApply *a, uint64 n, struct varlena ***dids)
{
	AtpHeldCount *counts = palloc(sizeof(AtpHeldCount) * Max(n, 1));
	int			kept = 0;

	*dids = palloc(sizeof(struct varlena *) * Max(n, 1));
	/* the statement returns the rows in any order, and atp_held_count() needs sorted DIDs */
	n = atp_sort_dids(*dids, atp_take_dids(*dids, n));
	atp_held_count(a, *dids, n, counts);
	for (uint64 i = 0; i < n; i++)
		if (counts[i].all == 0)
			(*dids)[kept++] = (*dids)[i];
	return kept;
}

void
atp_repos_unhold(AtpApply *a, struct varlena *const *some, int nsome)
{
	struct varlena **dids;
	int			n = without_held(a, with_dids(a->statements, ATP_FIND_HOLDING, some, nsome), &dids);

	if (n == 0)
		return;
	/* a transaction that holds an event has locked the row: after this lock its held event is visible, so count again */
	(void) with_dids(a->statements, ATP_LOCK_HOLDING, dids, n);
	n = without_held(a, with_dids(a->statements, ATP_FIND_HOLDING, dids, n), &dids);
	if (n == 0)
		return;
	(void) with_dids(a->statements, ATP_END_HOLD, dids, n);
	atp_repos_forget(a, dids, n);
}

int
atp_repos_released(const AtpSubscription *sub, AtpStatements *set, struct varlena **dids, int max)
{
	const AtpSettings *settings = &sub->settings;
	Datum		args[2] = {(Datum) 0, Int64GetDatum(max)};
	int			n;

	if (settings->ndids >= 0)
		args[0] = atp_array(set, ATP_TYPE_DID, (Datum *) settings->dids, NULL, settings->ndids);
	n = atp_execute(set, &atp_repo_table.statements[ATP_FIND_RELEASED], args, settings->ndids >= 0 ? NULL : "n ");
	return atp_take_dids(dids, n);
}

bool
atp_repo_leave_to_purge(AtpApply *a, const AtpEvent *event, uint64 rev)
{
	Datum		args[3] = {PointerGetDatum(event->did), AtpTidGetDatum(rev), Int64GetDatum(event->seq)};

	return atp_execute(a->statements, &atp_repo_table.statements[ATP_LEAVE_TO_PURGE], args, NULL) > 0;
}

void
atp_repo_end_purge(AtpApply *a)
{
	/* lock first: a second subscription may be about to set purge_rev of a row, and ATP_END_PURGE would clear that */
	(void) atp_execute(a->statements, &atp_repo_table.statements[ATP_LOCK_PURGED], NULL, NULL);
	(void) atp_execute(a->statements, &atp_repo_table.statements[ATP_END_PURGE], NULL, NULL);
}

void
atp_repos_purge_now(AtpApply *a, struct varlena *const *dids, int n)
{
	uint64		found;
	SPITupleTable *rows;

	if (n == 0)
		return;
	found = with_dids(a->statements, ATP_FIND_PURGED, dids, n);
	rows = SPI_tuptable;
	for (uint64 i = 0; i < found; i++)
	{
		Datum		values[3];
		bool		nulls[3];
		struct varlena *did;

		heap_deform_tuple(rows->vals[i], rows->tupdesc, values, nulls);
		if (nulls[0] || nulls[1])
			continue;
		did = PG_DETOAST_DATUM_COPY(values[0]);
		atp_records_erase_all(a, did, DatumGetAtpTid(values[1]), DatumGetInt64(values[2]));
		(void) atp_execute(a->statements, &atp_repo_table.statements[ATP_FORGET_PURGE], &(Datum) {PointerGetDatum(did)}, NULL);
	}
	SPI_freetuptable(rows);
}

bool
atp_repo_is_purged(AtpApply *a, struct varlena *did)
{
	Datum		arg = PointerGetDatum(did);

	return atp_execute(a->statements, &atp_repo_table.statements[ATP_IS_PURGED], &arg, NULL) > 0;
}
