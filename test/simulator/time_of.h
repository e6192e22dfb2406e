/*
 * time_of.h
 *		Times and durations as the command line has them, in microseconds.
 */
#ifndef SIM_TIME_OF_H
#define SIM_TIME_OF_H

#include <stdbool.h>
#include <stdint.h>

#define DEFAULT_START	UINT64_C(1704067200000000)	/* 2024-01-01 */
#define EVENT_SPAN		1000	/* what an event needs at least: its records' keys and its revision */

/* 90s, 30min, 24h, 7d, 1y */
extern bool duration_of(const char *text, uint64_t *micros);

/* 2026-11-23, 2026-11-23T12:00:00Z, now, -1d; between 2010 and 2200 */
extern bool time_of(const char *text, uint64_t *micros);

#endif							/* SIM_TIME_OF_H */
