/*
 * position.c
 *		Where a stream is: which sequence number may come, and what was missed.
 */
#include "stream/position.h"

AtpPosition
atp_position_after(int64_t cursor, int64_t rewind)
{
	return (AtpPosition) {.last = cursor, .overlap = cursor > 0, .rewind = rewind};
}

AtpPlace
atp_position_take(AtpPosition *position, int64_t seq, AtpGap *gap)
{
	bool		again = seq == position->last && position->overlap && position->rewind == 0;

	*gap = (AtpGap) {0};
	position->came = seq;
	if (position->rewind > 0 && seq <= position->last)
	{
		/* whether it came before, the state of its repository tells */
		position->overlap = position->outdated = false;
		return ATP_PLACE_NEXT;
	}
	/* nothing from before the cursor, nor from soon after it: such a server says no word */
	if (position->rewind > 0 && position->overlap && seq - position->last > position->rewind)
		position->outdated = true;
	if (seq <= position->last && !again)
		return ATP_PLACE_BACK;
	position->overlap = false;
	if (again)
		return ATP_PLACE_REPEATED;
	/* from the oldest (0) or from nowhere, nothing was missed */
	if (position->outdated && position->last > 0)
		*gap = (AtpGap) {position->last, seq};
	position->outdated = false;
	position->last = seq;
	return ATP_PLACE_NEXT;
}
