/*
 * options.c
 *		Reads the command line.  README.md describes each option at length.
 */
#include "options.h"

#include "time_of.h"
#include "util.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
"Usage: simulate [OPTION]... > CAPTURE\n"
"Writes the messages of com.atproto.sync.subscribeRepos of a network that does not\n"
"exist: valid commits of valid repositories.  Same options, same bytes.\n"
"\n"
"  --events N              messages (default 10000)\n"
"  --accounts N            accounts at the start (1000)\n"
"  --seed N                another seed, another network (1)\n"
"  --history N             records of most repositories at the start (60000; with\n"
"                          --social 0)\n"
"  --social                a social network: people join, write, answer, follow;\n"
"                          all begin without records\n"
"  --start TIME            of the first event: 2026-11-23, 2026-11-23T12:00:00Z, now,\n"
"                          or so long ago: -1d (2024-01-01)\n"
"  --span DURATION         spread all events over 90s, 30min, 24h, 7d or 1y\n"
"  --text BYTES            mean length of a post's text (120; with --social 60)\n"
"  --batches PERCENT       commits with several operations (0.3)\n"
"  --mix NAME=WEIGHT,...   how often what comes; see README.md\n"
"  --p256 PERCENT          accounts whose key is of P-256 (0)\n"
"  --epoch N               messages between two changes of the directory (0: none)\n"
"  --rotations N           accounts that get another key with each of them (0)\n"
"  --migrations N          accounts that move to another host with each (0)\n"
"  --directory DIR         write DID documents and keys there; see README.md\n"
"  --exports DIR           write the repositories at each change, and at the end\n"
"  --export DID,REV,FILE   write one repository as it was at a revision\n"
"  --after SEQ             sequence numbers go on after this number (0)\n"
	"  --leave FILE            a DID in each line: these accounts of an earlier network are deleted first\n"
	"  --no-sign               signatures are 64 random bytes: several times faster\n"
"  --expect DIR            write there what tables must contain in the end\n"
"  --output FILE           instead of standard output\n";

enum
{
	OPT_EVENTS = 256, OPT_ACCOUNTS, OPT_SEED, OPT_HISTORY, OPT_TEXT, OPT_BATCHES, OPT_MIX,
	OPT_P256, OPT_EPOCH, OPT_ROTATIONS, OPT_MIGRATIONS, OPT_DIRECTORY, OPT_EXPORTS, OPT_EXPORT,
	OPT_NO_SIGN, OPT_EXPECT, OPT_OUTPUT, OPT_SOCIAL, OPT_START, OPT_SPAN, OPT_AFTER, OPT_LEAVE, OPT_HELP
};

static const struct option longopts[] = {
	{"events", required_argument, NULL, OPT_EVENTS},
	{"accounts", required_argument, NULL, OPT_ACCOUNTS},
	{"seed", required_argument, NULL, OPT_SEED},
	{"history", required_argument, NULL, OPT_HISTORY},
	{"social", no_argument, NULL, OPT_SOCIAL},
	{"start", required_argument, NULL, OPT_START},
	{"span", required_argument, NULL, OPT_SPAN},
	{"text", required_argument, NULL, OPT_TEXT},
	{"batches", required_argument, NULL, OPT_BATCHES},
	{"mix", required_argument, NULL, OPT_MIX},
	{"p256", required_argument, NULL, OPT_P256},
	{"epoch", required_argument, NULL, OPT_EPOCH},
	{"rotations", required_argument, NULL, OPT_ROTATIONS},
	{"migrations", required_argument, NULL, OPT_MIGRATIONS},
	{"directory", required_argument, NULL, OPT_DIRECTORY},
	{"exports", required_argument, NULL, OPT_EXPORTS},
	{"export", required_argument, NULL, OPT_EXPORT},
	{"after", required_argument, NULL, OPT_AFTER},
	{"leave", required_argument, NULL, OPT_LEAVE},
	{"no-sign", no_argument, NULL, OPT_NO_SIGN},
	{"expect", required_argument, NULL, OPT_EXPECT},
	{"output", required_argument, NULL, OPT_OUTPUT},
	{"help", no_argument, NULL, OPT_HELP},
	{NULL, 0, NULL, 0}
};

static const struct
{
	const char *name;
	double		weight;			/* default: a percentage */
} mix[KINDS] = {
	[KIND_LIKE] = {"like", 70},
	[KIND_POST] = {"post", 12},
	[KIND_REPOST] = {"repost", 10},
	[KIND_FOLLOW] = {"follow", 6},
	[KIND_BLOCK] = {"block", 0.35},
	[KIND_LISTITEM] = {"listitem", 0.3},
	[KIND_LIST] = {"list", 0.05},
	[KIND_PROFILE] = {"profile", 0.25},
	[KIND_THREADGATE] = {"threadgate", 0.05},
	[KIND_OTHER] = {"other", 0.1},
	[KIND_STATUS] = {"status", 0},
	[KIND_DELETE] = {"delete", 0.6},
	[KIND_UPDATE] = {"update", 0.1},
	[KIND_IDENTITY] = {"identity", 0.1},
	[KIND_ACCOUNT] = {"account", 0.08},
	[KIND_SYNC] = {"sync", 0.02}
};

