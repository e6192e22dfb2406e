/*
 * die.h
 *		An end with a message, and memory that never comes back NULL: what the
 *		programs of test/server and test/simulator share.
 */
#ifndef TEST_DIE_H
#define TEST_DIE_H

#include <stddef.h>

/* Prints the program's name and the message, and ends the program. */
extern void die(const char *fmt,...) __attribute__((format(printf, 1, 2), noreturn));

extern void *xrealloc(void *p, size_t n);
extern void *xcalloc(size_t n, size_t size);

#endif							/* TEST_DIE_H */
