/*
 * suspect.h
 *		Rows that failed with an error whose cause may be the row or the schema.
 *
 * suspect.c explains the method.  These functions only decide; apply_pieces.c applies the rows and writes the letters.
 */
#ifndef ATP_SUSPECT_H
#define ATP_SUSPECT_H

#include "postgres.h"

#include "stream/batch.h"
#include "tables/apply/passed.h"
#include "tables/base/error_class.h"

/* If all rows of this many repositories fail, the cause is the schema and not the rows. */
#define ATP_SUSPECT_REPOS	5

typedef struct AtpSuspects
{
	AtpBatch   *batch;
	const char *target;			/* schema of the tables */
	int			repos_max;		/* ATP_SUSPECT_REPOS, or fewer if the subscription follows fewer repositories */
	List	   *rows;			/* failed rows (of Suspect), with the number of failures */
	int			transactions;	/* number of transactions rolled back to try failed rows again */
	/* about the present transaction, for each kind of row */
	bool		passed[ATP_PASSED_KINDS];
	ErrorData  *error[ATP_PASSED_KINDS];
	uint32		repos[ATP_PASSED_KINDS][ATP_SUSPECT_REPOS];
	int			nrepos[ATP_PASSED_KINDS];
	bool		again;			/* a row has not failed in enough transactions yet */
	bool		undecided;		/* the cause of the raised error may still be a row */
} AtpSuspects;

/* Before each transaction: undo the changes that the previous, rolled back transaction has made to its failed events. */
extern void atp_suspects_begin(AtpSuspects *s);

/* Note that the transaction has written rows of this kind. */
extern void atp_suspects_pass(AtpSuspects *s, AtpPassed kind);

/* Note that a row of the event failed; row -1: the event's changes other than rows. */
extern void atp_suspects_add(AtpSuspects *s, AtpPassed kind, int event, int row, ErrorData *error);

/*
 * Before the commit: returns if each failed row is to blame, which means that the row has failed in enough transactions
 * while rows of the same kind were written.  Otherwise raises an ERROR: ATP_ERRCODE_TRY_AGAIN, or the rows' error.
 */
extern void atp_suspects_judge(AtpSuspects *s);

#endif							/* ATP_SUSPECT_H */
