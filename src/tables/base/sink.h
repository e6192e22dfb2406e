/*
 * sink.h
 *		What the events of one kind of stream do to the tables.
 *
 * Private to src/tables; source.c names the sinks.
 */
#ifndef ATP_SINK_H
#define ATP_SINK_H

#include "postgres.h"

#include "config/subscription.h"
#include "stream/batch.h"
#include "tables/base/statements.h"

/* Have two values, which are not TOASTed, the same bytes? */
static inline bool
atp_same_bytes(const struct varlena *a, const struct varlena *b)
{
	return VARSIZE_ANY_EXHDR(a) == VARSIZE_ANY_EXHDR(b) &&
		memcmp(VARDATA_ANY(a), VARDATA_ANY(b), VARSIZE_ANY_EXHDR(a)) == 0;
}

/*
 * How a message that is processed again (retry(), a released event), or a row of the message, compares with what the
 * tables have now.
 */
typedef enum AtpStanding
{
	ATP_STANDING_NEW,			/* newer than the tables */
	ATP_STANDING_LAST,			/* the tables know nothing newer, but may have everything else of the message */
	ATP_STANDING_LATE,			/* newer events of the account were applied since */
	ATP_STANDING_OBSOLETE,		/* the tables have something as new or newer */
	ATP_STANDING_MISSING,		/* of a row: the table has no row with the key */
	ATP_STANDING_INACTIVE,		/* the repository is not active */
	ATP_STANDING_UNJUDGED		/* nothing yet proves or disproves the message: see atp_admission_reason() */
} AtpStanding;

/* Is an archive being read into the target (sweep.h)? */
typedef enum AtpSweep
{
	ATP_SWEEP_NONE,
	ATP_SWEEP_ALONE,			/* only one subscription fills the tables */
	ATP_SWEEP_SHARED			/* deletions are kept */
} AtpSweep;

/* A batch on the way into the tables. */
typedef struct AtpApply
{
	const AtpSubscription *sub;
	const AtpEndpoint *from;	/* the stream that the messages came from; NULL: the subscription's present stream */
	const struct AtpSink *sink;
	AtpBatch   *batch;
	AtpStatements *statements;	/* for the tables of the subscription */
	struct AtpProgress *progress;	/* progress of the transaction besides rows */
	int64		rows;			/* rows applied so far */
	int64		noop_rows;		/* of rows: deletions without a row to delete */
	int64		removed;		/* of rows: deletions of an existing row */
	int64		links_removed;	/* removed rows of the table link */
	bool		direct;			/* rows may be written without statements where direct.h allows that */
	AtpSweep	sweep;			/* set when the states of repositories are read */
	bool		accepted;		/* result of the last accepts(), which runs as a step */
	bool		replay;			/* a message is processed again: a row as new as the message is not overwritten */
	bool		force;			/* rows are overwritten even where the table has newer data */
	Oid			lock_first;		/* table with an unavailable lock: the next attempt waits for this table first */
	int			lock_attempts;	/* failed attempts in a row to lock all tables without waiting */
	bool		prepared;		/* the derived tables were prepared for the batch, as far as there is room (derived.h) */
	AtpStanding standing;		/* result of the last standing(), which runs as a step */
	struct varlena *repo;		/* repository to mark as out of step, in a step */
	/* events of the batch in this transaction: [lo, hi) */
	int			lo;
	int			hi;
	int			subxacts;		/* subtransactions not rolled back */
	int			refused;		/* refused rows and events */
	struct AtpSuspects *suspects;	/* refused, perhaps for a reason outside of the row; NULL: not collected */
	int64		skips[ATP_SKIP_COUNT];
	int			nletters;		/* letters of the batch that are not of this transaction's making */
	/* what the transaction has to add to the counts of links (link_count.h) */
	struct AtpLinkCounts *counts;
	int			ncounts;

	/*
	 * Only if several subscriptions fill these tables: revisions for the shared cache, put there after the commit
	 * (rev_cache.h).
	 */
	bool		shared;
	uint32		generation;
	struct AtpRevEntry *rev_entries;
	int			nrev_entries;
	int			max_rev_entries;
} AtpApply;

/* Sequence numbers of the batch's events are those of this stream, but for held events (AtpHeldRow). */
static inline const AtpEndpoint *
atp_apply_endpoint(const AtpApply *a)
{
	return a->from != NULL ? a->from : a->sub->ep;
}

typedef struct AtpSink
{
	int			uses;			/* ATP_USE_... of the sink's tables, without derived tables */

	/* Apply the events [lo, hi) of the batch: all, or an ERROR. */
	void		(*apply) (AtpApply *a, int lo, int hi);

	/* Apply one event in pieces, after the event has failed as a whole.  First: is the event to be applied at all? */
	bool		(*accepts) (AtpApply *a, int event);

	/* Second: apply a row of the event. */
	void		(*apply_row) (AtpApply *a, int row, int event);

	/* Third: apply the event's remaining changes; or NULL. */
	void		(*apply_rest) (AtpApply *a, int event, int unused);

	/* Path of a dead letter about the whole event; NULL: the path is empty. */
	AtpSpan		(*name) (const AtpEvent *event);

	/* Add dead letters for events in [a->lo, a->hi) that the sink's verdicts reject; or NULL. */
	void		(*reject_unsigned) (AtpApply *a);

	/* Write what else follows from the verdicts, once in a transaction; or NULL. */
	void		(*after_apply) (AtpApply *a);

	/*
	 * After the dead letters of events [a->lo, a->hi) were stored: delete the letters superseded by these events; or
	 * NULL.
	 */
	void		(*drop_superseded_letters) (AtpApply *a);

	/*
	 * How an event that is processed again, and a row of the event, compares with the tables (_NEW: the tables have
	 * older data).  Both functions lock the rows they read.  NULL: always _NEW.
	 */
	AtpStanding (*standing) (AtpApply *a, int event);
	AtpStanding (*row_standing) (AtpApply *a, int row);

	/* Remove a bounded part of the rows that events have left to be removed; false: nothing is left.  Or NULL. */
	bool		(*purge) (AtpApply *a);
} AtpSink;

extern const AtpSink atp_repos_sink;
extern const AtpSink atp_labels_sink;
extern const AtpSink atp_message_sink;
extern const AtpSink atp_plc_sink;
extern const AtpSink atp_plc_answer_sink;

#endif							/* ATP_SINK_H */
