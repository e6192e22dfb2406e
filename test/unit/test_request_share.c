/*
 * test_request_share.c
 *		How the kinds of requests of the fetcher share the concurrent requests: no kind starves.
 */
#include "fetch/engine/request_share.h"
#include "unit.h"

#define KINDS	8
#define SECOND	INT64_C(1000000)

typedef struct Fetcher
{
	AtpShare	shares[KINDS];
	int			concurrency;
	int			running;
	int64_t		now;
} Fetcher;

/* Like fetch.c with host.c: the share, and the limit of all requests. */
static bool
start(Fetcher *f, int kind)
{
	if (!atp_share_ask(f->shares, KINDS, f->concurrency, kind, f->now) || f->running >= f->concurrency)
		return false;
	f->shares[kind].running++;
	f->running++;
	return true;
}

static void
end(Fetcher *f, int kind)
{
	f->shares[kind].running--;
	f->running--;
}

/* Kinds from ... to before "to" start all that they may, and none of their requests ever ends. */
static void
start_all(Fetcher *f, int from, int to)
{
	for (bool more = true; more;)
	{
		more = false;
		for (int kind = from; kind < to; kind++)
			more |= start(f, kind);
	}
}

/* Whatever all the others have running for ever, a kind has its reserve. */
static void
check_reserves(int concurrency)
{
	int			reserve = atp_share_reserve(concurrency, KINDS);
	bool		all = true;

	for (int last = 0; last < KINDS; last++)
	{
		Fetcher		f = {.concurrency = concurrency};
		int			n = 0;

		start_all(&f, 0, last);
		start_all(&f, last + 1, KINDS);
		all &= concurrency < 2 * KINDS || atp_share_free(f.shares, KINDS, concurrency, last) == reserve;
		while (n < reserve && start(&f, last))
			n++;
		all &= n == reserve;
		all &= concurrency < 2 * KINDS || atp_share_free(f.shares, KINDS, concurrency, last) == 0;
	}
	ok(all, "every kind has its reserve beside seven greedy kinds, and knows how many places are free");
}

static void
test_reserves(void)
{
	static const int settings[] = {16, 17, 31, 32, 33, 64, 100, 256};

	for (int i = 0; i < (int) (sizeof(settings) / sizeof(*settings)); i++)
		check_reserves(settings[i]);
	ok(atp_share_reserve(32, KINDS) == 2 && atp_share_reserve(256, KINDS) == 16, "a reserve is a sixteenth with eight kinds");
	ok(atp_share_reserve(1, KINDS) == 1, "a reserve is one request at least");
}

static void
test_alone(void)
{
	Fetcher		f = {.concurrency = 32};

	start_all(&f, 3, 4);
	ok(f.running == 18, "a kind alone has its reserve and half of all");
	f = (Fetcher) {.concurrency = 8};
	start_all(&f, 3, 4);
	ok(f.running == 5, "with few requests, too");
	f = (Fetcher) {.concurrency = 1};
	start_all(&f, 3, 4);
	ok(f.running == 1, "and with a single one");
}

/*
 * All kinds always have work, in the order of the fetcher's rounds; the kinds' requests end in turn.  Returns how many
 * requests the kind with the least has started after this many have ended.
 */
static int
least_started(int concurrency, int ends)
{
	Fetcher		f = {.concurrency = concurrency, .now = SECOND};
	int			started[KINDS] = {0};
	int			least = ends;

	for (int i = 0; i < ends; i++)
	{
		for (int kind = 0; kind < KINDS; kind++)
			while (start(&f, kind))
				started[kind]++;
		f.now += SECOND / 10;
		for (int kind = i % KINDS, tries = 0; tries < KINDS; kind = (kind + 1) % KINDS, tries++)
			if (f.shares[kind].running > 0)
			{
				end(&f, kind);
				break;
			}
	}
	for (int kind = 0; kind < KINDS; kind++)
		least = started[kind] < least ? started[kind] : least;
	return least;
}

static void
test_queue(void)
{
	Fetcher		f = {.concurrency = 1, .now = SECOND};

	ok(start(&f, 0), "the only request runs");
	ok(!start(&f, 5) && !start(&f, 2), "others wait");
	end(&f, 0);
	ok(!start(&f, 0) && !start(&f, 2), "who waits longest is next");
	ok(start(&f, 5), "before who comes first in a round");
	end(&f, 5);
	ok(!start(&f, 0) && start(&f, 2), "then who came after");
	end(&f, 2);
	ok(start(&f, 0), "then who was refused for the sake of these");

	f = (Fetcher) {.concurrency = 1, .now = SECOND};
	(void) start(&f, 0);
	ok(!start(&f, 5), "a kind waits");
	end(&f, 0);
	f.now += 29 * SECOND;
	ok(!start(&f, 0), "its turn is kept for a while");
	f.now += 2 * SECOND;
	ok(start(&f, 0), "but not for ever: its work may be gone");

	for (int concurrency = 1; concurrency < 16; concurrency++)
		ok(least_started(concurrency, 1000) >= 1000 / KINDS / 4, "no kind starves with few requests");
}

int
main(void)
{
	test_reserves();
	test_alone();
	test_queue();
	return done_testing();
}
