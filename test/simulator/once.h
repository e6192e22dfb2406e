/*
 * once.h
 *		What has happened already: a set of things by their hashes.
 */
#ifndef SIM_ONCE_H
#define SIM_ONCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct Once
{
	uint64_t   *slot;			/* 0: free */
	size_t		n;
	size_t		cap;			/* a power of two */
} Once;

/* Enters the thing that these texts name together; false when it was there. */
extern bool once(Once *o, const char *const *texts, size_t n);

extern void once_free(Once *o);

#endif							/* SIM_ONCE_H */
