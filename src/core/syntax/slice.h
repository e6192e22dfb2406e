/*
 * slice.h
 *		A slice of all repositories: 3/16 is the slice with the number 3 of the
 *		sixteen slices 0/16 to 15/16. types/types.h decides which DIDs belong to
 *		a slice.
 */
#ifndef ATP_SLICE_H
#define ATP_SLICE_H

#include "core/atp.h"

#define ATP_SLICES_MAX	INT32_MAX

typedef struct AtpSlice
{
	uint32_t	number;
	uint32_t	of;				/* 0: no slice, all repositories */
} AtpSlice;

/* Each slice has one spelling: no sign, space or leading zero. */
extern AtpErr atp_slice_parse(const char *s, size_t n, AtpSlice *slice, size_t *at);

#endif							/* ATP_SLICE_H */
