/*
 * sink.h
 *		What the events of one kind of stream do to the tables.  Private to
 *		src/tables; source.c names the sinks that there are.
 */
#ifndef ATP_SINK_H
#define ATP_SINK_H

#include "postgres.h"

#include "config/subscription.h"
#include "stream/batch.h"
#include "tables/base/statements.h"

/* Where a message that comes once more stands, or one of its rows, by what is in the tables now. */
typedef enum AtpStanding
{
	ATP_STANDING_NEW,				/* it is newer than all of that */
	ATP_STANDING_LAST,				/* nothing newer is known, but all else of it may be there */
	ATP_STANDING_LATE,				/* newer events were applied */
	ATP_STANDING_OBSOLETE,			/* what is there is as new */
	ATP_STANDING_MISSING,			/* of a row: it is not there */
	ATP_STANDING_INACTIVE,			/* the repository is not active */
	ATP_STANDING_UNJUDGED			/* nobody knows whether it is true: atp_judge_reason() */
} AtpStanding;

/* A batch on its way into the tables. */
typedef struct AtpApply
{
	const AtpSubscription *sub;
	const struct AtpSink *sink;
	AtpBatch   *batch;
	AtpStatements *statements;	/* on the tables of the subscription */
	struct AtpProgress *progress;	/* what else the transaction moves */
	int64		rows;			/* applied */
	int64		idle;			/* of these, deletions of what was not there */
	int64		removed;		/* of these, deletions of what was there */
	bool		heap;			/* rows may go without statements where heap.h allows it */
	bool		accepted;		/* what accepts() said, as a step that can fail */
	bool		again;			/* it comes once more: nothing that is as new is overwritten */
	bool		force;			/* whatever is there is overwritten, also what is newer */
	Oid			awaited;		/* a table that was not to be had: the next attempt waits for it first ... */
	int			vain;			/* ... after so many that were in vain */
	bool		has_sources;	/* those that its links need are there, as far as there is room (link_rows.h) */
	AtpStanding standing;		/* what standing() said, likewise */
	struct varlena *repo;		/* to be marked, likewise */
	/* events of the batch that this transaction is about: [lo, hi) */
	int			lo;
	int			hi;
	int			kept;			/* subtransactions of it that are not rolled back */
	int			refused;		/* rows and events of it that are */
	struct AtpSuspects *suspects;	/* of these, those that failed with an error that may not be theirs; NULL: nobody asks */
	int64		skips[ATP_SKIP_COUNT];

	/* Others fill these tables, too: what is known of repositories when this transaction commits (recent.h). */
	bool		shared;
	uint32		generation;
	struct AtpRecent *recents;
	int			nrecents;
	int			max_recents;
} AtpApply;

typedef struct AtpSink
{
	int			uses;			/* which tables: ATP_USE_...; those that are derived from them are left to the settings */

	/* Apply events [lo, hi) of the batch, all or an ERROR. */
	void		(*apply) (AtpApply *a, int lo, int hi);

	/* One event in pieces, for when it fails as a whole: is it to be applied ... */
	bool		(*accepts) (AtpApply *a, int event);

	/* ... one of its rows ... */
	void		(*apply_row) (AtpApply *a, int row, int event);

	/* ... and what else it changes; NULL: nothing. */
	void		(*apply_rest) (AtpApply *a, int event, int unused);

	/* What a letter about the whole event has as its path; NULL: nothing. */
	AtpSpan		(*name) (const AtpEvent *event);

	/* Add dead letters that follow from verdicts on the events [a->lo, a->hi); or NULL. */
	void		(*condemn) (AtpApply *a);

	/* Write what else follows from these, once in a transaction; or NULL. */
	void		(*conclude) (AtpApply *a);

	/* After the dead letters of events [a->lo, a->hi) were stored: forget those that they overtook; or NULL. */
	void		(*settle) (AtpApply *a);

	/*
	 * Where an event that comes once more stands, and one of its rows (_NEW: what
	 * is there is older).  Both lock what they look at.  NULL: always as if it
	 * came for the first time.
	 */
	AtpStanding (*standing) (AtpApply *a, int event);
	AtpStanding (*row_standing) (AtpApply *a, int row);

	/* Remove a bounded part of what events left to be removed; false when nothing is left.  Or NULL. */
	bool		(*purge) (AtpApply *a);
} AtpSink;

extern const AtpSink atp_repos_sink;
extern const AtpSink atp_labels_sink;
extern const AtpSink atp_message_sink;

#endif							/* ATP_SINK_H */
