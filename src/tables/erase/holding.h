/*
 * holding.h
 *		Which columns of the extension's tables and of the data tables can hold an account, and what erase() does with
 *		their rows.
 *
 * Each column that can hold a DID, a URI, bytes or text has an entry.  277_erase compares the entries with the catalogue: so
 * nobody can add a column, and forget erase().
 */
#ifndef ATP_HOLDING_H
#define ATP_HOLDING_H

#include "postgres.h"

typedef enum AtpHolding
{
	ATP_HOLDS_RECORDS,			/* erased in pieces, with the repository's row (erase_target.c) */
	ATP_HOLDS_ROWS,				/* of a data table: erased after the repository's row */
	ATP_HOLDS_LOG,				/* the directory's log: erased with directory => true */
	ATP_HOLDS_BY_TARGET,		/* of schema atproto: erased together with the repository's row */
	ATP_HOLDS_BY_OWNER,			/* of schema atproto: rows of the caller are erased */
	ATP_HOLDS_LOG_BY_OWNER,		/* of schema atproto: rows of the caller are erased with directory => true */
	ATP_HOLDS_KEPT,				/* may name the account, and stays */
	ATP_HOLDS_NONE				/* cannot hold an account */
} AtpHolding;

typedef struct AtpHoldingEntry
{
	const char *relation;		/* "#.name": a data table; "atproto.name" */
	const char *columns;		/* names; "*": all */
	AtpHolding	holds;

	/*
	 * SQL: does row x hold the account?  $1: the account, $2: its DID as text, $3: OID of the caller, $4: the target, as
	 * name, or null: all, $5: has the caller the rights of the extension's owner?  $6, $7: regular expressions for the DID
	 * in text and in bytes, which a longer DID does not match.  NULL: for ATP_HOLDS_KEPT, one of the
	 * columns has the DID's text.
	 */
	const char *find;
	const char *why;			/* for users: why the rows go or stay */
} AtpHoldingEntry;

/* Ends with a null. */
extern const AtpHoldingEntry atp_holdings[];
extern const int atp_nholdings;

/* Is the entry about a data table? */
extern bool atp_holding_is_data(const AtpHoldingEntry *entry);

/* Name of the entry's table, without the schema. */
extern const char *atp_holding_table(const AtpHoldingEntry *entry);

/* SQL with the parameters $1 to $7 that is true for rows x of the entry with the account; palloc'd, with @ and #. */
extern const char *atp_holding_condition(const AtpHoldingEntry *entry);

/* Values of the parameters. */
struct AtpArg;
extern void atp_holding_args(struct AtpArg *args, const struct varlena *did, Oid caller, const char *target, bool everything);

#define ATP_HOLDING_ARGS	7

#endif							/* ATP_HOLDING_H */
