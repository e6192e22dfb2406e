/*
 * hiding.c
 *		Hidden accounts: the column hidden_at of the table repo.
 */
#include "postgres.h"

#include "config/target.h"
#include "tables/base/hiding.h"
#include "utils/lsyscache.h"

bool
atp_has_hiding(const char *target)
{
	Oid			repo = atp_target_relid(target, "repo");

	return OidIsValid(repo) && get_attnum(repo, "hidden_at") != InvalidAttrNumber;
}
