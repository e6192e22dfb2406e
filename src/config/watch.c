/*
 * watch.c
 *		Detects changes of atproto.subscription, by the relcache invalidations that
 *		arrive with each commit, and passes such invalidations on to other files.
 *
 * A process of PostgreSQL has ten places for these callbacks, which the server and all extensions share, and
 * ends at the eleventh.  So this file registers the only callback of our extension.
 */
#include "postgres.h"

#include "config/watch.h"
#include "utils/inval.h"

static Oid	subscription_relid = InvalidOid;
static bool config_changed = true;

/* One for each file that calls atp_watch_relations(). */
static AtpRelationChanged watchers[8];
static int	nwatchers;

/*
 * InvalidOid as relid means any relation.  While the table's OID is unknown, every invalidation counts,
 * because the extension itself has no relcache entry.
 */
static void
relcache_callback(Datum arg, Oid relid)
{
	if (relid == InvalidOid || relid == subscription_relid || !OidIsValid(subscription_relid))
		config_changed = true;
	for (int i = 0; i < nwatchers; i++)
		watchers[i] (relid);
}

static void
watch_invalidations(void)
{
	static bool registered = false;

	if (!registered)
		CacheRegisterRelcacheCallback(relcache_callback, (Datum) 0);
	registered = true;
}

void
atp_watch_relations(AtpRelationChanged changed)
{
	watch_invalidations();
	for (int i = 0; i < nwatchers; i++)
		if (watchers[i] == changed)
			return;
	if (nwatchers == lengthof(watchers))
		elog(ERROR, "more than %d functions watch relations", nwatchers);
	watchers[nwatchers++] = changed;
}

bool
atp_config_changed(void)
{
	bool		changed;

	watch_invalidations();
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
