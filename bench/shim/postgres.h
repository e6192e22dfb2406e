/*
 * postgres.h
 *		The little of PostgreSQL that src/common/signature.c needs, for programs without it.
 */
#ifndef BENCH_POSTGRES_H
#define BENCH_POSTGRES_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define unlikely(x)		__builtin_expect((x) != 0, 0)
#define ereport(level, rest)	abort()
#define MemoryContextAllocZero(context, size)	calloc(1, size)

#endif							/* BENCH_POSTGRES_H */
