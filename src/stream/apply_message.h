/*
 * apply_message.h
 *		Events into tables: messages kept as jsonb.  See AtpFamily in family.h.
 */
#ifndef ATP_APPLY_MESSAGE_H
#define ATP_APPLY_MESSAGE_H

#include "stream/family.h"

extern void atp_apply_messages(Apply *a, int lo, int hi);
extern void atp_apply_messages_row(Apply *a, int row, int event);

#endif							/* ATP_APPLY_MESSAGE_H */
