/*
 * fault.c
 *		Whose fault an error of the database is, and steps that may fail alone.
 */
#include "postgres.h"

#include "access/xact.h"
#include "mb/pg_wchar.h"
#include "tables/fault.h"
#include "utils/memutils.h"
#include "utils/resowner.h"

/* A trigger may raise a message of any length: so many bytes of it are kept. */
#define TEXT_MAX	1000

/*
 * By the SQLSTATE's class.  What is not here is the row's fault: most of all
 * classes 22 (data), 23 (constraints) and P0, and the codes that users' triggers
 * make up.
 */
static const struct
{
	char		class[3];
	AtpFault	fault;
}			faults[] = {
	{"08", ATP_FAULT_PASSING},	/* connections */
	{"0A", ATP_FAULT_SETUP},	/* features that are not supported */
	{"25", ATP_FAULT_PASSING},	/* transaction state */
	{"26", ATP_FAULT_SETUP},	/* statement names */
	{"28", ATP_FAULT_SETUP},	/* authorization */
	{"2B", ATP_FAULT_SETUP},	/* privileges that depend on others */
	{"2D", ATP_FAULT_SETUP},	/* a trigger that ends the transaction */
	{"2F", ATP_FAULT_SETUP},	/* functions that may not do what they do */
	{"38", ATP_FAULT_SETUP},	/* external functions */
	{"39", ATP_FAULT_SETUP},	/* their calls */
	{"3D", ATP_FAULT_SETUP},	/* catalog names */
	{"3F", ATP_FAULT_SETUP},	/* schema names */
	{"40", ATP_FAULT_PASSING},	/* serialization, deadlocks */
	{"42", ATP_FAULT_SETUP},	/* syntax, names, types, privileges */
	{"53", ATP_FAULT_PASSING},	/* resources */
	{"55", ATP_FAULT_PASSING},	/* objects in use */
	{"57", ATP_FAULT_PASSING},	/* operator's intervention */
	{"58", ATP_FAULT_PASSING},	/* system */
	{"72", ATP_FAULT_PASSING},	/* snapshots */
	{"AT", ATP_FAULT_SETUP},	/* ATP_ERRCODE_STOP */
	{"F0", ATP_FAULT_PASSING},	/* configuration files */
	{"HV", ATP_FAULT_PASSING},	/* foreign servers */
	{"XX", ATP_FAULT_PASSING},	/* internal errors */
};

AtpFault
atp_fault_of(int sqlstate)
{
	const char *code = unpack_sql_state(sqlstate);

	for (int i = 0; i < lengthof(faults); i++)
		if (memcmp(code, faults[i].class, 2) == 0)
			return faults[i].fault;
	return ATP_FAULT_ROW;
}

ErrorData *
atp_attempt(AtpApply *a, AtpStep step, int first, int second)
{
	MemoryContext cxt = CurrentMemoryContext;
	MemoryContext own = AllocSetContextCreate(cxt, "atproto attempt", ALLOCSET_DEFAULT_SIZES);
	ResourceOwner owner = CurrentResourceOwner;
	AtpApply		before = *a;
	ErrorData  *volatile error = NULL;

	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(own);
	PG_TRY();
	{
		step(a, first, second);
		ReleaseCurrentSubTransaction();
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(a->batch->cxt);
		error = CopyErrorData();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
	}
	PG_END_TRY();
	MemoryContextSwitchTo(cxt);
	CurrentResourceOwner = owner;
	MemoryContextDelete(own);
	if (error != NULL)
	{
		*a = before;
		if (atp_fault_of(error->sqlerrcode) == ATP_FAULT_PASSING)
			ReThrowError(error);
	}
	return error;
}

const char *
atp_error_text(const ErrorData *error)
{
	const char *message = error->message ? error->message : "unknown error";

	return pnstrdup(message, pg_mbcliplen(message, strlen(message), TEXT_MAX));
}
