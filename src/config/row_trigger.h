/*
 * row_trigger.h
 *		The call of a trigger function for a row.
 */
#ifndef ATP_ROW_TRIGGER_H
#define ATP_ROW_TRIGGER_H

#include "config/spi.h"
#include "fmgr.h"

typedef struct AtpRowTrigger
{
	bool		inserted;
	bool		updated;
	bool		deleted;
	AtpTuple	old;			/* the row before; of an inserted row: the row itself */
	AtpTuple	row;			/* the row as it will be; of a deleted row: the row itself */
} AtpRowTrigger;

typedef enum AtpRowTime
{
	ATP_BEFORE_ROW,
	ATP_AFTER_ROW
} AtpRowTime;

/* Statements that fire the trigger. */
#define ATP_ON_INSERT	1
#define ATP_ON_DELETE	2
#define ATP_ON_UPDATE	4
#define ATP_ON_ALL		(ATP_ON_INSERT | ATP_ON_DELETE | ATP_ON_UPDATE)

/* The call; an ERROR that names the SQL function, unless a trigger for each row has called it at this time for one of these statements. */
extern AtpRowTrigger atp_row_trigger(FunctionCallInfo fcinfo, const char *function, AtpRowTime time, int statements);

#endif							/* ATP_ROW_TRIGGER_H */
