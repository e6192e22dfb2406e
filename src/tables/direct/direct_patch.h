/*
 * direct_patch.h
 *		A row's new version made by overwriting values in a copy of the old version, for
 *		direct_update.c.
 */
#ifndef ATP_DIRECT_PATCH_H
#define ATP_DIRECT_PATCH_H

#include "postgres.h"

#include "access/htup.h"
#include "access/tupdesc.h"
#include "tables/base/rows.h"

/*
 * Overwrite values in a tuple, which is a copy of a stored one, with a row of rows.  columns gives the index in rows
 * for each attribute, or -1.  False: a value is null in only one of the two versions, or has another length; the
 * tuple may be partly overwritten then and must not be used.
 */
extern bool atp_patch(TupleDesc desc, HeapTuple tuple, const int *columns, const AtpRows *rows, int row);

#endif							/* ATP_DIRECT_PATCH_H */
