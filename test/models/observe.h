/*
 * What joins a model to the log of a test run.
 *
 * Each step of a model that leaves a mark in the database calls OBSERVE(step, a, b, c)
 * as the last statement of its atomic block.  In a search of the model the call does
 * nothing.  With -DTRACE, trace.inc holds the marks of one test run, in the order of their
 * commits; OBSERVE then blocks unless its arguments are the next mark, and all steps without
 * a mark stay free.  So the search looks for a run of the model that leaves exactly
 * the marks of the test run.  TRACE_END is reached by such a run; `run` reports a trace
 * as refused when no run of the model reaches the end, and names the longest prefix.
 */
#ifdef TRACE
c_decl {
\#include "trace.inc"
\#include <stdio.h>
	static int trace_longest = 0;	/* marks that some run of the model has left, at most */
}
int trace_at = 0;		/* marks that this run has left */
#define NUMBER int
#define OBSERVE(step, a, b, c) trace_mark(step, a, b, c)
inline trace_mark(step, a, b, c)
{
	mark_step = step; mark_a = a; mark_b = b; mark_c = c;
	c_expr { now.trace_at < TRACE_LENGTH && trace_is(now.trace_at, now.mark_step, now.mark_a, now.mark_b, now.mark_c) };
	trace_at++;
	c_code {
		if (now.trace_at > trace_longest)
		{
			trace_longest = now.trace_at;
			if (trace_longest == TRACE_LENGTH)
			{
				printf("trace: all %d marks\n", TRACE_LENGTH);
				exit(0);
			}
		}
	};
	mark_step = 0; mark_a = 0; mark_b = 0; mark_c = 0
}
int mark_step; int mark_a; int mark_b; int mark_c;
#else
#define NUMBER byte
#define OBSERVE(step, a, b, c) skip
#endif
