/*
 * One subscription.
 *
 * short: -DEVENTS=3
 * long: -DEVENTS=5
 *
 * step commit: tables/apply/apply.c atp_apply()
 *
 * guard cursor_was: the batch commits only if the cursor is where the batch began
 */
#include "observe.h"
NUMBER cursor = 0;
bool stored[EVENTS];
active [2] proctype consumer()
{
	NUMBER at;
	do
	:: atomic { cursor < EVENTS -> at = cursor }
	   atomic {
		if
#ifndef WITHOUT_cursor_was
		:: cursor != at
#endif
		:: else ->
			assert(!stored[at]); stored[at] = true; cursor = at + 1;
			OBSERVE(1, at, at + 1, 0)
		fi
	   }
	:: cursor == EVENTS -> break
	od
}
