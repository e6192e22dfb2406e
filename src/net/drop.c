/*
 * drop.c
 *		Why a connection ended.
 */
#include "net/drop.h"

#include <stdarg.h>
#include <stdio.h>

#include "core/syntax/printable.h"

static const char *const drop_names[ATP_DROP_COUNT] = {
	[ATP_DROP_NONE] = "none",
	[ATP_DROP_CONNECT] = "connect",
	[ATP_DROP_HTTP] = "http",
	[ATP_DROP_CLOSED] = "closed",
	[ATP_DROP_WEBSOCKET] = "websocket",
	[ATP_DROP_TOO_LARGE] = "too large",
	[ATP_DROP_IDLE] = "idle",
	[ATP_DROP_MEMORY] = "memory",
	[ATP_DROP_COMPRESSION] = "compression",
	[ATP_DROP_FRAME] = "frame",
	[ATP_DROP_SEQ] = "seq",
	[ATP_DROP_ERROR_FRAME] = "error frame",
	[ATP_DROP_CLOCK] = "clock",
	[ATP_DROP_LIMIT] = "limit",
};

const char *
atp_drop_name(AtpDrop drop)
{
	return drop_names[drop];
}

bool
atp_drop_is_about_contents(AtpDrop drop, int close_code)
{
	switch (drop)
	{
		case ATP_DROP_FRAME:
		case ATP_DROP_SEQ:
		case ATP_DROP_WEBSOCKET:
		case ATP_DROP_TOO_LARGE:
		case ATP_DROP_COMPRESSION:
			return true;
		case ATP_DROP_CLOSED:
			return close_code == 1002 || close_code == 1003 || close_code == 1007 || close_code == 1009;
		default:
			return false;
	}
}

void
atp_end(AtpEnd *end, AtpDrop drop, const char *fmt, ...)
{
	va_list		args;

	if (end->drop != ATP_DROP_NONE)
		return;
	va_start(args, fmt);
	(void) vsnprintf(end->why, sizeof(end->why), fmt, args);	/* NOLINT(clang-analyzer-valist.Uninitialized): it is */
	va_end(args);
	/* the text may quote a peer: keep log lines and UTF-8 intact */
	atp_make_printable(end->why, strlen(end->why));
	end->drop = drop;
}
