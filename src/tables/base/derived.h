/*
 * derived.h
 *		Tables that are derived from records, and the changes of records that the tables follow.
 *
 * A change is a record that is put, removed, or removed with its account, together with the record
 * that the table had before.  Changes are handed over many at a time, in the order of the events,
 * after the table record was written.  For a subscription without derived tables nothing is looked
 * up and no memory is taken.
 */
#ifndef ATP_DERIVED_H
#define ATP_DERIVED_H

#include "tables/base/sink.h"

/* AtpChange.seq of a record that comes from an export instead of an event. */
#define ATP_SEQ_NONE	(-1)

/*
 * SQLSTATE of the ERROR of flush() when a derived table first needs rows that this transaction must not add.  Nothing is
 * wrong: the caller does the transaction again after the steps of prepare().  No user sees this ERROR.
 */
#define ATP_ERRCODE_PREPARE	MAKE_SQLSTATE('A', 'T', '0', '0', '3')

typedef struct AtpChange
{
	const AtpRecordRow *row;	/* for a record removed with its account: ATP_DELETE, with the record's own revision */
	int64		seq;			/* sequence number of the event, or ATP_SEQ_NONE */
	bool		reread;			/* the event is read again */
	bool		passed;			/* the table record is not changed: a kept deletion is newer (records/sweep_deletion.h) */
	/*
	 * the record in the table before this change; looked up only for subscriptions that keep records, and if the event
	 * is read again or of an archive, or a derived table does not forget
	 */
	bool		found;
	uint64		old_rev;
	struct varlena *old_cid;
	struct varlena *old_value;	/* as stored, perhaps TOASTed; NULL when jsonb cannot hold the record ... */
	struct varlena *old_raw;	/* ... and then the record's DAG-CBOR, as stored */
} AtpChange;

typedef struct AtpDerived
{
	int			use;			/* ATP_USE_... */
	bool		forgets;		/* true: the table has no use for found and old_... */

	/* Does this subscription fill the table? */
	bool		(*wanted) (const AtpSubscription *sub);

	/*
	 * Write the changes into this table.  There may be many changes with large values, so the function manages memory
	 * by itself.
	 */
	void		(*flush) (AtpApply *a, const AtpChange *changes, int n);

	/*
	 * Add the rows that flush() will need for the rows of the batch, as far as there is room, in the open transaction; or
	 * NULL.  The work has nsteps steps, each for a transaction of its own: in a single transaction, the locks of two
	 * processes could deadlock.  With a->prepared set, flush() does not raise ATP_ERRCODE_PREPARE.
	 */
	void		(*prepare) (AtpApply *a, int step);
	int			nsteps;
} AtpDerived;

extern const AtpDerived atp_record_event_derived;
extern const AtpDerived atp_collection_count_derived;
extern const AtpDerived atp_link_derived;

/*
 * ERROR if the subscription fills record_event and the column seq is NOT NULL, as older versions made it: a record
 * from an export has no sequence number.
 */
extern void atp_record_event_check(const AtpSubscription *sub, AtpStatements *set);

/* Union of ATP_USE_... of the subscription's derived tables; may be 0. */
extern int	atp_derived_uses(const AtpSubscription *sub);

/*
 * Does a derived table of the subscription need the record as it was before the change?  For events that are read
 * again, the old record is looked up in any case.
 */
extern bool atp_derived_remembers(const AtpSubscription *sub);

/*
 * The number of steps of preparation that the subscription's derived tables need, and a step of all of them.  The caller
 * sets a->prepared before the first step.
 */
extern int	atp_derived_steps(const AtpSubscription *sub);
extern void atp_derived_prepare_step(AtpApply *a, int step);

/* All steps in the open transaction. */
extern void atp_derived_prepare(AtpApply *a);

/*
 * Hand the changes to each derived table of the subscription.  Changes of events that are read again and changed
 * nothing are left out.
 */
extern void atp_derived_flush(AtpApply *a, AtpChange *changes, int n);

#endif							/* ATP_DERIVED_H */
