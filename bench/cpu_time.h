/*
 * cpu_time.h
 *		Processor time of this process, and the order of measurements.
 */
#ifndef CPU_TIME_H
#define CPU_TIME_H

#include <stdlib.h>
#include <time.h>

static inline double
seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double) t.tv_sec + (double) t.tv_nsec / 1e9;
}

static inline int
compare_doubles(const void *a, const void *b)
{
	double		x = *(const double *) a;
	double		y = *(const double *) b;

	return (x > y) - (x < y);
}

#endif							/* CPU_TIME_H */
