/*
 * once.h
 *		A set of lists of texts, by their hashes, for things that the simulator does only once.
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

/* Adds the list of texts to the set; false: the set had the list before. */
extern bool once(Once *o, const char *const *texts, size_t n);

extern void once_free(Once *o);

#endif							/* SIM_ONCE_H */
