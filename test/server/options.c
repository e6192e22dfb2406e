/*
 * options.c
 *		Reads the command line.  README.md describes each switch at length.
 */
#include "options.h"

#include "message.h"
#include "text.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
"Usage: streamserver --capture FILE [OPTION]...\n"
"Replays captured AT Protocol event-stream messages over WebSocket.\n"
"\n"
"Serving:\n"
"  --capture FILE          repeated [u32 BE length][message], plain or gzip\n"
"  --bind ADDRESS          default 127.0.0.1\n"
"  --port N                default 0: any free port\n"
"  --port-file FILE        write the port there\n"
"  --tls CERT KEY          serve wss:// (PEM files)\n"
"  --log FILE              one JSON line for each request and each end\n"
"  --exit-on-eof           end when standard input ends\n"
"  --live-start SEQ        without a cursor: messages after SEQ (default: none)\n"
"  --oldest SEQ            older cursors get #info OutdatedCursor\n"
"  --inclusive             cursor=N sends N again\n"
"  --zstd-dictionary FILE  for clients of Jetstream that ask for zstd\n"
"  --zstd-unsized          frames that do not say how long their content is\n"
"  --close-at-end          close (1000) after the last message\n"
"  --rate N                messages a second on each connection\n"
"  --rate-from SEQ         those before SEQ all at once\n"
"  --hold-at SEQ           wait before SEQ for SIGUSR1 (again for each --hold-at)\n"
"\n"
"Faults of the upgrade:\n"
"  --status CODE           answer with this HTTP status\n"
"  --retry-after VALUE, --redirect URL, --body FILE, --body-size BYTES\n"
"  --interim N             so many HTTP 103 before the answer\n"
"  --bad-accept            wrong Sec-WebSocket-Accept\n"
"  --no-upgrade-reply      accept, read, and say nothing\n"
"  --status-times K        only for the first K connections\n"
"\n"
"Faults after N messages of a connection:\n"
"  --cut-after N           end the TCP connection without a close frame\n"
"  --cut-inside BYTES      and send so many bytes of the next frame before\n"
"  --cut-reset             and end it with a reset\n"
"  --cut-times K           only the first K connections\n"
"  --close-after N         close with --close-code (default 1000)\n"
"  --close-code CODE       (alone: after the last message)\n"
"  --stall-after N         send nothing more\n"
"\n"
"Faults before the message SEQ (0: at the start):\n"
"  --inject FILE@SEQ       the messages of a capture file\n"
"  --oversize BYTES@SEQ    a message of so many bytes, well-formed otherwise\n"
"  --error NAME@SEQ        an error message, then close\n"
"  --text-at SEQ           a text message\n"
"  --binary HEX@SEQ        a binary message of these bytes, uncompressed\n"
"  --bomb BYTES@SEQ        a binary message: zstd of so many zeros\n"
"  --ping-at SEQ           a ping, inside of a message with --fragment\n"
"  --raw HEX@SEQ           these bytes on the wire\n"
"  --garbage-at SEQ        bytes that are no WebSocket frame\n"
"  --dup-at SEQ            SEQ twice\n"
"  --swap-at SEQ           SEQ after its successor\n"
"  --skip-from A --skip-to B   leave out A to B\n"
"\n"
"Faults of the whole connection:\n"
"  --trickle BYTES:USEC    write so many bytes at a time, with pauses\n"
"  --fragment SIZE         frames of at most SIZE bytes\n"
"  --ignore-pings          no pong\n"
"  --fault-times K         all faults but --status and --cut: first K connections\n";

