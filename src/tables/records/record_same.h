/*
 * record_same.h
 *		Records that a #sync of an archive brings again, unchanged (H-32).
 *
 * A #sync removes all records of the account, and the rows behind it bring the account's records back.  Most of these are in the table
 * already.  Written again, each of them would be a new version, and fire triggers, although nothing has changed.  So the rows behind a #sync,
 * as far as the batch has them, are compared with the table: equal records stay as they are, and the #sync removes only the others.
 */
#ifndef ATP_RECORD_SAME_H
#define ATP_RECORD_SAME_H

#include "tables/base/sink.h"

/* Records that stay, of one account; all zeros: none. */
typedef struct AtpSameRecords
{
	const AtpRecordRow **rows;
	int			n;
} AtpSameRecords;

/*
 * Of the rows behind the event of a #sync, up to the event hi, find the records that are in the table with the same CID, and with a
 * revision up to that of the #sync: a later revision would refuse changes behind the #sync.  These rows become AtpRow.known.  effects:
 * of the events from the #sync on.
 */
extern AtpSameRecords atp_records_same(AtpApply *a, int sync, int hi, const AtpEffect *effects);

#endif							/* ATP_RECORD_SAME_H */
