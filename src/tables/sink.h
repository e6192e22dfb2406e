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

/* Where what a dead letter is about stands, by what is in the tables now. */
typedef enum AtpAgain
{
	ATP_AGAIN_NEW,				/* it is newer than all of that */
	ATP_AGAIN_LAST,				/* nothing newer is known, but all else of it may be there */
	ATP_AGAIN_LATE,				/* newer events were applied */
	ATP_AGAIN_OBSOLETE,			/* what is there is as new */
	ATP_AGAIN_MISSING,			/* of a row: it is not there */
	ATP_AGAIN_INACTIVE			/* the repository is not active */
} AtpAgain;

/* A batch on its way into the tables. */
typedef struct AtpApply
{
	const AtpSubscription *sub;
	const struct AtpSink *sink;
	AtpBatch   *batch;
	struct AtpProgress *progress;	/* what else the transaction moves */
	int64		rows;			/* applied */
	int64		idle;			/* of these, deletions of what was not there */
	bool		direct;			/* rows may go without statements where direct.h allows it */
	bool		accepted;		/* what accepts() said, as a step that can fail */
	bool		again;			/* a dead letter: nothing that is as new is overwritten */
	AtpAgain	standing;		/* what again() said, likewise */
	struct varlena *repo;		/* to be marked, likewise */
	/* events of the batch that this transaction is about: [lo, hi) */
	int			lo;
	int			hi;
	int			kept;			/* subtransactions of it that are not rolled back */
	int			refused;		/* rows and events of it that are */
	int64		skips[ATP_SKIP_COUNT];
} AtpApply;

typedef struct AtpSink
{
	int			uses;			/* which tables: ATP_USE_... of statements.h; record_event is left to the settings */

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

	/* After the dead letters of events [a->lo, a->hi) were stored: forget those that they overtook; or NULL. */
	void		(*settle) (AtpApply *a);

	/*
	 * A dead letter's event, and one of its rows (_NEW: what is there is older).
	 * Both lock what they look at.  NULL: always as if it came for the first time.
	 */
	AtpAgain	(*again) (AtpApply *a, int event);
	AtpAgain	(*again_row) (AtpApply *a, int row);

	/* Remove a bounded part of what events left to be removed; false when nothing is left.  Or NULL. */
	bool		(*purge) (const AtpSubscription *sub);
} AtpSink;

extern const AtpSink atp_repos_sink;
extern const AtpSink atp_labels_sink;
extern const AtpSink atp_message_sink;

#endif							/* ATP_SINK_H */
