/*
 * binomial.c
 *		Bounds of a share, from a sample (Clopper and Pearson).
 *
 * The bounds are found by halving, from the regularized incomplete beta function, which is the sum of the binomial
 * distribution; its continued fraction needs some hundred steps for a sample of millions.
 */
#include "postgres.h"

#include <float.h>
#include <math.h>

#include "common/binomial.h"

#define CONFIDENCE	0.95
#define HALVINGS	200
#define STEPS_MAX	100000

/* Numerical Analysis' continued fraction of the incomplete beta function, by the method of Lentz; x <= (a + 1) / (a + b + 2). */
static double
beta_fraction(double a, double b, double x)
{
	double		c = 1;
	double		d = 1 / (1 - (a + b) * x / (a + 1));
	double		sum = d;

	for (int m = 1; m <= STEPS_MAX; m++)
	{
		double		even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
		double		odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
		double		factor;

		d = 1 / (1 + even * d);
		c = 1 + even / c;
		sum *= d * c;
		d = 1 / (1 + odd * d);
		c = 1 + odd / c;
		factor = d * c;
		sum *= factor;
		if (fabs(factor - 1) < 4 * DBL_EPSILON)
			break;
	}
	return sum;
}

/* The regularized incomplete beta function I_x(a, b). */
static double
incomplete_beta(double a, double b, double x)
{
	double		front;

	if (x <= 0 || x >= 1)
		return x <= 0 ? 0 : 1;
	front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x));
	if (x <= (a + 1) / (a + b + 2))
		return front * beta_fraction(a, b, x) / a;
	return 1 - front * beta_fraction(b, a, 1 - x) / b;
}

/* The chance that a sample of n has k or more of the kind, if the whole has this share. */
static double
chance_of_more(int64_t k, int64_t n, double share)
{
	return k == 0 ? 1 : incomplete_beta((double) k, (double) (n - k + 1), share);
}

double
atp_share_bound(int64_t k, int64_t n, bool upper)
{
	double		low = 0;
	double		high = 1;

	if (n <= 0 || k < 0 || k > n || (upper && k == n) || (!upper && k == 0))
		return upper ? 1 : 0;
	/* 1 - 0.05^(1/n), without loss of digits */
	if (upper && k == 0)
		return -expm1(log(1 - CONFIDENCE) / (double) n);
	for (int i = 0; i < HALVINGS && low < high; i++)
	{
		double		middle = (low + high) / 2;
		bool		beyond = upper ? 1 - chance_of_more(k + 1, n, middle) < 1 - CONFIDENCE : chance_of_more(k, n, middle) > 1 - CONFIDENCE;

		if (middle == low || middle == high)
			break;
		if (beyond)
			high = middle;
		else
			low = middle;
	}
	return upper ? high : low;
}
