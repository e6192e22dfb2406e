/*
 * referrers.c
 *		Foreign keys from columns of a collatable type to columns of the extension's types.
 *
 * Since text is accepted where an identifier is expected, PostgreSQL allows a foreign key from a
 * text column to a DID.  But then every deletion in the referenced table fails with "cache lookup
 * failed for collation 0", because PostgreSQL looks for a collation of the referenced column, whose
 * type has none.
 */
#include "postgres.h"

#include "access/table.h"
#include "catalog/pg_constraint.h"
#include "commands/trigger.h"
#include "tables/base/referrers.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

static const int16 *
columns_of(HeapTuple tuple, AttrNumber which, int *n)
{
	bool		isnull;
	ArrayType  *array = DatumGetArrayTypeP(SysCacheGetAttr(CONSTROID, tuple, which, &isnull));

	Assert(!isnull);
	*n = ArrayGetNItems(ARR_NDIM(array), ARR_DIMS(array));
	return (const int16 *) ARR_DATA_PTR(array);
}

static void
check_constraint(HeapTuple tuple)
{
	Form_pg_constraint constraint = (Form_pg_constraint) GETSTRUCT(tuple);
	int			n;
	const int16 *from = columns_of(tuple, Anum_pg_constraint_conkey, &n);
	const int16 *to = columns_of(tuple, Anum_pg_constraint_confkey, &n);

	for (int i = 0; i < n; i++)
	{
		Oid			type = get_atttype(constraint->conrelid, from[i]);
		Oid			expected = get_atttype(constraint->confrelid, to[i]);
		const char *table;
		const char *column;

		if (!type_is_collatable(type) || type_is_collatable(expected))
			continue;
		table = quote_qualified_identifier(get_namespace_name(get_rel_namespace(constraint->conrelid)), get_rel_name(constraint->conrelid));
		column = get_attname(constraint->conrelid, from[i], false);
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("column \"%s\" of table %s is of type %s, and refers to a column of type %s",
						column, table, format_type_be(type), format_type_be(expected)),
				 errdetail("PostgreSQL cannot delete rows that the foreign key \"%s\" may refer to.", NameStr(constraint->conname)),
				 errhint("ALTER TABLE %s ALTER COLUMN %s TYPE %s", table, quote_identifier(column), format_type_be_qualified(expected))));
	}
}

/*
 * Looking up a constraint may process an invalidation message, upon which the relation's triggers are rebuilt: so the
 * constraints are collected first.
 */
void
atp_check_referrers(Oid relid)
{
	Relation	rel = table_open(relid, AccessShareLock);
	const TriggerDesc *triggers = rel->trigdesc;
	List	   *constraints = NIL;
	ListCell   *lc;

	for (int i = 0; triggers != NULL && i < triggers->numtriggers; i++)
		if (RI_FKey_trigger_type(triggers->triggers[i].tgfoid) == RI_TRIGGER_PK)
			constraints = lappend_oid(constraints, triggers->triggers[i].tgconstraint);
	foreach(lc, constraints)
	{
		HeapTuple	tuple = SearchSysCache1(CONSTROID, ObjectIdGetDatum(lfirst_oid(lc)));

		if (!HeapTupleIsValid(tuple))
			continue;
		check_constraint(tuple);
		ReleaseSysCache(tuple);
	}
	list_free(constraints);
	table_close(rel, AccessShareLock);
}