enum
{
	/* numbers */
	OPT_PORT = 256, OPT_LIVE_START, OPT_RATE_FROM, OPT_OLDEST, OPT_HOLD_AT, OPT_STATUS, OPT_BODY_SIZE, OPT_INTERIM,
	OPT_STATUS_TIMES, OPT_CUT_AFTER, OPT_CUT_INSIDE, OPT_CUT_TIMES, OPT_CLOSE_AFTER,
	OPT_CLOSE_CODE, OPT_STALL_AFTER, OPT_TEXT_AT, OPT_PING_AT, OPT_GARBAGE_AT, OPT_DUP_AT,
	OPT_SWAP_AT, OPT_SKIP_FROM, OPT_SKIP_TO, OPT_FRAGMENT, OPT_FAULT_TIMES,
	/* texts */
	OPT_CAPTURE, OPT_BIND, OPT_PORT_FILE, OPT_TLS, OPT_LOG, OPT_RATE, OPT_RETRY_AFTER,
	OPT_REDIRECT, OPT_BODY, OPT_INJECT, OPT_OVERSIZE, OPT_ERROR, OPT_RAW, OPT_TRICKLE,
	OPT_BINARY, OPT_BOMB, OPT_ZSTD_DICTIONARY,
	/* flags */
	OPT_EXIT_ON_EOF, OPT_INCLUSIVE, OPT_CLOSE_AT_END, OPT_BAD_ACCEPT, OPT_NO_UPGRADE_REPLY,
	OPT_CUT_RESET, OPT_IGNORE_PINGS, OPT_ZSTD_UNSIZED, OPT_HELP
};

static const struct option longopts[] = {
	{"capture", required_argument, NULL, OPT_CAPTURE},
	{"bind", required_argument, NULL, OPT_BIND},
	{"port", required_argument, NULL, OPT_PORT},
	{"port-file", required_argument, NULL, OPT_PORT_FILE},
	{"tls", required_argument, NULL, OPT_TLS},
	{"log", required_argument, NULL, OPT_LOG},
	{"exit-on-eof", no_argument, NULL, OPT_EXIT_ON_EOF},
	{"live-start", required_argument, NULL, OPT_LIVE_START},
	{"oldest", required_argument, NULL, OPT_OLDEST},
	{"inclusive", no_argument, NULL, OPT_INCLUSIVE},
	{"close-at-end", no_argument, NULL, OPT_CLOSE_AT_END},
	{"zstd-dictionary", required_argument, NULL, OPT_ZSTD_DICTIONARY},
	{"zstd-unsized", no_argument, NULL, OPT_ZSTD_UNSIZED},
	{"rate", required_argument, NULL, OPT_RATE},
	{"rate-from", required_argument, NULL, OPT_RATE_FROM},
	{"hold-at", required_argument, NULL, OPT_HOLD_AT},
	{"status", required_argument, NULL, OPT_STATUS},
	{"retry-after", required_argument, NULL, OPT_RETRY_AFTER},
	{"redirect", required_argument, NULL, OPT_REDIRECT},
	{"body", required_argument, NULL, OPT_BODY},
	{"body-size", required_argument, NULL, OPT_BODY_SIZE},
	{"interim", required_argument, NULL, OPT_INTERIM},
	{"bad-accept", no_argument, NULL, OPT_BAD_ACCEPT},
	{"no-upgrade-reply", no_argument, NULL, OPT_NO_UPGRADE_REPLY},
	{"status-times", required_argument, NULL, OPT_STATUS_TIMES},
	{"cut-after", required_argument, NULL, OPT_CUT_AFTER},
	{"cut-inside", required_argument, NULL, OPT_CUT_INSIDE},
	{"cut-reset", no_argument, NULL, OPT_CUT_RESET},
	{"cut-times", required_argument, NULL, OPT_CUT_TIMES},
	{"close-after", required_argument, NULL, OPT_CLOSE_AFTER},
	{"close-code", required_argument, NULL, OPT_CLOSE_CODE},
	{"stall-after", required_argument, NULL, OPT_STALL_AFTER},
	{"inject", required_argument, NULL, OPT_INJECT},
	{"oversize", required_argument, NULL, OPT_OVERSIZE},
	{"error", required_argument, NULL, OPT_ERROR},
	{"text-at", required_argument, NULL, OPT_TEXT_AT},
	{"binary", required_argument, NULL, OPT_BINARY},
	{"bomb", required_argument, NULL, OPT_BOMB},
	{"ping-at", required_argument, NULL, OPT_PING_AT},
	{"raw", required_argument, NULL, OPT_RAW},
	{"garbage-at", required_argument, NULL, OPT_GARBAGE_AT},
	{"dup-at", required_argument, NULL, OPT_DUP_AT},
	{"swap-at", required_argument, NULL, OPT_SWAP_AT},
	{"skip-from", required_argument, NULL, OPT_SKIP_FROM},
	{"skip-to", required_argument, NULL, OPT_SKIP_TO},
	{"trickle", required_argument, NULL, OPT_TRICKLE},
	{"fragment", required_argument, NULL, OPT_FRAGMENT},
	{"ignore-pings", no_argument, NULL, OPT_IGNORE_PINGS},
	{"fault-times", required_argument, NULL, OPT_FAULT_TIMES},
	{"help", no_argument, NULL, OPT_HELP},
	{NULL, 0, NULL, 0}
};

