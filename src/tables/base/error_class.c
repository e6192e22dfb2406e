/*
 * error_class.c
 *		Classes of database errors (is a row, the setup, or the moment to blame), and steps in
 *		subtransactions.
 */
#include "postgres.h"

#include "access/xact.h"
#include "mb/pg_wchar.h"
#include "config/owner.h"
#include "tables/base/derived.h"
#include "tables/base/error_class.h"
#include "utils/memutils.h"
#include "utils/resowner.h"
#include "utils/rls.h"

/* A trigger may raise a message of any length; a dead letter keeps this many bytes. */
#define TEXT_MAX	1000

/*
 * By the class of the SQLSTATE.  A class that is missing here blames the row: above all 22 (data), 23 (constraints),
 * P0, and codes that users' triggers make up.
 */
static const struct
{
	char		class[3];
	AtpErrorClass fault;
	bool		row_too;		/* a trigger may fail with this class because of a row's value */
}			faults[] = {
	{"08", ATP_ERROR_PASSING, false},	/* connections */
	{"0A", ATP_ERROR_SETUP, true},	/* unsupported features */
	{"25", ATP_ERROR_PASSING, true},	/* transaction state */
	{"26", ATP_ERROR_SETUP, true},	/* statement names */
	{"28", ATP_ERROR_SETUP, true},	/* authorization */
	{"2B", ATP_ERROR_SETUP, true},	/* dependent privilege descriptors */
	{"2D", ATP_ERROR_SETUP, true},	/* transaction termination, by a trigger */
	{"2F", ATP_ERROR_SETUP, true},	/* functions doing what their attributes forbid */
	{"38", ATP_ERROR_SETUP, true},	/* external functions */
	{"39", ATP_ERROR_SETUP, true},	/* calls of external functions */
	{"3D", ATP_ERROR_SETUP, true},	/* catalog names */
	{"3F", ATP_ERROR_SETUP, true},	/* schema names */
	{"40", ATP_ERROR_PASSING, false},	/* serialization, deadlocks */
	{"42", ATP_ERROR_SETUP, true},	/* syntax, names, types, privileges */
	{"53", ATP_ERROR_PASSING, false},	/* resources */
	{"55", ATP_ERROR_PASSING, true},	/* objects in use */
	{"57", ATP_ERROR_PASSING, false},	/* operator's intervention */
	{"58", ATP_ERROR_PASSING, false},	/* system */
	{"72", ATP_ERROR_PASSING, true},	/* snapshots */
	{"AT", ATP_ERROR_SETUP, false}, /* ATP_ERRCODE_STOP */
	{"F0", ATP_ERROR_PASSING, false},	/* configuration files */
	{"HV", ATP_ERROR_PASSING, false},	/* foreign servers */
	{"XX", ATP_ERROR_PASSING, true},	/* internal errors */
};

/* Index of the class in faults[]; -1: the class is missing, so the row is to blame. */
static int
class_of(int sqlstate)
{
	const char *code = unpack_sql_state(sqlstate);

	for (int i = 0; i < lengthof(faults); i++)
		if (memcmp(code, faults[i].class, 2) == 0)
			return i;
	return -1;
}

AtpErrorClass
atp_error_class(int sqlstate)
{
	int			class = class_of(sqlstate);

	return class < 0 ? ATP_ERROR_ROW : faults[class].fault;
}

bool
atp_sqlstate_may_be_row(int sqlstate)
{
	static const int never[] = {
		ERRCODE_LOCK_NOT_AVAILABLE, ERRCODE_OBJECT_IN_USE, ERRCODE_DATA_CORRUPTED, ERRCODE_INDEX_CORRUPTED
	};
	int			class = class_of(sqlstate);

	for (int i = 0; i < lengthof(never); i++)
		if (sqlstate == never[i])
			return false;
	return class < 0 || faults[class].row_too;
}

/*
 * Do the tables give another reason for this error than a row's value?  A row security policy refuses rows with the
 * SQLSTATE of a lacking privilege, and an error that Citus reports may be caused by one node only.  Tables with
 * policies or under Citus therefore exclude the row as the culprit; distributed tables have no triggers that could
 * blame a row.
 */
static bool
lies_in_tables(const AtpApply *a, int sqlstate)
{
	int			uses = a->sink->uses | atp_derived_uses(a->sub);

	for (const AtpTable *const *table = atp_tables; *table != NULL; table++)
	{
		Oid			relid = (*table)->use & uses ? atp_target_table(a->statements, (*table)->name) : InvalidOid;

		if (!OidIsValid(relid))
			continue;
		if (atp_target_is_distributed(a->statements, *table) ||
			(sqlstate == ERRCODE_INSUFFICIENT_PRIVILEGE && check_enable_rls(relid, InvalidOid, true) == RLS_ENABLED))
			return true;
	}
	return false;
}

bool
atp_error_may_be_row(const AtpApply *a, const ErrorData *error)
{
	return atp_error_class(error->sqlerrcode) == ATP_ERROR_ROW ||
		(atp_sqlstate_may_be_row(error->sqlerrcode) && !lies_in_tables(a, error->sqlerrcode));
}

ErrorData *
atp_attempt(AtpApply *a, AtpStep step, int first, int second)
{
	MemoryContext cxt = CurrentMemoryContext;
	MemoryContext own = AllocSetContextCreate(cxt, "atproto attempt", ALLOCSET_DEFAULT_SIZES);
	ResourceOwner owner = CurrentResourceOwner;
	AtpApply	before = *a;
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
		/* the step may have put a batch of its own into *a, which is gone with the step's memory */
		MemoryContextSwitchTo(before.batch->cxt);
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
		if (atp_error_class(error->sqlerrcode) == ATP_ERROR_PASSING && !atp_error_may_be_row(a, error))
			ReThrowError(error);
		/* the section that the ERROR has left open is not the place of a later ERROR */
		atp_queue_wait.in_queue = false;
	}
	return error;
}

bool
atp_is_cancelled(const ErrorData *error)
{
	return ERRCODE_TO_CATEGORY(error->sqlerrcode) == ERRCODE_OPERATOR_INTERVENTION &&
		error->funcname != NULL && strcmp(error->funcname, "ProcessInterrupts") == 0;
}

const char *
atp_error_text(const ErrorData *error)
{
	const char *message = error->message ? error->message : "unknown error";

	return pnstrdup(message, pg_mbcliplen(message, strlen(message), TEXT_MAX));
}
