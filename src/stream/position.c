/*
 * position.c
 *		The position in a stream: see position.h.
 */
#include "stream/position.h"

AtpPosition
atp_position_after(int64_t cursor, int64_t rewind)
{
	return (AtpPosition) {.last = cursor, .overlap = cursor > 0, .rewind = rewind};
}

AtpSeqOrder
atp_position_take(AtpPosition *position, int64_t seq, AtpGap *gap)
{
	bool		again = seq == position->last && position->overlap && position->rewind == 0;

	*gap = (AtpGap) {0};
	position->came = seq;
	if (position->rewind > 0 && seq <= position->last)
	{
		/* the state of the event's repository tells whether the event came before */
		position->overlap = position->outdated = false;
		return ATP_SEQ_NEXT;
	}
	/*
	 * Neither an event from the interval before the cursor came, nor one soon after it: the server no longer
	 * has them.  Such a server sends no OutdatedCursor.
	 */
	if (position->rewind > 0 && position->overlap && seq - position->last > position->rewind)
		position->outdated = true;
	if (seq <= position->last && position->again > 0 && seq > position->again)
	{
		position->again = seq;
		return ATP_SEQ_REPEATED;
	}
	if (seq <= position->last && !again)
		return ATP_SEQ_BACK;
	position->overlap = false;
	position->again = 0;
	if (again)
		return ATP_SEQ_REPEATED;
	/* a stream read from its oldest event (0), or without a cursor, has missed no events */
	if (position->outdated && position->last > 0 && !position->is_covered)
		*gap = (AtpGap) {position->last, seq};
	position->outdated = false;
	position->last = seq;
	return ATP_SEQ_NEXT;
}
