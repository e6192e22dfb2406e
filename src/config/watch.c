/*
 * watch.c
 *		Detects changes of atproto.subscription, by the relcache invalidations that
 *		arrive with each commit.
 */
#include "postgres.h"

#include "config/watch.h"
#include "utils/inval.h"

static Oid	subscription_relid = InvalidOid;
static bool config_changed = true;
static uint32 changes = 1;

/*
 * InvalidOid as relid means any relation.  While the table's OID is unknown, every invalidation counts,
 * because the extension itself has no relcache entry.
 */
static void
relcache_callback(Datum arg, Oid relid)
{
	if (relid == InvalidOid || relid == subscription_relid || !OidIsValid(subscription_relid))
	{
		config_changed = true;
		changes++;
	}
}

static void
watch(void)
{
	static bool registered = false;

	if (!registered)
		CacheRegisterRelcacheCallback(relcache_callback, (Datum) 0);
	registered = true;
}

uint32
atp_config_changes(void)
{
	watch();
	return changes;
}

bool
atp_config_changed(void)
{
	bool		changed;

	watch();
	AcceptInvalidationMessages();
	changed = config_changed;
	config_changed = false;
	return changed;
}

void
atp_config_watch(Oid relid)
{
	subscription_relid = relid;
}
