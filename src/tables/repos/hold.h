/*
 * hold.h
 *		Why the events of a repository wait: the column hold of the table repo, as a state machine.
 *
 * The words of the column stand in this file only, for C and for SQL.  hold.c has the table of the allowed ways and a
 * function for each of them, which asserts that the table allows the way.  A few ways are taken by an SQL statement for
 * many repositories; their rules stand here as texts, beside the functions with the same rule.
 *
 * from                     to             when
 * -----------------------  -------------  ------------------------------------------------------------------------
 * none                     identity       an event waits for a key or a signature, or behind an event that does
 * none                     gap            an event waits for a missing commit that a second source may bring
 * identity                 gap            the first held event waits for a missing commit now
 * gap                      identity       the first held event waits for a key or a signature now
 * release                  identity, gap  the events were judged again, and the first one waits on
 * none, resync             resync         a fetch of the repository begins
 * identity, gap, release   resync         the same, when the fetching subscription may take none of the held events
 * resync                   release        the export is stored or given up, and events are held
 * resync                   none           the export is stored or given up, and no events are held
 * identity, gap, release   none           the last held event has gone, or the account was deleted
 *
 * On the way from gap to none without a verdict on the last held event, the repository becomes desynchronized: the
 * events after the missing commit were removed unjudged, and no source sends them again.
 */
#ifndef ATP_HOLD_H
#define ATP_HOLD_H

#include "stream/batch.h"
#include "tables/repos/held.h"

typedef enum AtpHold
{
	ATP_HOLD_NONE,				/* NULL: no event waits */
	ATP_HOLD_IDENTITY,			/* the first held event waits for a key or a signature */
	ATP_HOLD_GAP,				/* the first held event waits for a missing commit */
	ATP_HOLD_RESYNC,			/* the repository is being fetched */
	ATP_HOLD_RELEASE,			/* the held events are about to be judged again */
	ATP_HOLD_UNKNOWN,			/* a user has written a different word: any way leads out */
	ATP_HOLD_COUNT
} AtpHold;

/* The words, and the words as constants of SQL. */
#define ATP_WORD_IDENTITY	"identity"
#define ATP_WORD_GAP		"gap"
#define ATP_WORD_RESYNC		"resync"
#define ATP_WORD_RELEASE	"release"

#define ATP_SQL_IDENTITY	"'" ATP_WORD_IDENTITY "'"
#define ATP_SQL_GAP			"'" ATP_WORD_GAP "'"
#define ATP_SQL_RESYNC		"'" ATP_WORD_RESYNC "'"
#define ATP_SQL_RELEASE		"'" ATP_WORD_RELEASE "'"

/* SQL: the list of all words. */
#define ATP_SQL_HOLDS		"(" ATP_SQL_IDENTITY ", " ATP_SQL_GAP ", " ATP_SQL_RESYNC ", " ATP_SQL_RELEASE ")"

/* SQL: does the wait end when the last held event has gone?  Not during a fetch. */
#define ATP_SQL_ENDS		"hold IN (" ATP_SQL_IDENTITY ", " ATP_SQL_GAP ", " ATP_SQL_RELEASE ")"

/* SQL, in the SET of an update of rows with ATP_SQL_ENDS: the last held event was removed unjudged (atp_hold_update()). */
#define ATP_SQL_END \
	"hold = NULL, sync = CASE WHEN hold = " ATP_SQL_GAP " THEN 'desynchronized' ELSE sync END"

/* SQL, in the SET of an update: the account was deleted (atp_hold_erase()). */
#define ATP_SQL_ERASE		"hold = CASE WHEN hold = " ATP_SQL_RESYNC " THEN hold END"

/*
 * SQL: do the tables lack the held events if these events are dropped?  Without a stored commit the events may be
 * forged, unless the repository is being fetched, or a verified event waits for a missing commit.
 */
