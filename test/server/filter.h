/*
 * filter.h
 *		What a subscriber of Jetstream wants: kinds, collections, accounts.
 */
#ifndef SRV_FILTER_H
#define SRV_FILTER_H

#include "capture.h"
#include "http.h"

#define FILTER_COLLECTIONS_MAX	100
#define FILTER_DIDS_MAX			10000

typedef struct Names
{
	char	  **name;
	size_t		n;
} Names;

typedef struct Filter
{
	Names		kinds;			/* none: all */
	Names		collections;
	Names		dids;
	int64_t		size_max;		/* 0: any */
} Filter;

/* From a query, in the names of the capture's wire; otherwise what is wrong with it, to be sent as 400. */
extern const char *filter_query(Filter *f, const Request *r, Wire wire);

/* From a text that a client of the first version sent; false when it is none. */
extern bool filter_update(Filter *f, Slice text);

extern bool filter_passes(const Filter *f, const Message *m);
extern void filter_free(Filter *f);

#endif							/* SRV_FILTER_H */
