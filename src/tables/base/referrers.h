/*
 * referrers.h
 *		Foreign keys to a table by columns of other types.
 */
#ifndef ATP_TABLES_REFERRERS_H
#define ATP_TABLES_REFERRERS_H

extern void atp_check_referrers(Oid relid);

#endif
