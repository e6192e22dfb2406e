/*
 * key_plan.h
 *		Plans of statements that know the whole key of each row.
 */
#ifndef ATP_KEY_PLAN_H
#define ATP_KEY_PLAN_H

#include "postgres.h"

/*
 * From now on the statement that is planned with this as its first parameter, an array, is
 * offered unique indexes only; NULL: none is.  Whatever its triggers run is planned as ever.
 */
extern void atp_plan_by_key(void *first);

#endif							/* ATP_KEY_PLAN_H */
