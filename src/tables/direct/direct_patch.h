/*
 * direct_patch.h
 *		A row's new version out of its old one, where both are laid out alike, for heap.c.
 */
#ifndef ATP_DIRECT_PATCH_H
#define ATP_DIRECT_PATCH_H

#include "postgres.h"

#include "access/htup.h"
#include "access/tupdesc.h"
#include "tables/base/rows.h"

/*
 * Write one of the rows over one of the table, a copy of which is given; columns has the
 * column of the rows for each attribute, or -1.  False: something is null that was not, or the
 * other way round, or its length is another; what was given is spoilt then.
 */
extern bool atp_patch(TupleDesc desc, HeapTuple tuple, const int *columns, const AtpRows *rows, int row);

#endif							/* ATP_DIRECT_PATCH_H */
