/*
 * record_direct.h
 *		Records into the table record in key order, without statements where direct_open.c allows
 *		that.
 */
#ifndef ATP_RECORD_DIRECT_H
#define ATP_RECORD_DIRECT_H

#include "tables/direct/direct.h"
#include "tables/records/record.h"

/* Sort by primary key, keeping the given order within a key: records with neighbouring keys share pages. */
extern void atp_records_sort(const AtpRecordRow **records, int n);

/* Rows of the table record for records that are put. */
extern AtpRows *atp_record_rows(AtpStatements *set, const AtpRecordRow **records, int n);

/*
 * Write the result of operations in the given order: for each key, the record after the last operation.  False:
 * nothing was written, and statements have to apply one operation on a key after the other.
 */
extern bool atp_records_write(AtpApply *a, const AtpRecordRow **records, int n);

#endif							/* ATP_RECORD_DIRECT_H */
