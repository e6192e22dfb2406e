/*
 * slice.h
 *		A part of all repositories: 3/16 is the one with the number 3 of sixteen,
 *		0/16 to 15/16.  Which DIDs are in it, types/types.h says.
 */
#ifndef ATP_SLICE_H
#define ATP_SLICE_H

#include "core/atp.h"

#define ATP_SLICES_MAX	INT32_MAX

typedef struct AtpSlice
{
	uint32_t	number;
	uint32_t	of;				/* 0: no slice, but all */
} AtpSlice;

/* One way to write each: no sign, space or leading zero. */
extern AtpErr atp_slice_parse(const char *s, size_t n, AtpSlice *slice, size_t *at);

#endif							/* ATP_SLICE_H */
