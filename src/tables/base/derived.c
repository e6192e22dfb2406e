/*
 * derived.c
 *		The list of derived tables, and how they are told of changes of records.
 */
#include "postgres.h"

#include "tables/base/derived.h"

static const AtpDerived *const tables[] = {
	&atp_record_event_derived, &atp_collection_count_derived, &atp_link_derived,
};

int
atp_derived_uses(const AtpSubscription *sub)
{
	int			uses = 0;

	for (int i = 0; i < lengthof(tables); i++)
		if (tables[i]->wanted(sub))
			uses |= tables[i]->use;
	return uses;
}

bool
atp_derived_remembers(const AtpSubscription *sub)
{
	bool		remembers = false;

	for (int i = 0; i < lengthof(tables); i++)
		remembers |= !tables[i]->forgets && tables[i]->wanted(sub);
	return remembers;
}

int
atp_derived_steps(const AtpSubscription *sub)
{
	int			nsteps = 0;

	for (int i = 0; i < lengthof(tables); i++)
		if (tables[i]->wanted(sub))
			nsteps = Max(nsteps, tables[i]->nsteps);
	return nsteps;
}

void
atp_derived_prepare_step(AtpApply *a, int step)
{
	for (int i = 0; i < lengthof(tables); i++)
		if (step < tables[i]->nsteps && tables[i]->wanted(a->sub))
			tables[i]->prepare(a, step);
}

void
atp_derived_prepare(AtpApply *a)
{
	int			nsteps = atp_derived_steps(a->sub);

	a->prepared = true;
	for (int step = 0; step < nsteps; step++)
		atp_derived_prepare_step(a, step);
}

static bool
has_cid(const AtpChange *change, const struct varlena *cid)
{
	return change->old_cid != NULL && cid != NULL && atp_same_bytes(change->old_cid, cid);
}

/* H-42, H-43: an archive, or a source beside the archive, has brought this operation before, or a later one. */
static bool
has_come(const AtpChange *change)
{
	const AtpRecordRow *row = change->row;

	return row->may_stand && change->found && (change->old_rev > row->rev || (change->old_rev == row->rev && has_cid(change, row->cid)));
}

/*
 * True: the change left the table record as it was.  Of changes that were not passed over (H-43), only an event that is read again can find the same or a newer
 * revision in the table.
 */
static bool
is_idle(const AtpChange *change)
{
	return change->passed || has_come(change) || (change->reread &&
		(change->found ? change->old_rev >= change->row->rev : change->row->action == ATP_DELETE));
}

void
atp_derived_flush(AtpApply *a, AtpChange *changes, int n)
{
	int			kept = 0;

	for (int i = 0; i < n; i++)
		if (!is_idle(&changes[i]))
			changes[kept++] = changes[i];
	for (int i = 0; kept > 0 && i < lengthof(tables); i++)
		if (tables[i]->wanted(a->sub))
			tables[i]->flush(a, changes, kept);
}
