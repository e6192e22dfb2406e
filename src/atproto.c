/*
 * atproto.c
 *		The extension's module: the magic block, and _PG_init(), which calls the
 *		atp_..._init() function of every file with settings, hooks, shared memory or
 *		background workers.
 *
 * Types and functions need no initialization: they work in any session.  Shared memory and the
 * managers exist only when the library is preloaded; each init function checks
 * process_shared_preload_libraries_in_progress itself.
 */
#include "postgres.h"

#include "clock.h"
#include "fetch/audit.h"
#include "fetch/errand.h"
#include "fetch/handle.h"
#include "fetch/host.h"
#include "fetch/identity.h"
#include "fetch/list_rows.h"
#include "fmgr.h"
#include "identity/identity.h"
#include "identity/wish.h"
#include "net/dns.h"
#include "net/http.h"
#include "net/retry.h"
#include "process/consumer.h"
#include "process/ddl.h"
#include "process/fetcher_status.h"
#include "process/manager.h"
#include "process/manager_status.h"
#include "process/status.h"
#include "shared.h"
#include "stream/recent.h"
#include "tables/export.h"
#include "tables/heap.h"
#include "tables/job.h"
#include "tables/merge.h"
#include "tables/status_wish.h"
#include "tables/held.h"
#include "tables/union.h"
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
	atp_http_init();
	atp_host_init();
	atp_identity_errand_init();
	atp_audit_errand_init();
	atp_handle_errand_init();
	atp_dns_init();
	atp_identity_init();
	atp_wish_init();
	atp_export_init();
	atp_heap_init();
	atp_job_init();
	atp_merge_init();
	atp_status_wish_init();
	atp_union_init();
	atp_held_init();
	atp_list_init();
	atp_consumer_init();
	atp_status_init();
	atp_manager_status_init();
	atp_fetcher_status_init();
	atp_recent_init();
	atp_shared_init();
	atp_ddl_init();
	atp_manager_init();
	MarkGUCPrefixReserved("atproto");
}
