/*
 * update_effects.c
 *		What an UPDATE of a table does beside the UPDATE: see update_effects.h.
 */
#include "postgres.h"

#include "access/table.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_publication.h"
#include "catalog/pg_trigger.h"
#include "commands/trigger.h"
#include "tables/commands/update_effects.h"
#include "utils/rel.h"
#include "utils/relcache.h"

static bool
fires_trigger(const TriggerDesc *triggers)
{
	for (int i = 0; triggers != NULL && i < triggers->numtriggers; i++)
	{
		const Trigger *trigger = &triggers->triggers[i];

		if (TRIGGER_FOR_UPDATE(trigger->tgtype) && !trigger->tgisinternal && trigger->tgenabled != TRIGGER_DISABLED)
			return true;
	}
	return false;
}

static bool
is_published(Relation rel)
{
	PublicationDesc published;

	RelationBuildPublicationDesc(rel, &published);
	return published.pubactions.pubupdate;
}

static bool
has_effects(Relation rel)
{
	char		kind = rel->rd_rel->relkind;

	return (kind != RELKIND_RELATION && kind != RELKIND_PARTITIONED_TABLE) ||
		fires_trigger(rel->trigdesc) || is_published(rel);
}

bool
atp_update_has_effects(Oid relid)
{
	List	   *tables = find_all_inheritors(relid, RowExclusiveLock, NULL);
	ListCell   *cell;
	bool		result = false;

	foreach(cell, tables)
	{
		Relation	rel = table_open(lfirst_oid(cell), NoLock);

		result |= has_effects(rel);
		table_close(rel, NoLock);
	}
	list_free(tables);
	return result;
}
