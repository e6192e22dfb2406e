/*
 * key_plan.h
 *		Plans of statements that know the whole key of each row.
 */
#ifndef ATP_KEY_PLAN_H
#define ATP_KEY_PLAN_H

#include "postgres.h"

/*
 * The planner uses unique indexes only for the statement whose first parameter is this array; NULL: end.  Statements that
 * triggers run meanwhile are planned as usual.
 */
extern void atp_plan_by_key(void *first);

#endif							/* ATP_KEY_PLAN_H */
