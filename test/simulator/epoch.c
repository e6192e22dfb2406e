/*
 * epoch.c
 *		Keys that are replaced, accounts that move, and the orders in which a stream
 *		tells of it.
 *
 * All of it comes at once, when the epoch begins: what a directory says, and when
 * a consumer asks it, then decides nothing about what comes out.
 */
#include "epoch.h"

#include "commit.h"
#include "directory.h"
#include "message.h"

#include <stdlib.h>

typedef enum Step
{
	STEP_IDENTITY,
	STEP_ACCOUNT,				/* active, says the new host */
	STEP_COMMIT,
	STEP_FORMER,				/* a commit that the former key has signed */
	STEP_END
} Step;

/* Orders that occur. */
static const struct
{
	bool		lags;			/* the directory does not know of it yet, when it is asked first */
	Step		steps[4];
}			orders[] = {
	{false, {STEP_IDENTITY, STEP_COMMIT, STEP_END}},
	{false, {STEP_COMMIT, STEP_IDENTITY, STEP_COMMIT, STEP_END}},
	{true, {STEP_IDENTITY, STEP_COMMIT, STEP_END}},
	{false, {STEP_IDENTITY, STEP_FORMER, STEP_COMMIT, STEP_END}}
};

#define ORDERS	(sizeof orders / sizeof *orders)

static const Step migration[] = {STEP_IDENTITY, STEP_ACCOUNT, STEP_COMMIT, STEP_END};

/* Those that wait. */
static struct Change
{
	uint32_t	account;
	const Step *step;
}		   *changes;
static size_t nchanges;
static size_t next;

bool
epoch_begins(const Network *net)
{
	return net->options->epoch > 0 && net->seq > 0 && net->seq % (int64_t) net->options->epoch == 0;
}

int64_t
epoch_now(const Network *net)
{
	return net->options->epoch == 0 ? net->seq + 1 : net->seq - net->seq % (int64_t) net->options->epoch + 1;
}

int64_t
epoch_next(const Network *net)
{
	return epoch_now(net) + (int64_t) net->options->epoch;
}

/* An account that has not been changed yet; NULL when none was found. */
static Account *
choose(Network *net)
{
	for (int i = 0; i < 100; i++)
	{
		Account    *a = network_pick(net);
		bool		is_taken = false;

		for (size_t k = 0; k < nchanges && !is_taken; k++)
			is_taken = changes[k].account == (uint32_t) (a - net->accounts);
		if (!is_taken)
			return a;
	}
	return NULL;
}

static void
change(Network *net, const Step *steps, bool lags, bool moves)
{
	Account    *a = choose(net);

	if (a == NULL)
		return;
	account_set_key(net, a, a->key + 1);
	if (moves)
		a->host = (a->host + 1) % HOSTS;
	directory_tell(net, a, net->seq + 1, lags);
	changes[nchanges].account = (uint32_t) (a - net->accounts);
	changes[nchanges++].step = steps;
}

void
epoch_change(Network *net)
{
	const Options *o = net->options;

	if (changes == NULL)
		changes = xcalloc(o->rotations + o->migrations + 1, sizeof *changes);
	nchanges = next = 0;
	for (uint64_t i = 0; i < o->rotations; i++)
		change(net, orders[i % ORDERS].steps, orders[i % ORDERS].lags, false);
	for (uint64_t i = 0; i < o->migrations; i++)
		change(net, migration, false, true);
}

bool
epoch_write(Network *net, AtpCborWriter *w)
{
	Account    *a;

	while (next < nchanges && *changes[next].step == STEP_END)
		next++;
	if (next >= nchanges)
		return false;
	a = &net->accounts[changes[next].account];
	switch (*changes[next].step++)
	{
		case STEP_IDENTITY:
			identity_write(net, a, w);
			break;
		case STEP_ACCOUNT:
			account_write(net, a, w);
			break;
		case STEP_FORMER:
			account_set_key(net, a, a->key - 1);
			commit_write(net, a, KIND_POST, 1, w);
			account_set_key(net, a, a->key + 1);
			break;
		default:
			commit_write(net, a, KIND_POST, 1, w);
			break;
	}
	return true;
}

void
epoch_free(void)
{
	free(changes);
}
