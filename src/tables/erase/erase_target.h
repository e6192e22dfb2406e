/*
 * erase_target.h
 *		Erases an account from the data tables of a target, and from the rows of the extension's tables about this
 *		target.
 */
#ifndef ATP_ERASE_TARGET_H
#define ATP_ERASE_TARGET_H

#include "postgres.h"

#include "common/compat.h"
#include "nodes/pg_list.h"
#include "tables/erase/holding.h"

typedef struct AtpErase
{
	struct varlena *did;
	Oid			caller;
	bool		everything;		/* the caller has the rights of the extension's owner */
	bool		directory;
	const char *target;			/* the only target; NULL: all */
	MemoryContext cxt;			/* outlives transactions */
	int64	   *removed;		/* rows, for each entry of atp_holdings */
	int			foreign;		/* number of targets that the caller may not write: atp_erase_targets() */
	int			elsewhere;		/* number of targets whose rows are on foreign servers: atp_erase_targets() */
} AtpErase;

/*
 * The role with whose rights the caller, who is the current user, may erase rows of the target's tables; InvalidOid: none.  This is the owner of the
 * table repo, or the owner of a subscription that fills the tables, if the caller has the owner's rights.  So no function in
 * the tables gets more rights than a consumer would give it.
 */
extern Oid	atp_erase_role(const char *target, Oid caller);

/*
 * Names of the targets that the caller may write, of all targets or of e->target; an ERROR if this is none of them.  Fills
 * e->foreign and e->elsewhere.
 */
extern List *atp_erase_targets(AtpErase *e);

/* NOTICEs, if the caller may not write some targets, or if rows are on foreign servers. */
extern void atp_erase_report_left(const AtpErase *e);

/* An ERROR in a trigger of a writer of the data tables: the statement that has fired it writes rows by the state that the tables had before. */
extern void atp_erase_refuse_in_trigger(void);

/* Act in the target with the rights that the caller has now: with those of atp_erase_role(). */
extern AtpCaller atp_erase_begin(const AtpErase *e, const char *target);

/* A step in a target: a piece of the erasure, or the change of a row by hide(). */
typedef bool (*AtpEraseStep) (AtpErase *e, const char *target);

/*
 * Call the step in a subtransaction, because the tables of a target are as its owner has made them: a trigger may raise an
 * ERROR.  Returns NULL, or the ERROR.
 */
extern ErrorData *atp_erase_attempt(AtpErase *e, const char *target, AtpEraseStep step, bool *result);

/* An ERROR: the caller has no such role. */
pg_noreturn extern void atp_erase_refuse(const char *target);

/* Erase a piece of the account's records, and with the last piece the repository's row.  False: nothing is left. */
extern bool atp_erase_piece(AtpErase *e, const char *target);

/* Erase the account's rows of the remaining data tables, and warn of rows that a trigger or row security has kept.  False. */
extern bool atp_erase_rows(AtpErase *e, const char *target);

/* Erase rows of the extension's tables, by the entries of this kind. */
extern void atp_erase_own(AtpErase *e, AtpHolding holds, const char *target);

#endif							/* ATP_ERASE_TARGET_H */
