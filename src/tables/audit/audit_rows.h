/*
 * audit_rows.h
 *		Reads the records of a repository in the tree's order.
 */
#ifndef ATP_AUDIT_ROWS_H
#define ATP_AUDIT_ROWS_H

#include "postgres.h"

#include "config/spi.h"
#include "core/atp.h"

/* A record, valid until the next is read. */
typedef struct AtpAuditRow
{
	AtpBytes	path;			/* collection, '/', record key; ptr NULL: null in a user's table */
	AtpBytes	cid;			/* ptr NULL: null in a user's table */
	bool		has_value;		/* value and raw only if requested */
	bool		has_raw;
	bool		packed;			/* value is a dagcbor */
	Datum		value;			/* jsonb or dagcbor */
	Datum		raw;			/* bytea */
} AtpAuditRow;

/* SQL: a record's path. */
#define ATP_AUDIT_PATH	"collection::pg_catalog.text OPERATOR(pg_catalog.||) '/' OPERATOR(pg_catalog.||) rkey::pg_catalog.text AS path"

/*
 * The table record of a target, open within a transaction and its active snapshot.  SPI must be
 * connected.  The current user's rights count.
 */
typedef struct AtpAuditRows AtpAuditRows;

extern AtpAuditRows *atp_audit_rows_open(const char *target, bool with_values);
extern void atp_audit_rows_close(AtpAuditRows *rows);

/* Begin with this repository: its records after purge_rev, or all records if purge_rev is null. */
extern void atp_audit_rows_of(AtpAuditRows *rows, AtpArg did, AtpArg purge_rev);

/* The next record.  False: no more. */
extern bool atp_audit_rows_next(AtpAuditRows *rows, AtpAuditRow *row);

/* The values of the columns value, of either type, and raw. */
extern void atp_audit_row_values(AtpAuditRow *row, AtpTuple tuple);

#endif							/* ATP_AUDIT_ROWS_H */
