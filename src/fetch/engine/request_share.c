/*
 * request_share.c
 *		How the kinds of requests of the fetcher share atproto.fetch_concurrency.
 */
#include "fetch/engine/request_share.h"

/*
 * A kind leaves the queue when it has not asked for this long: its work may be gone.  Longer than
 * the time between two looks of any task.
 */
#define QUEUED_US	INT64_C(30000000)

static int
at_least_0(int n)
{
	return n > 0 ? n : 0;
}

int
atp_share_reserve(int concurrency, int n)
{
	int			reserve = concurrency / (2 * n);

	return reserve > 0 ? reserve : 1;
}

int
atp_share_free(const AtpShare *shares, int n, int concurrency, int kind)
{
	int			reserve = atp_share_reserve(concurrency, n);
	int			reserved = reserve * n < concurrency / 2 ? reserve * n : concurrency / 2;
	int			shared = 0;

	for (int i = 0; i < n; i++)
		shared += at_least_0(shares[i].running - reserve);
	return at_least_0(reserve - shares[kind].running) + at_least_0(concurrency - reserved - shared);
}

bool
atp_share_has_place(const AtpShare *shares, int n, int concurrency, int kind)
{
	return atp_share_free(shares, n, concurrency, kind) > 0;
}

static bool
is_queued(const AtpShare *share, int64_t now)
{
	return share->ticket != 0 && now - share->asked < QUEUED_US;
}

static int64_t
next_ticket(const AtpShare *shares, int n)
{
	int64_t		last = 0;

	for (int i = 0; i < n; i++)
		last = shares[i].ticket > last ? shares[i].ticket : last;
	return last + 1;
}

/* Kinds in the queue that come before this kind: if this kind is not in the queue, all of them. */
static int
count_before(const AtpShare *shares, int n, int kind, int64_t now)
{
	int			before = 0;

	for (int i = 0; i < n; i++)
		before += i != kind && is_queued(&shares[i], now) &&
			!(is_queued(&shares[kind], now) && shares[kind].ticket < shares[i].ticket);
	return before;
}

bool
atp_share_ask(AtpShare *shares, int n, int concurrency, int kind, int64_t now)
{
	AtpShare   *share = &shares[kind];
	int			running = 0;

	for (int i = 0; i < n; i++)
		running += shares[i].running;
	if (!atp_share_has_place(shares, n, concurrency, kind))
		return false;
	if (concurrency - running > count_before(shares, n, kind, now))
	{
		share->ticket = 0;
		return true;
	}
	if (share->running < atp_share_reserve(concurrency, n))
	{
		if (!is_queued(share, now))
			share->ticket = next_ticket(shares, n);
		share->asked = now;
	}
	return false;
}
