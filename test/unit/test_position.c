/*
 * test_position.c
 *		Which sequence numbers a stream may bring (E-41, D13), and which events the consumer missed when its
 *		cursor was outdated (E-43, E-44).
 */
#include "stream/position.h"
#include "unit.h"

static AtpPosition at;
static AtpGap gap;

static bool
comes(int64_t seq, AtpSeqOrder place, int64_t last)
{
	return atp_position_take(&at, seq, &gap) == place && at.last == last;
}

static bool
missed(int64_t after, int64_t before)
{
	return gap.after == after && gap.before == before;
}

static void
test_order(void)
{
	at = atp_position_after(-1, 0);
	ok(comes(7, ATP_SEQ_NEXT, 7) && missed(0, 0), "E-43: without a cursor the stream begins anywhere, and nothing is missed");
	ok(comes(8, ATP_SEQ_NEXT, 8) && comes(20, ATP_SEQ_NEXT, 20) && missed(0, 0), "E-41: holes are normal");
	ok(comes(20, ATP_SEQ_BACK, 20), "E-41: the same again");
	ok(comes(19, ATP_SEQ_BACK, 20), "E-41: a step back");
	ok(comes(21, ATP_SEQ_NEXT, 21), "what is refused moves nothing");
}

static void
test_overlap(void)
{
	at = atp_position_after(5, 0);
	ok(comes(5, ATP_SEQ_REPEATED, 5), "D13: the event of the cursor once more");
	ok(comes(5, ATP_SEQ_BACK, 5), "D13: only once");
	ok(comes(6, ATP_SEQ_NEXT, 6), "and what follows it");
	at = atp_position_after(5, 0);
	ok(comes(6, ATP_SEQ_NEXT, 6) && comes(6, ATP_SEQ_BACK, 6), "D13: only the cursor's, not the first event");
	at = atp_position_after(5, 0);
	ok(comes(4, ATP_SEQ_BACK, 5), "E-41: before the cursor");
	at = atp_position_after(0, 0);
	ok(comes(1, ATP_SEQ_NEXT, 1), "from the oldest");
	ok(!atp_position_after(0, 0).overlap && !atp_position_after(-1, 0).overlap, "D13: there is no event 0");
}

/* M-12: a page asked for ahead begins with numbers of the page before. */
static void
test_again(void)
{
	at = (AtpPosition) {.last = 9, .again = 5};
	ok(comes(6, ATP_SEQ_REPEATED, 9) && comes(9, ATP_SEQ_REPEATED, 9) && comes(10, ATP_SEQ_NEXT, 10), "M-12: numbers of the page before come again");
	ok(comes(10, ATP_SEQ_BACK, 10) && comes(8, ATP_SEQ_BACK, 10), "M-12: once");
	at = (AtpPosition) {.last = 9, .again = 5};
	ok(comes(5, ATP_SEQ_BACK, 9), "M-12: not the number behind which the page begins");
	ok(comes(7, ATP_SEQ_REPEATED, 9) && comes(7, ATP_SEQ_BACK, 9) && comes(6, ATP_SEQ_BACK, 9) && comes(8, ATP_SEQ_REPEATED, 9), "M-12: in their order");
}

static void
test_gap(void)
{
	at = atp_position_after(5, 0);
	at.outdated = true;
	ok(comes(9, ATP_SEQ_NEXT, 9) && missed(5, 9), "E-44: what an outdated cursor missed");
	ok(comes(12, ATP_SEQ_NEXT, 12) && missed(0, 0), "E-44: once");
	at = atp_position_after(5, 0);
	at.outdated = true;
	ok(comes(5, ATP_SEQ_REPEATED, 5) && missed(0, 0) && comes(9, ATP_SEQ_NEXT, 9) && missed(5, 9),
	   "E-44: not before the event of the cursor");
	at = atp_position_after(0, 0);
	at.outdated = true;
	ok(comes(9, ATP_SEQ_NEXT, 9) && missed(0, 0), "E-44: from the oldest nothing is missed");
	at = atp_position_after(-1, 0);
	at.outdated = true;
	ok(comes(9, ATP_SEQ_NEXT, 9) && missed(0, 0), "E-44: nor from nowhere");
}

static void
test_times(void)
{
	at = atp_position_after(1000, 100);
	ok(comes(950, ATP_SEQ_NEXT, 1000) && comes(950, ATP_SEQ_NEXT, 1000) && comes(1000, ATP_SEQ_NEXT, 1000) &&
	   comes(1000, ATP_SEQ_NEXT, 1000) && comes(1005, ATP_SEQ_NEXT, 1005) && comes(1004, ATP_SEQ_NEXT, 1005),
	   "times: ties, steps back, and what came before; the highest stays");
	ok(comes(5000, ATP_SEQ_NEXT, 5000) && missed(0, 0), "times: a pause is no gap");
	at = atp_position_after(1000, 100);
	ok(comes(950, ATP_SEQ_NEXT, 1000) && comes(5000, ATP_SEQ_NEXT, 5000) && missed(0, 0), "times: nor is one after what came before");
	at = atp_position_after(1000, 100);
	ok(comes(1101, ATP_SEQ_NEXT, 1101) && missed(1000, 1101), "times: nothing from before the cursor or soon after it is a gap");
	ok(comes(1102, ATP_SEQ_NEXT, 1102) && missed(0, 0), "times: one");
	at = atp_position_after(1000, 100);
	ok(comes(1100, ATP_SEQ_NEXT, 1100) && missed(0, 0) && comes(9000, ATP_SEQ_NEXT, 9000) && missed(0, 0), "times: soon after it is none");
	at = atp_position_after(0, 100);
	ok(comes(5000, ATP_SEQ_NEXT, 5000) && missed(0, 0) && comes(5000, ATP_SEQ_NEXT, 5000), "times: from the oldest nothing is missed");
	at = atp_position_after(-1, 100);
	ok(comes(5000, ATP_SEQ_NEXT, 5000) && missed(0, 0) && comes(4000, ATP_SEQ_NEXT, 5000), "times: nor from nowhere");
}

int
main(void)
{
	test_order();
	test_overlap();
	test_again();
	test_gap();
	test_times();
	return done_testing();
}
