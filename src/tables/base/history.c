/*
 * history.c
 *		Rows of atproto.history: see history.h.
 */
#include "postgres.h"

#include "config/extension.h"
#include "config/owner.h"
#include "config/spi.h"
#include "identity/identity.h"
#include "tables/base/history.h"

void
atp_history_begin(const char *name)
{
	AtpCaller	caller = atp_as_table_owner("history");

	atp_run("INSERT INTO atproto.history AS h (subscription, endpoint)"
			" SELECT name, endpoint FROM atproto.subscription WHERE name = $1 AND history = 'archive'"
			" ON CONFLICT (subscription) DO UPDATE SET endpoint = EXCLUDED.endpoint, phase = 'plan', tip = NULL, passes = NULL,"
			"  floor = NULL, planned_blocks = NULL, blocks = 0, planned_bytes = NULL, bytes = 0, error = NULL, next_try = NULL,"
			"  started_at = now(), finished_at = NULL, incomplete = NULL, incomplete_at = NULL WHERE h.endpoint <> EXCLUDED.endpoint", ATP_ARGS(atp_text_arg(name)));
	atp_owner_end(caller);
}
