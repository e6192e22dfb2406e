/*
 * direct_short.c
 *		New rows without their last columns, where these are null: see direct_short.h.
 *
 * Such a row is an ordinary tuple, since each row that is older than its table's last column looks so.  Whatever forms the
 * row again (UPDATE, CLUSTER, a toasted value) writes all columns.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "tables/direct/direct_short.h"

/*
 * The columns that the row must have.  A column with a value for rows that lack it (atthasmissing: added with a DEFAULT)
 * would not be read as null.
 */
static int
count_needed(const TupleTableSlot *slot)
{
	TupleDesc	desc = slot->tts_tupleDescriptor;
	int			n = desc->natts;

	while (n > 0 && slot->tts_isnull[n - 1] && !TupleDescAttr(desc, n - 1)->atthasmissing)
		n--;
	return n;
}

static bool
has_null(const TupleTableSlot *slot, int natts)
{
	for (int i = 0; i < natts; i++)
		if (slot->tts_isnull[i])
			return true;
	return false;
}

/* As heap_form_tuple() (heaptuple.c) computes it. */
static int
header_size(int natts, bool null)
{
	return MAXALIGN(SizeofHeapTupleHeader + (null ? BITMAPLEN(natts) : 0));
}

/* Both headers are aligned, so the values keep their alignment. */
static void
cut_tuple(HeapTuple tuple, int natts, bool null)
{
	HeapTupleHeader header = tuple->t_data;
	int			size = header_size(natts, null);

	memmove((char *) header + size, (char *) header + header->t_hoff, tuple->t_len - header->t_hoff);
	tuple->t_len -= header->t_hoff - size;
	header->t_hoff = size;
	HeapTupleHeaderSetNatts(header, natts);
	if (!null)
	{
		header->t_infomask &= ~HEAP_HASNULL;
		memset(header->t_bits, 0, size - SizeofHeapTupleHeader);
	}
}

void
atp_shorten(TupleTableSlot *slot)
{
	int			natts = slot->tts_tupleDescriptor->natts;
	int			needed;
	bool		null;
	HeapTuple	tuple;

	/* a trigger may have put a tuple into the slot */
	slot_getallattrs(slot);
	needed = count_needed(slot);
	null = has_null(slot, needed);
	if (header_size(needed, null) == header_size(natts, needed < natts || null))
		return;
	tuple = heap_form_tuple(slot->tts_tupleDescriptor, slot->tts_values, slot->tts_isnull);
	cut_tuple(tuple, needed, null);
	ExecStoreHeapTuple(tuple, slot, true);
}
