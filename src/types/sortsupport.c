/*
 * sortsupport.c
 *		Sort support for the packed types, with abbreviated keys of eight bytes
 *		(four on a 32-bit server).  As in PostgreSQL's uuid.c, abbreviation is
 *		abandoned when the first rows have too few distinct keys.
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "lib/hyperloglog.h"
#include "utils/sortsupport.h"

#include "types/glue.h"

typedef struct SortState
{
	AtpCompareFn compare;
	AtpAbbreviateFn abbreviate;
	int64		input_count;	/* values seen so far */
	bool		estimating;		/* is the number of keys still estimated? */
	hyperLogLogState abbr_card;
} SortState;

/* A value's bytes.  If *copy is not NULL, the caller must free it: sorts call this often. */
static inline AtpBytes
open_datum(Datum datum, struct varlena **copy)
{
	struct varlena *v = (struct varlena *) DatumGetPointer(datum);

	*copy = NULL;
	if (VARATT_IS_EXTERNAL(v) || VARATT_IS_COMPRESSED(v))
		*copy = v = pg_detoast_datum(v);
	return (AtpBytes) {(const uint8_t *) VARDATA_ANY(v), VARSIZE_ANY_EXHDR(v)};
}

static int
compare_fast(Datum x, Datum y, SortSupport ssup)
{
	SortState  *state = ssup->ssup_extra;
	struct varlena *x_copy;
	struct varlena *y_copy;
	AtpBytes	a = open_datum(x, &x_copy);
	AtpBytes	b = open_datum(y, &y_copy);
	int			cmp = state->compare(a.ptr, a.len, b.ptr, b.len);

	if (x_copy != NULL)
		pfree(x_copy);
	if (y_copy != NULL)
		pfree(y_copy);
	return cmp;
}

static Datum
abbrev_convert(Datum original, SortSupport ssup)
{
	SortState  *state = ssup->ssup_extra;
	struct varlena *copy;
	AtpBytes	v = open_datum(original, &copy);
	uint64		key = state->abbreviate(v.ptr, v.len);

	if (copy != NULL)
		pfree(copy);

	state->input_count++;
	if (state->estimating)
		addHyperLogLog(&state->abbr_card, DatumGetUInt32(hash_uint32((uint32) key ^ (uint32) (key >> 32))));

#if SIZEOF_DATUM == 8
	return UInt64GetDatum(key);
#else
	return UInt32GetDatum((uint32) (key >> 32));
#endif
}

static bool
abbrev_abort(int memtupcount, SortSupport ssup)
{
	SortState  *state = ssup->ssup_extra;
	double		abbr_card;

	if (memtupcount < 10000 || state->input_count < 10000 || !state->estimating)
		return false;

	abbr_card = estimateHyperLogLog(&state->abbr_card);

	/* Enough distinct keys for a sort of any size: stop counting. */
	if (abbr_card > 100000.0)
	{
		state->estimating = false;
		return false;
	}

	/* Fewer than one distinct key in 2000 values: not worth computing them. */
	return abbr_card < state->input_count / 2000.0 + 0.5;
}

void
atp_sortsupport(SortSupport ssup, AtpCompareFn compare, AtpAbbreviateFn abbreviate)
{
	MemoryContext oldcontext = MemoryContextSwitchTo(ssup->ssup_cxt);
	SortState  *state = palloc0(sizeof(SortState));

	state->compare = compare;
	state->abbreviate = abbreviate;
	ssup->ssup_extra = state;
	ssup->comparator = compare_fast;
	if (ssup->abbreviate)
	{
		state->estimating = true;
		initHyperLogLog(&state->abbr_card, 10);
		ssup->abbrev_full_comparator = compare_fast;
		ssup->comparator = ssup_datum_unsigned_cmp;
		ssup->abbrev_converter = abbrev_convert;
		ssup->abbrev_abort = abbrev_abort;
	}
	MemoryContextSwitchTo(oldcontext);
}
