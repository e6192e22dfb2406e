/*
 * server.c
 *		SQL functions that measure a statement in a server, for shapes_server.py.
 *
 * Under callgrind the instructions of the statement are counted.  With memory.c loaded before the C library, the peak of
 * the memory is printed.
 */
#include "postgres.h"

#include <dlfcn.h>
#include <unistd.h>
#include <valgrind/callgrind.h>

#include "executor/spi.h"
#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

PG_MODULE_MAGIC;
PG_FUNCTION_INFO_V1(measure);

static void
execute(const char *sql, Oid type, Datum arg)
{
	if (SPI_execute_with_args(sql, 1, &type, &arg, NULL, false, 0) < 0)
		elog(ERROR, "could not execute: %s", sql);
	SPI_freetuptable(SPI_tuptable);
}

/* SQL: measure(name text, n integer, sql text, arg anyelement); with n < 0 the statement is only executed */
Datum
measure(PG_FUNCTION_ARGS)
{
	char	   *sql = text_to_cstring(PG_GETARG_TEXT_PP(2));
	Oid			type = get_fn_expr_argtype(fcinfo->flinfo, 3);
	char	   *name = psprintf("%s %d", text_to_cstring(PG_GETARG_TEXT_PP(0)), PG_GETARG_INT32(1));
	Datum		arg = PG_GETARG_DATUM(3);
	void		(*memory_reset) (void) = (void (*) (void)) dlsym(RTLD_DEFAULT, "memory_reset");
	size_t		(*memory_peak) (void) = (size_t (*) (void)) dlsym(RTLD_DEFAULT, "memory_peak");

	SPI_connect();
	if (PG_GETARG_INT32(1) < 0)
		execute(sql, type, arg);
	else
	{
		if (memory_reset != NULL)
			memory_reset();
		CALLGRIND_ZERO_STATS;
		CALLGRIND_TOGGLE_COLLECT;
		execute(sql, type, arg);
		CALLGRIND_TOGGLE_COLLECT;
		CALLGRIND_DUMP_STATS_AT(name);
		if (memory_peak != NULL)
		{
			printf("\nMEMORY %s %zu\n", name, memory_peak());
			fflush(stdout);
		}
	}
	SPI_finish();
	PG_RETURN_VOID();
}
