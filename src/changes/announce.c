/*
 * announce.c
 *		Announcements to the output plugin in WAL, where the rows alone do not tell enough (O-24).
 *
 * "account FLAGS DID": see announce.h.  "drop OID": rows go with a table or partition, which WAL does not say.
 */
#include "postgres.h"

#include "access/xlog.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_class.h"
#include "changes/announce.h"
#include "changes/change.h"
#include "changes/change_bounds.h"
#include "changes/change_write.h"
#include "common/compat.h"
#include "core/syntax/did.h"
#include "miscadmin.h"
#include "replication/message.h"
#include "types/types.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#define ACCOUNT		"account "
#define DROP		"drop "

static void
log_announcement(char *text)
{
	(void) ATP_LOG_MESSAGE(ATP_ANNOUNCE_PREFIX, text, strlen(text));
	pfree(text);
}

void
atp_announce_account(const struct varlena *did, int what)
{
	char		text[ATP_DID_MAX + 1];
	size_t		n;

	if (!XLogLogicalInfoActive())
		return;
	n = atp_did_copy(did, text);
	log_announcement(psprintf(ACCOUNT "%d %.*s", what, (int) n, text));
}

/* ------------------------------------------------------------------------
 * Dropped tables
 * ------------------------------------------------------------------------
 */

void
atp_announce_drop(Oid relid)
{
	if (XLogLogicalInfoActive())
		log_announcement(psprintf(DROP "%u", relid));
}

static object_access_hook_type prev_object_access_hook = NULL;

static void
object_accessed(ObjectAccessType access, Oid classid, Oid objid, int subid, void *arg)
{
	if (prev_object_access_hook)
		prev_object_access_hook(access, classid, objid, subid, arg);
	if (access == OAT_DROP && classid == RelationRelationId && subid == 0 && XLogLogicalInfoActive() && atp_is_change_table(objid))
		atp_announce_drop(objid);
}

void
atp_announce_init(void)
{
	if (!process_shared_preload_libraries_in_progress || IsBinaryUpgrade)
		return;
	prev_object_access_hook = object_access_hook;
	object_access_hook = object_accessed;
}

/* ------------------------------------------------------------------------
 * The plugin
 * ------------------------------------------------------------------------
 */

/* A table or partition that is announced to be dropped. */
typedef struct Dropped
{
	Oid			relid;
	Oid			root;
	char	   *target;
	char	   *table;
	char	   *partition;		/* members of the message; NULL: the whole table */
} Dropped;

static void
hear_account(AtpChangeTxn *txn, char *text)
{
	char	   *did = strchr(text, ' ');
	Datum		value;

	if (did != NULL && atp_try_did(did + 1, strlen(did + 1), &value))
		atp_change_announce(txn, (struct varlena *) DatumGetPointer(value), (int) (strtoul(text, NULL, 10) & (ATP_CHANGE_HANDLE | ATP_CHANGE_STATUS)));
}

static void
note_drop(const AtpChanges *changes, AtpChangeTxn *txn, const AtpChangeTable *table)
{
	StringInfoData partition;
	MemoryContext before;
	Dropped    *dropped;

	initStringInfo(&partition);
	if (table->root != table->relid)
		atp_append_partition(changes, &partition, table);
	before = MemoryContextSwitchTo(txn->context);
	dropped = palloc0(sizeof(Dropped));
	dropped->relid = table->relid;
	dropped->root = table->root;
	dropped->target = pstrdup(table->target);
	dropped->table = pstrdup(table->name);
	if (table->root != table->relid)
		dropped->partition = pstrdup(partition.data);
	if (txn->drops == NIL)
		txn->drops_seen = atp_change_catalog_changes();
	txn->drops = lappend(txn->drops, dropped);
	MemoryContextSwitchTo(before);
}

static bool
is_noted(const AtpChangeTxn *txn, Oid relid)
{
	ListCell   *cell;

	foreach(cell, txn->drops)
		if (((const Dropped *) lfirst(cell))->relid == relid)
			return true;
	return false;
}

static void
hear_drop(const AtpChanges *changes, AtpChangeTxn *txn, const char *text)
{
	Oid			relid = strtoul(text, NULL, 10);
	char		kind = OidIsValid(relid) ? get_rel_relkind(relid) : '\0';
	Relation	relation;
	const AtpChangeTable *table;

	if ((kind != RELKIND_RELATION && kind != RELKIND_PARTITIONED_TABLE) || is_noted(txn, relid))
		return;
	relation = RelationIdGetRelation(relid);
	if (!RelationIsValid(relation))
		return;
	table = atp_change_table(relation);
	if (atp_change_is_asked(changes, table))
		note_drop(changes, txn, table);
	RelationClose(relation);
}

void
atp_hear_announcement(const AtpChanges *changes, AtpChangeTxn *txn, const char *text, Size n)
{
	char	   *copy = pnstrdup(text, n);

	if (strncmp(copy, ACCOUNT, strlen(ACCOUNT)) == 0)
		hear_account(txn, copy + strlen(ACCOUNT));
	else if (strncmp(copy, DROP, strlen(DROP)) == 0)
		hear_drop(changes, txn, copy + strlen(DROP));
}

static bool
relation_exists(Oid relid)
{
	return get_rel_relkind(relid) != '\0';
}

static void
tell_drop(const AtpChanges *changes, AtpChangeTxn *txn, const Dropped *dropped)
{
	StringInfo	out = atp_message_begin(changes, txn, "purge", dropped->target, NULL);

	atp_append_text(out, ",", "table", dropped->table);
	if (dropped->partition != NULL)
		appendStringInfoString(out, dropped->partition);
	atp_message_end(changes);
}

void
atp_tell_drops(const AtpChanges *changes, AtpChangeTxn *txn)
{
	ListCell   *cell;

	txn->drops_seen = atp_change_catalog_changes();
	foreach(cell, txn->drops)
	{
		const Dropped *dropped = lfirst(cell);

		/* a role may announce a drop that never comes */
		if (relation_exists(dropped->relid))
			continue;
		txn->drops = foreach_delete_current(txn->drops, cell);
		/* a dropped table takes the partitions along */
		if (dropped->partition == NULL || relation_exists(dropped->root))
			tell_drop(changes, txn, dropped);
	}
}

/*
 * The transaction may write rows that the partition had into another partition, or into a new table with the name of the
 * dropped one: a reader who is told of the drop only after these rows would remove them again.
 */
void
atp_tell_drops_in_time(const AtpChanges *changes, AtpChangeTxn *txn)
{
	if (txn->drops != NIL && txn->drops_seen != atp_change_catalog_changes())
		atp_tell_drops(changes, txn);
}
