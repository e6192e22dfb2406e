/*
 * unit.h
 *		The few functions that a unit test of src/core needs; output in TAP.
 */
#ifndef UNIT_H
#define UNIT_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/*
 * The tests name their data relative to the folder test: main() changes to it, so that the tests run from any
 * folder.
 */
static __attribute__((constructor)) void
enter_folder(void)
{
	if (chdir(ATP_TEST_DIR) != 0)
	{
		perror(ATP_TEST_DIR);
		exit(2);
	}
}

static int	unit_run;
static int	unit_failed;

/* One test: prints "ok" or "not ok" with the formatted name. */
#define ok(cond, ...) \
	do { \
		bool		ok_ = (cond); \
		unit_run++; \
		if (!ok_) unit_failed++; \
		printf("%s %d - ", ok_ ? "ok" : "not ok", unit_run); \
		printf(__VA_ARGS__); \
		printf("\n"); \
		if (!ok_) printf("# failed at %s:%d: %s\n", __FILE__, __LINE__, #cond); \
	} while (0)

/* Last statement of main(): the plan, and the exit status. */
static inline int
done_testing(void)
{
	printf("1..%d\n", unit_run);
	return unit_failed != 0;
}

#endif							/* UNIT_H */