static int64_t
number(const char *option, const char *text)
{
	char	   *end;
	long long	v;

	errno = 0;
	v = strtoll(text, &end, 10);
	if (errno || end == text || *end || v < 0)
		die("--%s: \"%s\" is not a number", option, text);
	return v;
}

static Fault *
add_fault(Options *o, FaultKind kind, int64_t at)
{
	Fault	   *f;

	if (o->nfaults == FAULTS_MAX)
		die("at most %d faults with a seq", FAULTS_MAX);
	f = &o->fault[o->nfaults++];
	f->kind = kind;
	f->at = at;
	return f;
}

/* Cuts "WHAT@SEQ" in two at the last '@' and makes the fault. */
static Fault *
add_fault_with(Options *o, FaultKind kind, const char *option, char *arg)
{
	char	   *at = strrchr(arg, '@');

	if (at == NULL)
		die("--%s: \"%s\" has no @SEQ", option, arg);
	*at = '\0';
	return add_fault(o, kind, number(option, at + 1));
}

/* Makes the one message of a fault from what was built. */
static void
single_message(Fault *f, Buffer *built)
{
	f->messages.bytes = built->data;
	f->messages.n = 1;
	f->messages.msgs = xcalloc(1, sizeof(Message));
	f->messages.msgs[0] = (Message) {.data = built->data, .len = buffer_len(built)};
}

static void
add_hex(Buffer *b, const char *option, const char *hex)
{
	size_t		n = strlen(hex);

	if (n % 2 != 0 || strspn(hex, "0123456789abcdefABCDEF") != n)
		die("--%s: \"%s\" is not hexadecimal", option, hex);
	for (size_t i = 0; i < n; i += 2)
	{
		char		pair[3] = {hex[i], hex[i + 1], 0};
		uint8_t		byte = (uint8_t) strtoul(pair, NULL, 16);

		buffer_add(b, &byte, 1);
	}
}

