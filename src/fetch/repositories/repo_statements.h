/*
 * repo_statements.h
 *		Statements on the tables of a target, prepared once for all its repositories.
 */
#ifndef ATP_REPO_STATEMENTS_H
#define ATP_REPO_STATEMENTS_H

#include "tables/base/statements.h"

/* For this target's tables, as this role. */
extern AtpStatements *atp_repo_statements_get(const char *target, Oid owner);

/* They are not needed any more.  spoilt: something has failed, maybe because of them; the next who needs some gets others. */
extern void atp_repo_statements_put(AtpStatements *statements, bool spoilt);

#endif							/* ATP_REPO_STATEMENTS_H */
