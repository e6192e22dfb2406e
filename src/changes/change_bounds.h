/*
 * change_bounds.h
 *		The rows of a partition, for messages: the columns of the partition key, and the partition's bounds as SQL.
 */
#ifndef ATP_CHANGE_BOUNDS_H
#define ATP_CHANGE_BOUNDS_H

#include "postgres.h"

#include "changes/change.h"
#include "lib/stringinfo.h"

/* Longer bounds are not told. */
#define ATP_BOUNDS_MAX	65536

/*
 * The members partition, by and bounds.  The two last are left out of a partition of a partition, and if they would be too
 * long, or perhaps so; the member by also if the key has an expression.
 */
extern void atp_append_partition(const AtpChanges *changes, StringInfo out, const AtpChangeTable *table);

#endif							/* ATP_CHANGE_BOUNDS_H */
