/*
 * suspect.c
 *		Rows of a batch that failed with an error that may be the schema's, too.
 *
 * A stranger's value can make a user's trigger fail with nearly every SQLSTATE (a
 * cast to a type of that name, a call of a function, an EXECUTE).  Such a row is to
 * blame if it fails in three transactions, while other rows of the same kind are
 * written: in each of these transactions or, if the batch has no other, by this
 * process before (passed.h).
 *
 * If no row of that kind was written, and those that failed are of several
 * repositories, the error is what its class says.  If they are of one or two, nobody
 * can tell yet: the process ends, and tries again with what has come meanwhile.
 */
#include "postgres.h"

#include "tables/apply/suspect.h"

/* A row is to blame that has failed in so many transactions. */
#define TRIES	3

/* Rows that fail now and then, others each time, end the process: so many transactions are rolled back. */
#define TRANSACTIONS_MAX	10

typedef struct Suspect
{
	int			event;
	int			row;
	int			tries;
	/* of the event, before it failed */
	bool		lacking;
	AtpJudged	judged;
} Suspect;

void
atp_suspects_begin(AtpSuspects *s)
{
	/* backwards: the first of an event's rows knows how it was before */
	for (int i = list_length(s->rows) - 1; i >= 0; i--)
	{
		const Suspect *suspect = list_nth(s->rows, i);

		s->batch->events[suspect->event].lacking = suspect->lacking;
		s->batch->events[suspect->event].judged = suspect->judged;
	}
	memset(s->passed, 0, sizeof(s->passed));
	memset(s->error, 0, sizeof(s->error));
	memset(s->nrepos, 0, sizeof(s->nrepos));
	s->again = s->undecided = false;
}

void
atp_suspects_pass(AtpSuspects *s, AtpPassed kind)
{
	s->passed[kind] = true;
	atp_passed_note(s->target, kind);
}

static Suspect *
find_suspect(AtpSuspects *s, int event, int row)
{
	MemoryContext old;
	Suspect    *suspect;
	ListCell   *lc;

	foreach(lc, s->rows)
	{
		suspect = lfirst(lc);
		if (suspect->event == event && suspect->row == row)
			return suspect;
	}
	old = MemoryContextSwitchTo(s->batch->cxt);
	suspect = palloc(sizeof(Suspect));
	*suspect = (Suspect) {event, row, 0, s->batch->events[event].lacking, s->batch->events[event].judged};
	s->rows = lappend(s->rows, suspect);
	MemoryContextSwitchTo(old);
	return suspect;
}

static void
count_repo(AtpSuspects *s, AtpPassed kind, uint32 repo)
{
	int			i = 0;

	/* streams without repositories have key 0: each of their events counts */
	while (i < s->nrepos[kind] && (s->repos[kind][i] != repo || repo == 0))
		i++;
	if (i == s->nrepos[kind] && i < ATP_SUSPECT_REPOS)
		s->repos[kind][s->nrepos[kind]++] = repo;
}

void
atp_suspects_add(AtpSuspects *s, AtpPassed kind, int event, int row, ErrorData *error)
{
	Suspect    *suspect = find_suspect(s, event, row);

	if (++suspect->tries < TRIES)
		s->again = true;
	if (s->error[kind] == NULL)
		s->error[kind] = error;
	count_repo(s, kind, s->batch->events[event].key);
}

void
atp_suspects_judge(AtpSuspects *s)
{
	ErrorData  *error = NULL;

	for (int kind = 0; kind < ATP_PASSED_KINDS; kind++)
	{
		if (s->error[kind] == NULL)
			continue;
		error = s->error[kind];
		if (s->passed[kind] || atp_has_passed(s->target, kind))
			continue;
		s->undecided = s->nrepos[kind] < s->repos_max;
		ReThrowError(error);
	}
	if (!s->again)
		return;
	if (++s->transactions > TRANSACTIONS_MAX)
	{
		s->undecided = true;
		ReThrowError(error);
	}
	ereport(ERROR,
			(errcode(ATP_ERRCODE_TRY_AGAIN), errmsg("rows that failed are tried again")));
}