/* Faults at a seq. */
static void
parse_fault(Options *o, int opt, const char *name, char *arg)
{
	static const char garbage[] = "\xff\xfe this is not a WebSocket frame \x00\x01\x02";
	static const char text[] = "{\"text\":\"a text message\"}";
	Buffer		built = {0};
	Fault	   *f;

	switch (opt)
	{
		case OPT_INJECT:
			f = add_fault_with(o, FAULT_MESSAGES, name, arg);
			capture_load(&f->messages, arg);
			break;
		case OPT_OVERSIZE:
			f = add_fault_with(o, FAULT_MESSAGES, name, arg);
			if (o->capture.wire == WIRE_CBOR)
				message_padding(&built, (size_t) number(name, arg));
			else
				text_padding(&built, o->capture.wire, (size_t) number(name, arg));
			single_message(f, &built);
			break;
		case OPT_ERROR:
			f = add_fault_with(o, FAULT_ERROR, name, arg);
			if (o->capture.wire == WIRE_CBOR)
				message_error(&built, arg, "Sent on request of the test.");
			else
				text_error(&built, arg, "Sent on request of the test.");
			single_message(f, &built);
			break;
		case OPT_RAW:
			f = add_fault_with(o, FAULT_RAW, name, arg);
			add_hex(&f->bytes, name, arg);
			break;
		case OPT_BINARY:
			f = add_fault_with(o, FAULT_BINARY, name, arg);
			add_hex(&f->bytes, name, arg);
			break;
		case OPT_BOMB:
			f = add_fault_with(o, FAULT_BINARY, name, arg);
			compress_bomb(&f->bytes, (size_t) number(name, arg));
			break;
		case OPT_GARBAGE_AT:
			f = add_fault(o, FAULT_RAW, number(name, arg));
			buffer_add(&f->bytes, garbage, sizeof garbage - 1);
			break;
		case OPT_TEXT_AT:
			f = add_fault(o, FAULT_TEXT, number(name, arg));
			buffer_add(&f->bytes, text, sizeof text - 1);
			break;
		case OPT_PING_AT:
			add_fault(o, FAULT_PING, number(name, arg));
			break;
		case OPT_DUP_AT:
			add_fault(o, FAULT_DUP, number(name, arg));
			break;
		case OPT_SWAP_AT:
			add_fault(o, FAULT_SWAP, number(name, arg));
			break;
	}
}

static void
parse_number(Options *o, int opt, int64_t v)
{
	switch (opt)
	{
		case OPT_LIVE_START:
			o->live_start = v;
			break;
		case OPT_RATE_FROM:
			o->rate_from = v;
			break;
		case OPT_OLDEST:
			o->oldest = v;
			break;
		case OPT_HOLD_AT:
			if (o->nholds == HOLDS_MAX)
				die("at most %d --hold-at", HOLDS_MAX);
			if (o->nholds > 0 && o->hold[o->nholds - 1] >= v)
				die("--hold-at: give them in ascending order");
			o->hold[o->nholds++] = v;
			break;
		case OPT_STATUS:
			o->status = (int) v;
			break;
		case OPT_BODY_SIZE:
			o->body_size = v;
			break;
		case OPT_INTERIM:
			o->interim = v;
			break;
		case OPT_STATUS_TIMES:
			o->status_times = v;
			break;
		case OPT_CUT_AFTER:
			o->cut_after = v;
			break;
		case OPT_CUT_INSIDE:
			o->cut_inside = v;
			break;
		case OPT_CUT_TIMES:
			o->cut_times = v;
			break;
		case OPT_CLOSE_AFTER:
			o->close_after = v;
			break;
		case OPT_CLOSE_CODE:
			o->close_code = (int) v;
			break;
		case OPT_STALL_AFTER:
			o->stall_after = v;
			break;
		case OPT_SKIP_FROM:
			o->skip_from = v;
			break;
		case OPT_SKIP_TO:
			o->skip_to = v;
			break;
		case OPT_FRAGMENT:
			o->fragment = v;
			break;
		case OPT_FAULT_TIMES:
			o->fault_times = v;
			break;
	}
}

