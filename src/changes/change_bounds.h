/*
 * change_bounds.h
 *		The bounds of a partition as SQL.
 */
#ifndef ATP_CHANGE_BOUNDS_H
#define ATP_CHANGE_BOUNDS_H

#include "postgres.h"

/* Longer bounds are not told. */
#define ATP_BOUNDS_MAX	65536

/* NULL: no partition, a partition of a partition, or bounds whose text is too long, or perhaps so. */
extern char *atp_partition_bounds(Oid relid);

#endif							/* ATP_CHANGE_BOUNDS_H */
