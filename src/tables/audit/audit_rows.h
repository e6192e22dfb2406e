/*
 * audit_rows.h
 *		The records of a repository as its tree has them, in the tree's order.
 */
#ifndef ATP_AUDIT_ROWS_H
#define ATP_AUDIT_ROWS_H

#include "postgres.h"

#include "config/spi.h"
#include "core/atp.h"

/* A record.  What it points to lasts until the next one is asked for. */
typedef struct AtpAuditRow
{
	AtpBytes	path;			/* collection, '/', record key; ptr NULL: a user's table has none */
	AtpBytes	cid;			/* likewise */
	bool		has_value;		/* these only if they were asked for */
	bool		has_raw;
	Datum		value;			/* jsonb */
	Datum		raw;			/* bytea */
} AtpAuditRow;

/* A record's path, in a statement. */
#define ATP_AUDIT_PATH	"collection::pg_catalog.text OPERATOR(pg_catalog.||) '/' OPERATOR(pg_catalog.||) rkey::pg_catalog.text AS path"

/*
 * The table record of one target, open within one transaction and one snapshot,
 * the active one.  SPI is connected.  With the current user's rights.
 */
typedef struct AtpAuditRows AtpAuditRows;

extern AtpAuditRows *atp_audit_rows_open(const char *target, bool with_values);
extern void atp_audit_rows_close(AtpAuditRows *rows);

/* From now on it is about this repository: its records after purge_rev, or all if that is null. */
extern void atp_audit_rows_of(AtpAuditRows *rows, AtpArg did, AtpArg purge_rev);

/* The next record.  False: there is none. */
extern bool atp_audit_rows_next(AtpAuditRows *rows, AtpAuditRow *row);

#endif							/* ATP_AUDIT_ROWS_H */
