/*
 * float.c
 *		The function behind isfinite(), which CBMC does not have.
 */
#include "proof.h"

int
__builtin_isfinite(double value)
{
	uint64_t	bits;

	memcpy(&bits, &value, sizeof(bits));
	return (bits >> 52 & 0x7ff) != 0x7ff;
}
