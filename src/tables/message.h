/*
 * message.h
 *		Events into tables: messages kept as jsonb.  See AtpFamily in stream/family.h.
 */
#ifndef ATP_TABLES_MESSAGE_H
#define ATP_TABLES_MESSAGE_H

#include "stream/family.h"

extern void atp_apply_messages(Apply *a, int lo, int hi);
extern void atp_apply_messages_row(Apply *a, int row, int event);

#endif							/* ATP_TABLES_MESSAGE_H */
