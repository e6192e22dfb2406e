/*
 * simulate.c
 *		A relay of a network that does not exist: writes a capture of its stream.
 *		What comes next is decided here.
 */
#include "commit.h"
#include "departure.h"
#include "directory.h"
#include "epoch.h"
#include "expect.h"
#include "export.h"
#include "message.h"

#include <stdio.h>
#include <stdlib.h>

#define FRAME_ROOM	(8 * 1024 * 1024)
#define OUTPUT_ROOM	(1024 * 1024)

/* Without --span the mean time between two events, in microseconds, is one and a half of this. */
#define PACE		1000

static const char *const absences[] = {"deactivated", "takendown", "suspended"};

typedef struct Simulation
{
	Network		net;
	double		total;			/* of the weights */
	uint32_t   *absent;			/* accounts that may come back */
	uint32_t	nabsent;
	uint32_t	cap;
	uint32_t	newcomer;		/* an account that has just joined */
	unsigned	greetings;		/* messages that will say so: see greet() */
} Simulation;

static Kind
choose(Simulation *s)
{
	const double *mix = s->net.options->mix;
	double		at = (double) (random_next(&s->net.random) >> 11) * 0x1p-53 * s->total;
	Kind		kind = 0;

	while (kind < KINDS - 1 && at >= mix[kind])
		at -= mix[kind++];
	return kind;
}

static void
leave(Simulation *s, Account *a)
{
	a->active = false;
	a->status = absences[random_below(&s->net.random, sizeof absences / sizeof *absences)];
	s->net.nactive--;
	if (s->nabsent == s->cap)
	{
		s->cap = s->cap * 2 + 16;
		s->absent = xrealloc(s->absent, s->cap * sizeof *s->absent);
	}
	s->absent[s->nabsent++] = (uint32_t) (a - s->net.accounts);
}

static Account *
come_back(Simulation *s)
{
	uint32_t	i = (uint32_t) random_below(&s->net.random, s->nabsent);
	Account    *a = &s->net.accounts[s->absent[i]];

	s->absent[i] = s->absent[--s->nabsent];
	a->active = true;
	a->status = NULL;
	s->net.nactive++;
	return a;
}

/* #identity, #account, and with --social the first commit. */
static unsigned
newcomer_messages(const Simulation *s)
{
	return s->net.options->social ? 3 : 2;
}

/* A new account takes the place of one that is deleted. */
static void
end_for_good(Simulation *s, Account *a)
{
	a->active = false;
	a->status = "deleted";
	s->net.nactive--;
	account_clear(a);
	directory_forget(&s->net, a, epoch_next(&s->net));
	s->greetings = newcomer_messages(s);
}

static void
change_account(Simulation *s, AtpCborWriter *w)
{
	Account    *a;

	if (s->nabsent > 0 && random_below(&s->net.random, 2))
		a = come_back(s);
	else
	{
		a = network_pick(&s->net);
		if (random_below(&s->net.random, 5) == 0)
			end_for_good(s, a);
		else if (s->net.nactive > 1)
			leave(s, a);
	}
	account_write(&s->net, a, w);
}

static void
join(Simulation *s)
{
	s->newcomer = network_join(&s->net);
	directory_tell(&s->net, &s->net.accounts[s->newcomer], epoch_now(&s->net), false);
}

static void
write_commit(Network *net, Kind kind, AtpCborWriter *w)
{
	Account    *a = network_pick(net);
	unsigned	nops = 1;

	if ((double) random_below(&net->random, 1000000) < net->options->batches * 10000)
		nops = 2 + (unsigned) random_below(&net->random, BATCH_MAX - 1);
	commit_write(net, a, kind, nops, w);
}

/* The next of the messages by which an account joins. */
static void
greet(Simulation *s, AtpCborWriter *w)
{
	Network    *net = &s->net;
	unsigned	left = s->greetings--;

	if (left == newcomer_messages(s))
	{
		join(s);
		identity_write(net, &net->accounts[s->newcomer], w);
	}
	else if (left == newcomer_messages(s) - 1)
		account_write(net, &net->accounts[s->newcomer], w);
	else
		commit_first(net, &net->accounts[s->newcomer], w);
}

/* With --span the events have equal parts of it, and come at any time of theirs. */
static void
pass_time(Network *net)
{
	const Options *o = net->options;
	uint64_t	due;

	if (o->span == 0)
	{
		net->micros += PACE + random_below(&net->random, PACE);
		return;
	}
	due = net->start + (uint64_t) ((unsigned __int128) o->span * (uint64_t) net->seq / o->events) +
		random_below(&net->random, o->span / o->events);
	net->micros = due > net->micros ? due : net->micros + 1;
}

static void
next_message(Simulation *s, AtpCborWriter *w)
{
	Network    *net = &s->net;
	Kind		kind = choose(s);

	pass_time(net);
	if (departure_write(net, w))
		return;
	if (epoch_begins(net))
	{
		export_all(net, (uint64_t) net->seq / net->options->epoch);
		epoch_change(net);
	}
	if (epoch_write(net, w))
		return;
	if (net->options->social && s->greetings == 0 && net->naccounts < net->options->accounts)
		s->greetings = newcomer_messages(s);
	if (s->greetings > 0)
	{
		greet(s, w);
		return;
	}
	switch (kind)
	{
		case KIND_IDENTITY:
			identity_write(net, network_pick(net), w);
			break;
		case KIND_ACCOUNT:
			change_account(s, w);
			break;
		case KIND_SYNC:
			sync_write(net, network_pick(net), w);
			break;
		default:
			write_commit(net, kind, w);
			break;
	}
}

static void
write_capture(Simulation *s, FILE *f)
{
	AtpCborWriter w = {.buf = xcalloc(FRAME_ROOM, 1), .cap = FRAME_ROOM};

	setvbuf(f, NULL, _IOFBF, OUTPUT_ROOM);
	for (uint64_t i = 0; i < s->net.options->events; i++)
	{
		uint8_t		head[4];

		w.len = 0;
		next_message(s, &w);
		if (w.len > w.cap)
			die("a message of %zu bytes", w.len);
		for (int k = 0; k < 4; k++)
			head[k] = (uint8_t) (w.len >> (24 - 8 * k));
		if (fwrite(head, 1, sizeof head, f) != sizeof head || fwrite(w.buf, 1, w.len, f) != w.len)
			die("cannot write the capture");
	}
	if (fflush(f) != 0)
		die("cannot write the capture");
	free(w.buf);
}

int
main(int argc, char **argv)
{
	static Simulation s;
	Options		options;
	FILE	   *f = stdout;

	options_parse(&options, argc, argv);
	for (Kind kind = 0; kind < KINDS; kind++)
		s.total += options.mix[kind];
	if (options.output != NULL && (f = fopen(options.output, "wb")) == NULL)
		die("cannot write %s", options.output);
	network_start(&s.net, &options);
	departure_open(&options);
	directory_open(&options);
	for (uint32_t i = 0; i < s.net.naccounts; i++)
		directory_tell(&s.net, &s.net.accounts[i], 1, false);
	write_capture(&s, f);
	departure_close();
	export_all(&s.net, options.epoch == 0 ? 1 : (options.events + options.epoch - 1) / options.epoch);
	directory_close();
	if (fclose(f) != 0)
		die("cannot write the capture");
	if (options.expect != NULL)
		expect_write(&s.net);
	network_free(&s.net);
	epoch_free();
	free(s.absent);
	return 0;
}
