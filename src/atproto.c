/*
 * atproto.c
 *		The extension's module: magic block, and whoever has settings, hooks,
 *		shared memory or processes of his own.
 *
 * Types and functions need nothing of this: they work in any session.  The
 * consumer's managers and its shared memory exist only when the library is
 * preloaded: each of these functions looks for itself.
 */
#include "postgres.h"

#include "clock.h"
#include "fmgr.h"
#include "net/retry.h"
#include "process/consumer.h"
#include "process/ddl.h"
#include "process/manager.h"
#include "process/status.h"
#include "types/tid_generate.h"
#include "utils/guc.h"

PG_MODULE_MAGIC;

extern PGDLLEXPORT void _PG_init(void);

void
_PG_init(void)
{
	atp_clock_init();
	atp_tid_init();
	atp_retry_init();
	atp_consumer_init();
	atp_status_init();
	atp_ddl_init();
	atp_manager_init();
	MarkGUCPrefixReserved("atproto");
}
