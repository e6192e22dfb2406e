/*
 * change_bounds.c
 *		The partition key's columns and the bounds of a partition, for the messages about a partition whose rows are gone at
 *		once.
 *
 * The owner of a table chooses the bounds.  The text of a bound can be much longer than its value: numeric keeps 1e131071 in
 * 10 bytes, and a composite type doubles each quote in the types inside of it.  An ERROR in the plugin would come again at each
 * start, so the slot would never get past the partition.  So the plugin makes a text only of types with short or
 * proportional texts, and of these only as much as a message should have.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/partition.h"
#include "catalog/pg_class.h"
#include "catalog/pg_partitioned_table.h"
#include "catalog/pg_type.h"
#include "changes/change_bounds.h"
#include "changes/change_size.h"
#include "changes/change_write.h"
#include "common/compat.h"
#include "nodes/parsenodes.h"
#include "nodes/primnodes.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/json.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

/* Characters beside a value: commas, quotes, MINVALUE. */
#define AROUND	16

static Size
output_size(Oid type, Datum value)
{
	Oid			output;
	bool		is_varlena;

	getTypeOutputInfo(type, &output, &is_varlena);
	return strlen(OidOutputFunctionCall(output, value));
}

/* The length of a value's text; ATP_BOUNDS_MAX: not known. */
static Size
value_size(const Const *value)
{
	Oid			type = getBaseType(value->consttype);

	if (value->constisnull)
		return 0;
	if (type == TEXTOID || type == VARCHAROID || type == BPCHAROID)
		return VARSIZE_ANY_EXHDR(DatumGetPointer(value->constvalue));
	/* a numeric has 147,457 characters at most; only superusers make other types of a fixed length */
	if (value->constlen > 0 || type == NUMERICOID || atp_is_extension_type(type))
		return output_size(type, value->constvalue);
	return ATP_BOUNDS_MAX;
}

/* Two characters for each in a literal: a quote, a backslash. */
static Size
add_value(Size size, const Node *value)
{
	if (size >= ATP_BOUNDS_MAX)
		return size;
	if (value == NULL)
		return size + AROUND;
	return size + AROUND + (IsA(value, Const) ? 2 * value_size((const Const *) value) : ATP_BOUNDS_MAX);
}

static Size
add_list(Size size, List *values)
{
	ListCell   *cell;

	foreach(cell, values)
	{
		const Node *value = lfirst(cell);

		/* of a range; without a value: MINVALUE, MAXVALUE */
		if (IsA(value, PartitionRangeDatum))
			value = ((const PartitionRangeDatum *) value)->value;
		size = add_value(size, value);
	}
	return size;
}

static bool
is_short(const char *text)
{
	const PartitionBoundSpec *bounds = castNode(PartitionBoundSpec, stringToNode(text));

	return add_list(add_list(add_list(0, bounds->listdatums), bounds->lowerdatums), bounds->upperdatums) < ATP_BOUNDS_MAX;
}

/*
 * With the table's OID, pg_get_expr() would lock the table.  A session that has truncated the partition may keep the partition
 * locked until the reader confirms the commit (synchronous_standby_names): session and reader would wait for each other.
 * Bounds have no columns, so the function needs no table.
 */
static char *
partition_bounds(Oid relid)
{
	HeapTuple	tuple;
	bool		isnull;
	Datum		bounds;
	char	   *result = NULL;

	/* of a partition of a partition, they would name rows of other partitions, too */
	if (list_length(get_partition_ancestors(relid)) > 1)
		return NULL;
	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	if (!HeapTupleIsValid(tuple))
		return NULL;
	bounds = SysCacheGetAttr(RELOID, tuple, Anum_pg_class_relpartbound, &isnull);
	if (!isnull && is_short(TextDatumGetCString(bounds)))
		result = TextDatumGetCString(DirectFunctionCall2(pg_get_expr, bounds, ObjectIdGetDatum(InvalidOid)));
	ReleaseSysCache(tuple);
	return result;
}

/* An expression has no name by which a reader would know the value in a row. */
static void
append_key(StringInfo out, Oid root)
{
	HeapTuple	tuple = SearchSysCache1(PARTRELID, ObjectIdGetDatum(root));
	Form_pg_partitioned_table form;
	int			before = out->len;

	if (!HeapTupleIsValid(tuple))
		return;
	form = (Form_pg_partitioned_table) GETSTRUCT(tuple);
	for (int i = 0; i < form->partnatts; i++)
	{
		if (form->partattrs.values[i] == 0)
		{
			out->len = before;
			break;
		}
		appendStringInfoString(out, i == 0 ? ",\"by\":[" : ",");
		escape_json(out, get_attname(root, form->partattrs.values[i], false));
	}
	if (out->len > before)
		appendStringInfoChar(out, ']');
	ReleaseSysCache(tuple);
}

void
atp_append_partition(const AtpChanges *changes, StringInfo out, const AtpChangeTable *table)
{
	char	   *bounds = partition_bounds(table->relid);
	StringInfoData rows;

	atp_append_text(out, ",", "partition", get_rel_name(table->relid));
	if (bounds == NULL)
		return;
	initStringInfo(&rows);
	append_key(&rows, table->root);
	atp_append_text(&rows, ",", "bounds", bounds);
	if (rows.len <= changes->options.max_message - ATP_MESSAGE_REST)
		appendBinaryStringInfo(out, rows.data, rows.len);
}
