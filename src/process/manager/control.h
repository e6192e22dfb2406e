/*
 * control.h
 *		SQL functions of control that other files of the room call.
 */
#ifndef ATP_CONTROL_H
#define ATP_CONTROL_H

#include "postgres.h"

#include "fmgr.h"

extern PGDLLEXPORT Datum atp_set_cursor(PG_FUNCTION_ARGS);

#endif							/* ATP_CONTROL_H */
