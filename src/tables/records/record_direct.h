/*
 * record_direct.h
 *		Records into their table, by key; without statements where heap.c can do it.
 */
#ifndef ATP_RECORD_DIRECT_H
#define ATP_RECORD_DIRECT_H

#include "tables/direct/direct_insert.h"
#include "tables/records/record.h"

/* In the order of the primary key, and of one key in the order given: neighbours share pages. */
extern void atp_records_sort(const AtpRecordRow **records, int n);

/* What is written of records that are put. */
extern AtpRows *atp_record_rows(AtpStatements *set, const AtpRecordRow **records, int n);

/*
 * What operations come to that follow each other in this order: of a key, what is left after
 * the last one.  False: statements have to do it, one operation on a key after the other.
 */
extern bool atp_records_write(AtpApply *a, const AtpRecordRow **records, int n);

#endif							/* ATP_RECORD_DIRECT_H */
