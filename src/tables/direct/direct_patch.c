/*
 * direct_patch.c
 *		A row's new version made by overwriting values in a copy of the old version.
 *
 * From one commit to the next, a repository's row differs in values that keep their length:
 * overwriting them is less work than taking the row apart and forming a new one.  The walk over the
 * values follows nocachegetattr() (heaptuple.c); the result is what heap_modify_tuple() would give.  A build with
 * assertions compares the values of each patched row (check_patched() in direct_update.c), so the tests notice a
 * version of PostgreSQL whose tuples are made differently.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/tupmacs.h"
#include "common/compat.h"
#include "tables/direct/direct_patch.h"

/*
 * Overwrite a value of variable length with one of the same length; false if a value is compressed or stored out of
 * line.
 */
static bool
patch_varlena(char *at, Datum value)
{
	const struct varlena *new = (const struct varlena *) DatumGetPointer(value);

	if (VARATT_IS_EXTERNAL(at) || VARATT_IS_COMPRESSED(at) || VARATT_IS_EXTERNAL(new) || VARATT_IS_COMPRESSED(new) ||
		VARSIZE_ANY_EXHDR(at) != VARSIZE_ANY_EXHDR(new))
		return false;
	memcpy(VARDATA_ANY(at), VARDATA_ANY(new), VARSIZE_ANY_EXHDR(new));
	return true;
}

static bool
patch_value(Form_pg_attribute att, char *at, Datum value)
{
	if (att->attlen == -1)
		return patch_varlena(at, value);
	if (att->attbyval)
		store_att_byval(at, value, att->attlen);
	else
		memcpy(at, DatumGetPointer(value), att->attlen);
	return true;
}

bool
atp_patch(TupleDesc desc, HeapTuple tuple, const int *columns, const AtpRows *rows, int row)
{
	HeapTupleHeader header = tuple->t_data;
	char	   *at = (char *) header + header->t_hoff;
	uint32		off = 0;

	/* the tuple was written before a column was added */
	if (HeapTupleHeaderGetNatts(header) < desc->natts)
		return false;
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);
		bool		isnull = HeapTupleHasNulls(tuple) && att_isnull(i, header->t_bits);
		bool		written = columns[i] >= 0;
		int			cell = columns[i] * rows->max + row;

		/*
		 * An old tuple may have a null in a column that was declared NOT NULL later: the caller has to form and check
		 * the row.
		 */
		if ((isnull && att->attnotnull) || (written && rows->nulls[cell] != isnull))
			return false;
		if (isnull)
			continue;
		off = att_align_pointer(off, att->attalign, att->attlen, at + off);
		if (written && !patch_value(att, at + off, rows->values[cell]))
			return false;
		off = att_addlength_pointer(off, att->attlen, at + off);
	}
	return true;
}
