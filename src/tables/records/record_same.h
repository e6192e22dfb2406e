/*
 * record_same.h
 *		Records that a #sync of an archive brings again, unchanged (H-32).
 *
 * A #sync removes all records of the account, and the rows behind the #sync bring the account's records back.  Most of these are in
 * the table already.  Written again, each record would be a new version, and fire triggers, although nothing has changed.  So the
 * rows that the batch has behind a #sync are compared with the table: equal records stay as they are, and the #sync removes the others.
 */
#ifndef ATP_RECORD_SAME_H
#define ATP_RECORD_SAME_H

#include "tables/base/sink.h"

/* Records of one account that a #sync leaves in the table; n = 0: the #sync removes all records. */
typedef struct AtpSameRecords
{
	const AtpRecordRow **rows;
	int			n;
} AtpSameRecords;

/*
 * Of the rows behind a #sync, find the records that are in the table with the same CID, and with a revision up to that of the #sync: with
 * a later revision, the table would refuse changes behind the #sync.  Of several rows with one key only the first counts.  The rows
 * that are found become AtpRow.known, so that nothing is written for them.
 */
extern AtpSameRecords atp_records_same(AtpApply *a, AtpRow **rows, int n, uint64 rev);

/* For statements that leave such records: two arrays, of collections and of record keys. */
extern void atp_same_args(AtpStatements *set, AtpSameRecords same, Datum *args);

/* SQL: does the record r differ in its path from each record of the two arrays?  collections, rkeys: the parameters of atp_same_args(). */
#define ATP_SQL_NOT_SAME(collections, rkeys) \
	"NOT EXISTS (SELECT FROM unnest(" collections ", " rkeys ") k (collection, rkey)" \
	" WHERE k.collection OPERATOR(@.=) r.collection AND k.rkey OPERATOR(@.=) r.rkey)"

#endif							/* ATP_RECORD_SAME_H */
