/*
 * out_why.c
 *		Why the records of a repository are not those of its last commit, as far as the tables tell (O-03).
 *
 * A tree has another root when any record is missing, and the root does not tell which.  What the tables know of their
 * own omissions does: filters, dead letters, row security, the word in repo.sync.
 */
#include "postgres.h"

#include "common/compat.h"
#include "config/extension.h"
#include "config/target.h"
#include "identity/identity.h"
#include "miscadmin.h"
#include "tables/audit/audit.h"
#include "tables/base/table.h"
#include "tables/out/out_repo.h"
#include "utils/rls.h"

/* The DETAIL and the HINT of the error. */
typedef struct Why
{
	const char *detail;
	const char *hint;
} Why;

/* A dead letter about a record or a commit of the repository; looked up as the table's owner, because a policy hides letters of other roles. */
static Why
dead_letter_of(const AtpOutRepo *repo)
{
	AtpCaller	caller = atp_as_table_owner("dead_letter");
	AtpResult	found;
	Why			why = {NULL, NULL};

	/* '#identity' and '#account' are no records */
	found = atp_audit_look_all(atp_expand_sql("SELECT l.path, l.stage, l.id::text AS id FROM atproto.dead_letter l JOIN atproto.subscription s ON s.name = l.subscription"
											  " WHERE l.did OPERATOR(@.=) $1 AND l.stage IN ('commit', 'record', 'apply', 'beyond') AND NOT starts_with(l.path, '#')"
											  " AND l.superseded_rev IS NULL AND s.target = $2::name ORDER BY l.stage = 'beyond', l.path = '', l.id LIMIT 1", repo->target),
							   (AtpArg[]) {repo->did, atp_text_arg(repo->target)}, 2);
	if (found.n > 0)
	{
		AtpTuple	row = atp_result_row(found, 0);
		const char *path = atp_get_text(row, "path");
		const char *id = atp_get_text(row, "id");

		if (strcmp(atp_get_text(row, "stage"), "beyond") == 0)
			why = (Why) {
				psprintf("More records or commits of the repository were refused than are kept as dead letters (dead letter %s).", id),
				"Mend the reasons of the repository's other dead letters, then fetch the whole repository: see atproto.resync()."
			};
		else
		{
			why.detail = *path != '\0' ? psprintf("Record %s became dead letter %s.", path, id)
				: psprintf("A commit of the repository became dead letter %s.", id);
			why.hint = psprintf("SELECT message FROM atproto.dead_letter WHERE id = %s tells why. When the reason is gone: SELECT atproto.retry(%s).", id, id);
		}
	}
	atp_owner_end(caller);
	return why;
}

/* Does row security hide rows of a table from the current user, or may it? */
static bool
may_be_hidden(const char *target, const char *table)
{
	Oid			relid = atp_target_relid(target, table);

	return OidIsValid(relid) && check_enable_rls(relid, InvalidOid, true) == RLS_ENABLED;
}

void
atp_out_changed(const AtpOutRepo *repo)
{
	ereport(ERROR,
			(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
			 errmsg("records of repository %s in schema \"%s\" have changed while they were read", repo->did_text, repo->target),
			 errhint("Call the function again, or in a transaction with isolation level REPEATABLE READ.")));
}

void
atp_out_differs(const AtpOutRepo *repo)
{
	Why			why = dead_letter_of(repo);

	if (why.detail == NULL && may_be_hidden(repo->target, "record"))
		why = (Why) {
			psprintf("Row security of table \"record\" may hide records from role \"%s\".", GetUserNameFromId(GetUserId(), false)),
			"Call the function as a role that sees all rows."
		};
	if (why.detail == NULL && atp_audit_is_filtered(repo->target))
		why = (Why) {
			"A filter of a subscription leaves out records of its repositories.",
			"A fetch is filtered, too. First let the subscription keep all records: collections and actions are null, and keep_records is true. Then fetch: see atproto.resync()."
		};
	if (why.detail == NULL)
		why = (Why) {
			psprintf("The column sync of table repo is \"%s\".", repo->sync == NULL ? "" : repo->sync),
			"A fetch of the whole repository brings all records: see atproto.resync()."
		};
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("the records of repository %s in schema \"%s\" are not those of its last commit", repo->did_text, repo->target),
			 errdetail_internal("%s", why.detail),
			 errhint("%s", why.hint)));
}
