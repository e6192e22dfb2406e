/*
 * error_class.h
 *		Classes of database errors (is a row, the setup, or the moment to blame), and steps in
 *		subtransactions.
 */
#ifndef ATP_ERROR_CLASS_H
#define ATP_ERROR_CLASS_H

#include "postgres.h"

#include "tables/base/sink.h"

/*
 * SQLSTATE of an ERROR raised by this extension: no part of the transaction may be committed, and the subscription
 * must stop.
 */
#define ATP_ERRCODE_STOP	MAKE_SQLSTATE('A', 'T', '0', '0', '2')

/*
 * SQLSTATE of the ERROR that rolls back a transaction so that its batch is applied again at once.  apply.c catches the error, so no
 * user sees this code.
 */
#define ATP_ERRCODE_TRY_AGAIN	MAKE_SQLSTATE('A', 'T', '0', '0', '4')

typedef enum AtpErrorClass
{
	ATP_ERROR_ROW,				/* the row or event is to blame: write a dead letter */
	ATP_ERROR_SETUP,			/* the schema, privileges or a plan is to blame: stop the subscription */
	ATP_ERROR_PASSING			/* the moment or this machine is to blame: try again later */
} AtpErrorClass;

extern AtpErrorClass atp_error_class(int sqlstate);

/*
 * Can a row's value cause an error with this SQLSTATE, although the class blames the setup or the moment?  Example: a
 * trigger casts text from the network to a type name.  suspect.h decides when the row is to blame.
 */
extern bool atp_sqlstate_may_be_row(int sqlstate);

typedef void (*AtpStep) (AtpApply *a, int, int);

/*
 * Run a step in a subtransaction and in a memory context of the step.  Returns NULL, or the error, copied into the
 * batch's memory.  An error of ATP_ERROR_PASSING is raised again, unless a row may be to blame.
 */
extern ErrorData *atp_attempt(AtpApply *a, AtpStep step, int, int);

/* May a row have caused this error, given the policies and distribution of the tables?  Needs a transaction. */
extern bool atp_error_may_be_row(const AtpApply *a, const ErrorData *error);

/*
 * Has a user or an administrator cancelled the statement, or has the statement's time run out?  The SQLSTATE alone does not tell,
 * because a trigger or a function of a user can raise an ERROR with any SQLSTATE.
 */
extern bool atp_is_cancelled(const ErrorData *error);

/* The error's message in at most 1000 bytes; never NULL. */
extern const char *atp_error_text(const ErrorData *error);

#endif							/* ATP_ERROR_CLASS_H */
