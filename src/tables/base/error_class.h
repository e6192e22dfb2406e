/*
 * error_class.h
 *		Whose fault an error of the database is, and steps that may fail alone.
 */
#ifndef ATP_ERROR_CLASS_H
#define ATP_ERROR_CLASS_H

#include "postgres.h"

#include "tables/base/sink.h"

/*
 * SQLSTATE of an ERROR of our own: nothing of the transaction may be committed,
 * and the subscription must stop.
 */
#define ATP_ERRCODE_STOP	MAKE_SQLSTATE('A', 'T', '0', '0', '2')

typedef enum AtpFault
{
	ATP_FAULT_ROW,				/* of what was written: a dead letter */
	ATP_FAULT_SETUP,			/* of the schema, of privileges, of the plan: stop */
	ATP_FAULT_PASSING			/* of the moment, or of this machine: try again later */
} AtpFault;

extern AtpFault atp_fault_of(int sqlstate);

/*
 * Can an error with this SQLSTATE come of a row's value, whatever its class says: for example if a trigger casts a
 * stranger's text to a type of that name?  suspect.h says when the row is to blame.
 */
extern bool atp_fault_may_be_row(int sqlstate);

typedef void (*AtpStep) (AtpApply *a, int, int);

/*
 * Run a step in a subtransaction, and in memory of its own.  NULL, or the error,
 * in the batch's memory; one of ATP_FAULT_PASSING is raised, unless it may be a row's.
 */
extern ErrorData *atp_attempt(AtpApply *a, AtpStep step, int, int);

/* In a transaction: may this error be of a row, as the tables are? */
extern bool atp_error_may_be_row(const AtpApply *a, const ErrorData *error);

/* The error in one line; never NULL. */
extern const char *atp_error_text(const ErrorData *error);

#endif							/* ATP_ERROR_CLASS_H */
