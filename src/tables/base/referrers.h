/*
 * referrers.h
 *		ERROR for a foreign key that would make every deletion in a data table fail.
 */
#ifndef ATP_TABLES_REFERRERS_H
#define ATP_TABLES_REFERRERS_H

extern void atp_check_referrers(Oid relid);

#endif
