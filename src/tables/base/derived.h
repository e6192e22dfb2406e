/*
 * derived.h
 *		Tables that are derived from records: each is told what becomes of them.
 *
 * A record is put, removed, or goes with its account.  All of that is a change,
 * with what was there before; changes come many at a time, in their order, after
 * they were made.  Nothing is looked up, and no memory taken, for a subscription
 * without such a table.
 */
#ifndef ATP_DERIVED_H
#define ATP_DERIVED_H

#include "tables/base/sink.h"

/* A record comes from an export, and from no event. */
#define ATP_SEQ_NONE	(-1)

typedef struct AtpChange
{
	const AtpRecordRow *row;	/* of what goes with its account: ATP_DELETE, of the revision that it had */
	int64		seq;			/* event that says so */
	bool		again;			/* of an event that is read again */
	/* what was there, of subscriptions that keep records */
	bool		found;
	uint64		old_rev;
	struct varlena *old_cid;
	struct varlena *old_value;	/* as it lies in the table; NULL when jsonb cannot hold it ... */
	struct varlena *old_raw;	/* ... and then, likewise, this */
} AtpChange;

typedef struct AtpDerived
{
	int			use;			/* ATP_USE_... */
	bool		forgets;		/* what was there before is not its business */

	/* Does this subscription fill it? */
	bool		(*wanted) (const AtpSubscription *sub);

	/* These changes were made.  Memory is its own business: there may be many, with large values. */
	void		(*flush) (AtpApply *a, const AtpChange *changes, int n);
} AtpDerived;

extern const AtpDerived atp_record_event_derived;
extern const AtpDerived atp_collection_count_derived;
extern const AtpDerived atp_link_derived;

/* ERROR unless the table, if the subscription fills it, takes what comes from an export: an older one may not. */
extern void atp_record_event_check(const AtpSubscription *sub, AtpStatements *set);

/* ATP_USE_... of those that the subscription fills; 0: none. */
extern int	atp_derived_uses(const AtpSubscription *sub);

/* Has one of them to know what was there before?  Of what is read again, it is looked up in any case. */
extern bool atp_derived_remembers(const AtpSubscription *sub);

/* Tell them.  Those that changed nothing, because they came too late, are taken out. */
extern void atp_derived_flush(AtpApply *a, AtpChange *changes, int n);

#endif							/* ATP_DERIVED_H */
