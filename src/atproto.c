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

#include "changes/announce.h"
#include "common/clock.h"
#include "config/free_disk.h"
#include "config/role_limits.h"
#include "fetch/repositories/task_audit.h"
#include "fetch/engine/task.h"
#include "fetch/identities/task_handle.h"
#include "fetch/engine/host.h"
#include "fetch/identities/task_identity.h"
#include "fetch/repositories/list_rows.h"
#include "fmgr.h"
#include "identity/identity.h"
#include "identity/identity_log.h"
#include "identity/identity_request.h"
#include "net/dns.h"
#include "net/http.h"
#include "net/retry.h"
#include "process/consumer/consumer.h"
#include "process/status/drop_hook.h"
#include "process/status/fetcher_status.h"
#include "process/manager/manager.h"
#include "process/status/manager_status.h"
#include "process/status/status.h"
#include "common/command_progress.h"
#include "common/shared.h"
#include "stream/rev_cache.h"
#include "stream/unknown.h"
#include "tables/export/export.h"
#include "tables/direct/direct.h"
#include "tables/base/job.h"
#include "tables/apply/apply.h"
#include "tables/apply/sweep_end.h"
#include "tables/export/merge.h"
#include "tables/records/link_count.h"
#include "tables/repos/status_request.h"
#include "tables/repos/held.h"
#include "tables/repos/multi_source.h"
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
	atp_free_disk_init();
	atp_role_limits_init();
	atp_host_init();
	atp_identity_task_init();
	atp_audit_task_init();
	atp_handle_task_init();
	atp_dns_init();
	atp_identity_init();
	atp_identity_request_init();
	atp_identity_log_init();
	atp_export_init();
	atp_direct_init();
	atp_job_init();
	atp_merge_init();
	atp_link_count_init();
	atp_apply_init();
	atp_table_init();
	atp_sweep_init();
	atp_status_request_init();
	atp_multi_source_init();
	atp_held_init();
	atp_list_init();
	atp_consumer_init();
	atp_consumer_history_init();
	atp_consumer_seam_init();
	atp_status_init();
	atp_manager_status_init();
	atp_fetcher_status_init();
	atp_rev_cache_init();
	atp_unknown_init();
	atp_progress_init();
	atp_shared_init();
	atp_drop_hook_init();
	atp_announce_init();
	atp_manager_init();
	MarkGUCPrefixReserved("atproto");
}
