/*
 * atproto.c
 *		The extension's module: magic block, settings, and what must be done
 *		while the server preloads libraries.
 *
 * Types and functions need nothing of this: they work in any session.  The
 * consumer's managers and its shared memory exist only when the library is
 * preloaded.
 */
#include "postgres.h"

#include "fmgr.h"
#include "miscadmin.h"
#include "net/retry.h"
#include "process/consumer.h"
#include "process/manager.h"
#include "process/status.h"
#include "process/wake.h"
#include "types/tid_generate.h"
#include "utils/guc.h"

PG_MODULE_MAGIC;

extern PGDLLEXPORT void _PG_init(void);

static void
define_reload_settings(void)
{
	DefineCustomIntVariable("atproto.batch_delay",
							"Longest time that an event waits for others to be committed with.",
							NULL, &atp_batch_delay_ms, 50, 0, 60000,
							PGC_SIGHUP, GUC_UNIT_MS, NULL, NULL, NULL);
	DefineCustomIntVariable("atproto.reconnect_delay",
							"Upper limit of the first random delay before a reconnection; doubled with each failure.",
							NULL, &atp_reconnect_delay_ms, 1000, 1, 3600000,
							PGC_SIGHUP, GUC_UNIT_MS, NULL, NULL, NULL);
	DefineCustomIntVariable("atproto.reconnect_max_delay",
							"Upper limit of the delay before a reconnection.",
							NULL, &atp_reconnect_max_delay_ms, 64000, 1, 86400000,
							PGC_SIGHUP, GUC_UNIT_MS, NULL, NULL, NULL);
	DefineCustomIntVariable("atproto.ping_interval",
							"Silence after which the consumer pings the server.",
							"Zero: never.", &atp_ping_interval_ms, 30000, 0, 86400000,
							PGC_SIGHUP, GUC_UNIT_MS, NULL, NULL, NULL);
	DefineCustomIntVariable("atproto.idle_timeout",
							"Silence after which the consumer gives the connection up.",
							"Answers to pings count. Zero: never.", &atp_idle_timeout_ms, 90000, 0, 86400000,
							PGC_SIGHUP, GUC_UNIT_MS, NULL, NULL, NULL);
}

static void
define_preload_settings(void)
{
	DefineCustomStringVariable("atproto.databases",
							   "Databases whose subscriptions are consumed.",
							   "A comma-separated list of names.", &atp_databases, "postgres",
							   PGC_POSTMASTER, GUC_LIST_INPUT, NULL, NULL, NULL);
	DefineCustomIntVariable("atproto.max_subscriptions",
							"Number of subscriptions, in all databases, whose live status is kept.",
							NULL, &atp_max_subscriptions, 64, 1, 4096,
							PGC_POSTMASTER, 0, NULL, NULL, NULL);
}

void
_PG_init(void)
{
	define_reload_settings();
	if (process_shared_preload_libraries_in_progress)
	{
		define_preload_settings();
		if (!IsBinaryUpgrade)
		{
			atp_tid_init();
			atp_slots_init();
			atp_wake_init();
			atp_manager_init();
		}
	}
	MarkGUCPrefixReserved("atproto");
}
