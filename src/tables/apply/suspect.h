/*
 * suspect.h
 *		Rows of a batch that failed with an error that may be the schema's, too.
 */
#ifndef ATP_SUSPECT_H
#define ATP_SUSPECT_H

#include "postgres.h"

#include "stream/batch.h"
#include "tables/apply/passed.h"

/*
 * SQLSTATE of the ERROR that rolls a transaction back so that the rows that failed
 * in it are tried again.  No user sees it.
 */
#define ATP_ERRCODE_TRY_AGAIN	MAKE_SQLSTATE('A', 'T', '0', '0', '4')

/* So many repositories, all of whose rows fail, are not the rows' fault. */
#define ATP_SUSPECT_REPOS	5

typedef struct AtpSuspects
{
	AtpBatch   *batch;
	const char *target;			/* schema of the tables */
	int			repos_max;		/* ATP_SUSPECT_REPOS, or as many repositories as there are */
	List	   *rows;			/* that have failed, with how often */
	int			transactions;	/* that were rolled back to try them again */
	/* in the present transaction */
	bool		passed[ATP_PASSED_KINDS];
	ErrorData  *error[ATP_PASSED_KINDS];
	uint32		repos[ATP_PASSED_KINDS][ATP_SUSPECT_REPOS];
	int			nrepos[ATP_PASSED_KINDS];
	bool		again;			/* a row has not failed often enough yet */
	bool		undecided;		/* the error that was raised may still be a row's */
} AtpSuspects;

/* Before each transaction: what the one before has noted about its events is undone. */
extern void atp_suspects_begin(AtpSuspects *s);

/* Others of its kind were written. */
extern void atp_suspects_pass(AtpSuspects *s, AtpPassed kind);

/* This row of the event failed; row -1: what else the event changes. */
extern void atp_suspects_add(AtpSuspects *s, AtpPassed kind, int event, int row, ErrorData *error);

/*
 * Before the commit.  Returns if each of these rows has failed often enough while others
 * passed: then it is to blame.  ERROR otherwise: to try again, or the one that they failed with.
 */
extern void atp_suspects_judge(AtpSuspects *s);

#endif							/* ATP_SUSPECT_H */
