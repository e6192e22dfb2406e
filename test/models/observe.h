/*
 * What joins a model to the log of a test run.
 *
 * Each step of a model that leaves a mark in the database calls OBSERVE(step, a, b, c) as the last statement of its
 * atomic block.  In a search of the model the call does nothing.  With -DTRACE, the file `marks` holds the marks of one
 * object in one test run, in the order of their commits, four numbers a line.  OBSERVE compares its arguments with the
 * next mark.  If they differ, the claim `trace_goes_on` ends this run: a step that blocked here would let other
 * processes see half of it.  Steps without a mark stay free.  So the search looks for a run of the model that leaves
 * exactly the marks of the test run.
 *
 * PEEK copies the next mark into next_step, next_a, next_b and next_c, for an environment that does what the test's
 * server did; next_step is 0 after the last mark.  Use the values in the same atomic block.
 */
#ifdef TRACE
c_decl {
\#include <stdio.h>
\#include <stdlib.h>
	static int (*marks)[4];
	static int marks_length, marks_longest;

	static void marks_end(void)
	{
		printf("trace: %d of %d marks\n", marks_longest, marks_length);
	}

	static int *marks_at(int at)
	{
		static int none[4];
		if (marks == NULL)
		{
			FILE *f = fopen("marks", "r");
			int m[4];
			marks = malloc(sizeof(*marks));
			while (f != NULL && fscanf(f, "%d %d %d %d", &m[0], &m[1], &m[2], &m[3]) == 4)
			{
				marks = realloc(marks, (marks_length + 1) * sizeof(*marks));
				memcpy(marks[marks_length++], m, sizeof(m));
			}
			if (f == NULL || marks_length == 0)
				abort();
			atexit(marks_end);
		}
		return at < 0 || at >= marks_length ? none : marks[at];
	}

	static int mark_fits(int at, int step, int a, int b, int c)
	{
		const int *m = marks_at(at);
		if (step == 0 || m[0] != step || m[1] != a || m[2] != b || m[3] != c)
			return 0;
		if (at + 1 > marks_longest)
			marks_longest = at + 1;
		if (marks_longest == marks_length)
			exit(0);
		return 1;
	}
}
int trace_at = 0;		/* marks that this run has left; -1: a step left another mark than the trace */
hidden int mark_step; hidden int mark_a; hidden int mark_b; hidden int mark_c;
int next_step; int next_a; int next_b; int next_c;
#define NUMBER int
#define OBSERVE(step, a, b, c) trace_mark(step, a, b, c)
inline trace_mark(step, a, b, c)
{
	mark_step = step; mark_a = a; mark_b = b; mark_c = c;
	next_step = 0; next_a = 0; next_b = 0; next_c = 0;
	c_code { now.trace_at = mark_fits(now.trace_at, mark_step, mark_a, mark_b, mark_c) ? now.trace_at + 1 : -1; }
}
#define PEEK c_code { const int *m = marks_at(now.trace_at); now.next_step = m[0]; now.next_a = m[1]; now.next_b = m[2]; now.next_c = m[3]; }
never trace_goes_on
{
	do
	:: trace_at >= 0
	od
}
#else
#define NUMBER byte
#define OBSERVE(step, a, b, c) skip
#define PEEK skip
#endif
