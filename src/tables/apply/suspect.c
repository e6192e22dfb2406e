/*
 * suspect.c
 *		Rows that failed with an error whose cause may be the row or the schema.
 *
 * A value from the network can make a user's trigger fail with nearly every SQLSTATE: by a cast to a type of that
 * name, a call of a function, an EXECUTE.  A row is to blame if the row fails in three transactions while rows of
 * the same kind are written.  These rows may be of the same transactions or, if the batch has no such rows, written
 * earlier by this process (passed.h).
 *
 * If no row of the kind was written, and the failed rows are of several repositories, the error's class decides
 * (error_class.h).  With fewer repositories the cause is undecided: the process ends, and the restarted process
 * tries again with the events that have come meanwhile.
 */
#include "postgres.h"

#include "tables/apply/suspect.h"

/* The number of transactions in which a row has to fail before the row is to blame. */
#define TRIES	3

/* The number of rolled back transactions after which the process ends: each transaction may have different failing rows. */
#define TRANSACTIONS_MAX	10

typedef struct Suspect
{
	int			event;
	int			row;
	int			tries;
	/* values of the event before the row failed */
	bool		lacking;
	AtpJudged	judged;
} Suspect;

void
atp_suspects_begin(AtpSuspects *s)
{
	/* backwards, because the entry of an event's first failed row has the event's original values */
	for (int i = list_length(s->rows) - 1; i >= 0; i--)
	{
		const Suspect *suspect = list_nth(s->rows, i);

		s->batch->events[suspect->event].lacking = suspect->lacking;
		s->batch->events[suspect->event].verdict.judged = suspect->judged;
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
	*suspect = (Suspect) {event, row, 0, s->batch->events[event].lacking, s->batch->events[event].verdict.judged};
	s->rows = lappend(s->rows, suspect);
	MemoryContextSwitchTo(old);
	return suspect;
}

static void
count_repo(AtpSuspects *s, AtpPassed kind, uint32 repo)
{
	int			i = 0;

	/* events of streams without repositories have key 0, and each counts as a repository */
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
