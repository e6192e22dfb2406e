/*
 * apply_pieces.h
 *		Apply a batch in pieces, to find the rows that the database refuses.
 *
 * apply.c runs the transactions, and decides when a batch is applied in pieces.
 */
#ifndef ATP_APPLY_PIECES_H
#define ATP_APPLY_PIECES_H

#include "config/subscription.h"
#include "tables/apply/suspect.h"
#include "tables/base/sink.h"

/* The number of repositories whose events must fail before the cause is not in their rows. */
#define ATP_REFUSED_REPOS	ATP_SUSPECT_REPOS

/* What earlier batches have taught this process about refused rows. */
typedef struct AtpPieces
{
	int			step;			/* events that are tried at once; 0: no pieces, because no row was refused lately */
	/* number of events with refused rows since the last accepted row */
	int			refused;
	int64		refused_seq;	/* seq of the last event with a refused row */
	uint32		repos[ATP_REFUSED_REPOS];
	int			nrepos;
} AtpPieces;

/* apply.c restores this value after a rollback, because the rolled back events are applied again, and counted then. */
extern AtpPieces atp_pieces;

/* The number of different repositories of the subscription that must fail before the cause is not in their rows. */
extern int	atp_pieces_repos_needed(const AtpSettings *settings);

/*
 * Apply events from a->lo on in the transaction, until it has enough subtransactions to be committed; a->hi is set to the
 * end of these events.  Refused rows become dead letters.
 */
extern void atp_pieces_apply(AtpApply *a);

/* After a transaction that has applied events [a->lo, a->hi) at once: note the kinds of rows written. */
extern void atp_pieces_note_whole(AtpApply *a);

#endif							/* ATP_APPLY_PIECES_H */
