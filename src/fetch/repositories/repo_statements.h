/*
 * repo_statements.h
 *		Caches prepared statements on the tables of a target for all its repositories.
 */
#ifndef ATP_REPO_STATEMENTS_H
#define ATP_REPO_STATEMENTS_H

#include "tables/base/statements.h"

/* Get statements for this target's tables, prepared and run as this role. */
extern AtpStatements *atp_repo_statements_get(const char *target, Oid owner);

/*
 * Give statements back.  spoilt: a transaction with these statements failed, so no later transfer
 * gets them.
 */
extern void atp_repo_statements_put(AtpStatements *statements, bool spoilt);

#endif							/* ATP_REPO_STATEMENTS_H */
