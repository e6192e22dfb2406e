/*
 * test_plc_order.c
 *		The order in which operations can be judged (M-11): each operation after the operation that "prev" names, otherwise by time.
 */
#include "core/plc/plc_order.h"
#include "unit.h"

#define MOST	40

/* Operations by numbers: the CID of operation i has i in each byte. */
typedef struct Given
{
	int			cid;			/* 0: cannot be read */
	int			prev;			/* 0: none */
	int64_t		at;
} Given;

static uint8_t cids[MOST + 1][ATP_CID_BLESSED_LEN];

static uint32_t
put_in_order(const Given *given, uint32_t n, uint32_t *order)
{
	AtpPlcUnordered operations[MOST];
	void	   *memory = malloc(atp_plc_order_room(n));
	uint32_t	found;

	for (int i = 1; i <= MOST; i++)
		memset(cids[i], i, sizeof(cids[i]));
	for (uint32_t i = 0; i < n; i++)
		operations[i] = (AtpPlcUnordered) {
			given[i].cid == 0 ? NULL : cids[given[i].cid], given[i].prev == 0 ? NULL : cids[given[i].prev], given[i].at
		};
	found = atp_plc_order(operations, n, memory, order);
	free(memory);
	return found;
}

static void
is_order(const char *what, const Given *given, uint32_t n, const char *expected)
{
	uint32_t	order[MOST];
	uint32_t	found = put_in_order(given, n, order);
	char		text[MOST * 4] = "";

	for (uint32_t i = 0; i < found; i++)
		sprintf(text + strlen(text), "%s%u", i == 0 ? "" : " ", order[i]);
	ok(strcmp(text, expected) == 0, "M-11: %s: %s", what, text);
}

#define IS(what, expected, ...) is_order(what, (const Given[]) {__VA_ARGS__}, sizeof((const Given[]) {__VA_ARGS__}) / sizeof(Given), expected)

static void
few(void)
{
	uint32_t	order[1];

	ok(put_in_order(NULL, 0, order) == 0, "M-11: nothing");
	IS("in order", "0 1 2", {1, 0, 1}, {2, 1, 2}, {3, 2, 3});
	IS("backwards", "2 1 0", {3, 2, 3}, {2, 1, 2}, {1, 0, 1});
	IS("not by time", "2 1 0", {3, 2, 1}, {2, 1, 2}, {1, 0, 3});
	IS("a recovery comes after what it replaces", "3 2 1 0", {4, 1, 9}, {3, 2, 3}, {2, 1, 2}, {1, 0, 1});
	IS("of equal times, the first", "0 1 2", {1, 0, 5}, {2, 1, 5}, {3, 1, 5});
	IS("a repetition", "0 2", {1, 0, 1}, {1, 0, 7}, {2, 1, 2});
	IS("what cannot be read comes last", "1 2 0 3", {0, 0, 1}, {1, 0, 2}, {2, 1, 3}, {0, 0, 0});
	IS("the one before is unknown", "1 0", {3, 2, 4}, {1, 0, 1});
	IS("a circle ends", "2 1 0", {1, 3, 1}, {3, 2, 2}, {2, 1, 3});
}

/* Shuffled logs: each operation is in the order once, behind the operation that "prev" names. */
static void
many(void)
{
	uint64_t	state = 42;
	int			wrong = 0;

	for (int round = 0; round < 20000; round++)
	{
		Given		given[MOST];
		uint32_t	order[MOST];
		uint32_t	place[MOST + 1] = {0};
		uint32_t	n = 1 + (uint32_t) (state >> 33) % MOST;
		uint32_t	found;

		for (uint32_t i = 0; i < n; i++)
		{
			state = state * 6364136223846793005u + 1442695040888963407u;
			given[i].cid = (int) i + 1;
			given[i].prev = i == 0 ? 0 : 1 + (int) ((state >> 33) % i);
			given[i].at = (int64_t) ((state >> 20) % 7);
		}
		for (uint32_t i = n - 1; i > 0; i--)
		{
			uint32_t	k;
			Given		other = given[i];

			state = state * 6364136223846793005u + 1442695040888963407u;
			k = (uint32_t) (state >> 33) % (i + 1);
			given[i] = given[k];
			given[k] = other;
		}
		found = put_in_order(given, n, order);
		for (uint32_t i = 0; i < found; i++)
			place[given[order[i]].cid] = i + 1;
		wrong += found != n;
		for (uint32_t i = 0; i < n; i++)
			wrong += place[given[i].cid] == 0 || place[given[i].prev] >= place[given[i].cid];
	}
	ok(wrong == 0, "M-11: 20,000 shuffled logs: %d out of order", wrong);
}

int
main(void)
{
	few();
	many();
	return done_testing();
}
