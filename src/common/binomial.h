/*
 * binomial.h
 *		Bounds of a share, from a sample (Clopper and Pearson).
 */
#ifndef ATP_BINOMIAL_H
#define ATP_BINOMIAL_H

#include <stdbool.h>
#include <stdint.h>

/*
 * A sample of n, drawn at random, has k of a kind.  Returns the least (upper: the greatest) share of the kind in the
 * whole at which k or more (upper: k or less) would still come in 5 of 100 samples.
 */
extern double atp_share_bound(int64_t k, int64_t n, bool upper);

#endif							/* ATP_BINOMIAL_H */