static void
parse_text(Options *o, int opt, const char *name, char *arg)
{
	char	   *colon,
			   *end;

	switch (opt)
	{
		case OPT_BIND:
			o->bind = arg;
			break;
		case OPT_PORT:
			(void) number(name, arg);
			o->port = arg;
			break;
		case OPT_PORT_FILE:
			o->port_file = arg;
			break;
		case OPT_LOG:
			o->log = arg;
			break;
		case OPT_RATE:
			o->rate = strtod(arg, &end);
			if (end == arg || *end || !(o->rate > 0))
				die("--rate: \"%s\" is not a positive number", arg);
			break;
		case OPT_RETRY_AFTER:
			o->retry_after = arg;
			break;
		case OPT_REDIRECT:
			o->redirect = arg;
			break;
		case OPT_BODY:
			o->body_file = arg;
			break;
		case OPT_ZSTD_DICTIONARY:
			o->dictionary = dictionary_load(arg);
			break;
		case OPT_TRICKLE:
			colon = strchr(arg, ':');
			if (colon == NULL)
				die("--trickle: \"%s\" is not BYTES:USEC", arg);
			*colon = '\0';
			o->trickle_bytes = number(name, arg);
			o->trickle_usec = number(name, colon + 1);
			if (o->trickle_bytes == 0)
				die("--trickle: no bytes at a time would be never");
			break;
	}
}

static void
parse_flag(Options *o, int opt)
{
	switch (opt)
	{
		case OPT_EXIT_ON_EOF:
			o->exit_on_eof = true;
			break;
		case OPT_INCLUSIVE:
			o->inclusive = true;
			break;
		case OPT_ZSTD_UNSIZED:
			o->zstd_unsized = true;
			break;
		case OPT_CLOSE_AT_END:
			o->close_at_end = true;
			break;
		case OPT_BAD_ACCEPT:
			o->bad_accept = true;
			break;
		case OPT_NO_UPGRADE_REPLY:
			o->no_upgrade_reply = true;
			break;
		case OPT_CUT_RESET:
			o->cut_reset = true;
			break;
		case OPT_IGNORE_PINGS:
			o->ignore_pings = true;
			break;
	}
}

/* Before the other options: what error messages and the like look like depends on its wire. */
static bool
load_capture(Options *o, int argc, char **argv)
{
	for (int i = 1; i + 1 < argc; i++)
		if (strcmp(argv[i], "--capture") == 0)
		{
			capture_load(&o->capture, argv[i + 1]);
			return true;
		}
	return false;
}

void
options_parse(Options *o, int argc, char **argv)
{
	int			opt,
				which;
	bool		loaded;

	*o = (Options) {
		.bind = "127.0.0.1", .port = "0", .live_start = NEVER, .body_size = NEVER,
		.status_times = NEVER, .cut_after = NEVER, .cut_times = NEVER, .close_after = NEVER,
		.stall_after = NEVER, .skip_from = NEVER, .skip_to = NEVER, .fault_times = NEVER
	};
	loaded = load_capture(o, argc, argv);
	while ((opt = getopt_long(argc, argv, "", longopts, &which)) != -1)
	{
		const char *name;

		if (opt == '?')
			die("see streamserver --help");
		if (opt == OPT_HELP)
		{
			fputs(usage, stdout);
			exit(0);
		}
		name = longopts[which].name;
		if (opt == OPT_TLS)
		{
			if (optind >= argc)
				die("--tls needs two files");
			o->tls_cert = optarg;
			o->tls_key = argv[optind++];
		}
		else if (longopts[which].has_arg == no_argument)
			parse_flag(o, opt);
		else
		{
			parse_text(o, opt, name, optarg);
			parse_fault(o, opt, name, optarg);
			if (opt > OPT_PORT && opt < OPT_CAPTURE)
				parse_number(o, opt, number(name, optarg));
		}
	}
	if (optind < argc)
		die("what is \"%s\"? see streamserver --help", argv[optind]);
	if (!loaded)
		die("--capture FILE is needed");
	if ((o->skip_from == NEVER) != (o->skip_to == NEVER))
		die("--skip-from and --skip-to go together");
}

void
options_free(Options *o)
{
	capture_free(&o->capture);
	dictionary_free(o->dictionary);
	for (unsigned i = 0; i < o->nfaults; i++)
	{
		capture_free(&o->fault[i].messages);
		buffer_free(&o->fault[i].bytes);
	}
}
