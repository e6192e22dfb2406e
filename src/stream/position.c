/*
 * position.c
 *		Where a stream is: which sequence number may come, and what was missed.
 */
#include "stream/position.h"

AtpPosition
atp_position_after(int64_t cursor)
{
	return (AtpPosition) {.last = cursor, .overlap = cursor > 0};
}

AtpPlace
atp_position_take(AtpPosition *position, int64_t seq, AtpGap *gap)
{
	bool		again = seq == position->last && position->overlap;

	*gap = (AtpGap) {0};
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