static uint64_t
number(const char *option, const char *text, uint64_t min, uint64_t max)
{
	char	   *end;
	unsigned long long v;

	errno = 0;
	v = strtoull(text, &end, 10);
	if (errno || end == text || *end || *text == '-' || v < min || v > max)
		die("--%s: \"%s\" is not a number from %llu to %llu", option, text,
			(unsigned long long) min, (unsigned long long) max);
	return v;
}

static double
fraction(const char *option, const char *text, double max)
{
	char	   *end;
	double		v = strtod(text, &end);

	if (end == text || *end || !(v >= 0 && v <= max))
		die("--%s: \"%s\" is not a number from 0 to %g", option, text, max);
	return v;
}

/* "delete=5,update=1": the others keep their weights. */
static void
parse_mix(Options *o, char *text)
{
	for (char *item = strtok(text, ","); item != NULL; item = strtok(NULL, ","))
	{
		char	   *weight = strchr(item, '=');
		Kind		kind = 0;

		if (weight == NULL)
			die("--mix: \"%s\" is not NAME=WEIGHT", item);
		*weight++ = '\0';
		while (kind < KINDS && strcmp(mix[kind].name, item) != 0)
			kind++;
		if (kind == KINDS)
			die("--mix: \"%s\" is no kind of event", item);
		o->mix[kind] = fraction("mix", weight, 1e9);
	}
}

void
options_parse(Options *o, int argc, char **argv)
{
	double		total = 0;
	int			opt,
				which;

	*o = (Options) {
		.events = 10000, .accounts = 1000, .seed = 1, .history = UINT64_MAX, .start = DEFAULT_START,
		.batches = 0.3, .sign = true
	};
	for (Kind kind = 0; kind < KINDS; kind++)
		o->mix[kind] = mix[kind].weight;
	while ((opt = getopt_long(argc, argv, "", longopts, &which)) != -1)
	{
		switch (opt)
		{
			case OPT_EVENTS:
				o->events = number("events", optarg, 0, UINT64_C(1) << 40);
				break;
			case OPT_ACCOUNTS:
				o->accounts = number("accounts", optarg, 1, 100000000);
				break;
			case OPT_SEED:
				o->seed = number("seed", optarg, 0, UINT64_MAX);
				break;
			case OPT_HISTORY:
				o->history = number("history", optarg, 0, 10000000);
				break;
			case OPT_SOCIAL:
				o->social = true;
				break;
			case OPT_START:
				if (!time_of(optarg, &o->start))
					die("--start: \"%s\" is not a time like 2026-11-23, 2026-11-23T12:00:00Z, now or -1d", optarg);
				break;
			case OPT_SPAN:
				if (!duration_of(optarg, &o->span) || o->span == 0)
					die("--span: \"%s\" is not a duration like 90s, 30min, 24h, 7d or 1y", optarg);
				break;
			case OPT_TEXT:
				o->text = number("text", optarg, 1, 3000);
				break;
			case OPT_BATCHES:
				o->batches = fraction("batches", optarg, 100);
				break;
			case OPT_MIX:
				parse_mix(o, optarg);
				break;
			case OPT_P256:
				o->p256 = fraction("p256", optarg, 100);
				break;
			case OPT_EPOCH:
				o->epoch = number("epoch", optarg, 0, UINT64_C(1) << 40);
				break;
			case OPT_ROTATIONS:
				o->rotations = number("rotations", optarg, 0, 100000000);
				break;
			case OPT_MIGRATIONS:
				o->migrations = number("migrations", optarg, 0, 100000000);
				break;
			case OPT_DIRECTORY:
				o->directory = optarg;
				break;
			case OPT_EXPORTS:
				o->exports = optarg;
				break;
			case OPT_EXPORT:
				o->export = optarg;
				break;
			case OPT_AFTER:
				o->after = number("after", optarg, 0, UINT64_C(1) << 52);
				break;
			case OPT_LEAVE:
				o->leave = optarg;
				break;
			case OPT_NO_SIGN:
				o->sign = false;
				break;
			case OPT_EXPECT:
				o->expect = optarg;
				break;
			case OPT_OUTPUT:
				o->output = optarg;
				break;
			case OPT_HELP:
				fputs(usage, stdout);
				exit(0);
			default:
				die("see simulate --help");
		}
	}
	if (optind < argc)
		die("what is \"%s\"? see simulate --help", argv[optind]);
	for (Kind kind = 0; kind < KINDS; kind++)
		total += o->mix[kind];
	if (total == 0)
		die("--mix: nothing is left");
	if (o->history == UINT64_MAX)
		o->history = o->social ? 0 : 60000;
	if (o->text == 0)
		o->text = o->social ? 60 : 120;
	if (o->social && o->history > 0)
		die("--social: all begin without records, and --history has no meaning");
	if (o->span > 0 && o->span / EVENT_SPAN < o->events)
		die("--span is too short: each event takes a millisecond");
	if (o->epoch == 0 && o->rotations + o->migrations > 0)
		die("--rotations and --migrations happen when an --epoch ends");
}
