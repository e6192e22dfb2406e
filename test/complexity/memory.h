/*
 * memory.h
 *		Counts the bytes that malloc() has given and free() has not taken back.
 */
#ifndef MEMORY_H
#define MEMORY_H

#include <stddef.h>

/* From now on the peak is counted from the present use. */
extern void memory_reset(void);
extern size_t memory_peak(void);

#endif							/* MEMORY_H */