#define ATP_SQL_LOSES		"(hold IN (" ATP_SQL_RESYNC ", " ATP_SQL_GAP ") OR rev IS NOT NULL)"

/* Why the events of a repository wait, and what this transaction knows of the held events. */
typedef struct AtpRepoHold
{
	text	   *word;			/* the column hold */
	AtpHold		state;			/* the meaning of word */

	/* The held events; counted only if the column was set when the row was read. */
	int64		nheld;			/* held events that this subscription may take, and behind which its own events wait (held_by.h) */
	int64		nown;			/* of nheld, the events received by this subscription itself */
	int64		nothers;		/* held events that this subscription may not take: of a higher level, or of a foreign role */
	int64		nunread;		/* of nheld, the events that are not in the current release batch: some may precede the batch's events */
	int64		nbeyond;		/* of nheld, the events for which a full release batch had no room: all follow the batch's events */
	uint64		first_rev;		/* revision of the first held event */
	bool		any_gap;		/* at least one held event waits for a missing commit */

	/* Set while the events of the batch are judged. */
	AtpHeldOrder order;			/* of the batch's events and the stream's events behind the held events */
	bool		waits;			/* events are held, so events from the stream wait, too */
	bool		gap;			/* the first held event waits for a missing commit, so exactly that commit must not wait */
	bool		adds;			/* this transaction adds held events */
	bool		judged;			/* the release batch has a held event of the repository that could be decoded, so a verdict on it */
} AtpRepoHold;

/* The row was read: set state by word. */
extern void atp_hold_read(AtpRepoHold *h);

/* The held events were counted. */
extern void atp_hold_count(AtpRepoHold *h, const AtpHeldCount *count);

/*
 * An event of the release batch is one of the repository's held events.  judged: this transaction has judged the event
 * already.
 */
extern void atp_hold_follow(AtpRepoHold *h, const AtpEvent *event, bool judged);

/* A full batch of held events ends with this repository: held events that found no room follow the batch's events. */
extern void atp_hold_note_beyond(AtpRepoHold *h);

/* All events of the release batch were seen.  During a fetch all of them wait on. */
extern void atp_hold_followed(AtpRepoHold *h);

/* Must the event wait behind held events of the repository?  rev: the repository's revision. */
extern bool atp_hold_stops(const AtpRepoHold *h, const AtpEvent *event, uint64 rev);

/* An event of the repository was judged as held: note the effect on the events that follow. */
extern void atp_hold_note_held(AtpRepoHold *h, const AtpEvent *event);

/* Does a held event of the batch leave atproto.held_event in this transaction? */
extern bool atp_hold_is_gone(const AtpEvent *event);

/* An event of the release batch was judged.  True: queue the repository's other held events for release. */
extern bool atp_hold_take_verdict(AtpRepoHold *h, const AtpEvent *event);

/*
 * All events were judged: go to identity or gap if events wait, to none if the last held event has gone.  True: the state
 * has changed.  *lost: the repository becomes desynchronized.
 */
extern bool atp_hold_update(AtpRepoHold *h, bool *lost);

/* Does this transaction add, remove or keep held events of the repository?  Then it writes the repository's row. */
extern bool atp_hold_is_touched(const AtpRepoHold *h);

/*
 * F-15: the account is deleted, so its held events go, too (atp_held_erase()).  Events of nothers, which this
 * subscription may not take, stay, and so does the state.  During a fetch the state stays, because only the fetcher, or
 * a consumer that finds no running job (atp_resync_end_abandoned()), ends the fetch.
 */
extern void atp_hold_erase(AtpRepoHold *h);

/* A fetch of the repository begins: its events wait from now on. */
extern void atp_hold_fetch(AtpRepoHold *h);

/* The fetch of the repository has ended: release the held events if there are any.  False: no fetch had begun. */
extern bool atp_hold_fetched(AtpRepoHold *h);

#endif							/* ATP_HOLD_H */
