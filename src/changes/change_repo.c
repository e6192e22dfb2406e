/*
 * change_repo.c
 *		Changes of the table repo: events of the kinds identity and account, and the revisions of deletions.
 *
 * Each commit of an account updates the account's row, and an UPDATE has no old row in WAL, unless the table's replica identity is
 * FULL.  So whoever changes the handle or the status announces it (announce.h), and the message is made of the row.
 */
#include "postgres.h"

#include "changes/announce.h"
#include "changes/change.h"
#include "changes/change_size.h"
#include "changes/change_write.h"
#include "common/hashfn.h"
#include "types/types.h"
#include "utils/memutils.h"

/* A repository that the transaction has written. */
typedef struct Repo
{
	const struct varlena *did;	/* key */
	uint64		rev;
	int			announced;
} Repo;

/* More than a batch has.  A transaction with more repositories is somebody's UPDATE of the whole table. */
#define REPOS_MAX	100000

static uint32
hash_did(const void *key, Size size)
{
	const struct varlena *did = *(const struct varlena *const *) key;

	return hash_bytes((const void *) VARDATA_ANY(did), VARSIZE_ANY_EXHDR(did));
}

static int
match_did(const void *a, const void *b, Size size)
{
	return atp_compare_did_refs(a, b);
}

static void
forget_repos(AtpChangeTxn *txn)
{
	HASHCTL		ctl = {
		.keysize = sizeof(struct varlena *),
		.entrysize = sizeof(Repo),
		.hash = hash_did,
		.match = match_did,
		.hcxt = txn->repo_context
	};

	MemoryContextReset(txn->repo_context);
	txn->repos = hash_create("atproto repositories of a transaction", 64, &ctl, HASH_ELEM | HASH_FUNCTION | HASH_COMPARE | HASH_CONTEXT);
}

static Repo *
enter_repo(AtpChangeTxn *txn, const struct varlena *did)
{
	Repo	   *repo = txn->repos == NULL ? NULL : hash_search(txn->repos, &did, HASH_FIND, NULL);
	bool		found;

	/* an announced repository keeps its entry until the change of the row that the announcement is about */
	if (repo != NULL)
		return repo;
	if (txn->repos == NULL || hash_get_num_entries(txn->repos) >= REPOS_MAX)
		forget_repos(txn);
	repo = hash_search(txn->repos, &did, HASH_ENTER, &found);
	if (!found)
	{
		struct varlena *copy = MemoryContextAlloc(txn->repo_context, VARSIZE_ANY(did));

		memcpy(copy, did, VARSIZE_ANY(did));
		repo->did = copy;
		repo->rev = 0;
		repo->announced = 0;
	}
	return repo;
}

uint64
atp_change_rev(const AtpChangeTxn *txn, const struct varlena *did)
{
	const Repo *repo = txn->repos == NULL ? NULL : hash_search(txn->repos, &did, HASH_FIND, NULL);

	return repo == NULL ? 0 : repo->rev;
}

void
atp_change_announce(AtpChangeTxn *txn, const struct varlena *did, int what)
{
	enter_repo(txn, did)->announced |= what;
}

static bool
same_text(const AtpRowChange *change, int column)
{
	const char *had = atp_change_text(change->had, column);
	const char *has = atp_change_text(change->has, column);

	return had == NULL || has == NULL ? had == has : strcmp(had, has) == 0;
}

/* The old row decides, where WAL has it; an insertion tells what is not as with a new repository. */
static int
what_changed(const AtpRowChange *change, const Repo *repo)
{
	const AtpChangeRow *has = change->has;
	bool		handle,
				status;

	if (change->had != NULL && change->whole)
	{
		handle = !same_text(change, ATP_REPO_HANDLE);
		status = !same_text(change, ATP_REPO_ACTIVE) || !same_text(change, ATP_REPO_STATUS) ||
			change->had->nulls[ATP_REPO_HIDDEN] != has->nulls[ATP_REPO_HIDDEN];
	}
	else if (change->update)
		return repo->announced;
	else
	{
		handle = !has->nulls[ATP_REPO_HANDLE];
		status = !has->nulls[ATP_REPO_STATUS] || !has->nulls[ATP_REPO_HIDDEN] || (!has->nulls[ATP_REPO_ACTIVE] && !DatumGetBool(has->values[ATP_REPO_ACTIVE]));
	}
	return (handle ? ATP_CHANGE_HANDLE : 0) | (status ? ATP_CHANGE_STATUS : 0);
}

static void
tell_identity(const AtpRowChange *change, const char *did)
{
	StringInfo	out = atp_message_begin(change->changes, change->txn, "identity", change->table->target, did);

	appendStringInfo(out, ",\"identity\":{\"did\":\"%s\"", did);
	atp_append_text(out, ",", "handle", atp_change_text(change->has, ATP_REPO_HANDLE));
	appendStringInfoChar(out, '}');
	atp_message_end(change->changes);
}

static void
tell_account(const AtpRowChange *change, const char *did)
{
	StringInfo	out;
	bool		active = !change->has->nulls[ATP_REPO_ACTIVE] && DatumGetBool(change->has->values[ATP_REPO_ACTIVE]);
	bool		taken_down = active && !change->has->nulls[ATP_REPO_HIDDEN];

	if (!atp_change_fits(change, change->has, NULL))
	{
		atp_change_tell_unknown(change->changes, change->txn, change->table);
		return;
	}
	out = atp_message_begin(change->changes, change->txn, "account", change->table->target, did);
	appendStringInfo(out, ",\"account\":{\"did\":\"%s\",\"active\":%s", did, active && !taken_down ? "true" : "false");
	/* to a reader, this database is the host that has taken the account down */
	atp_append_text(out, ",", "status", taken_down ? "takendown" : atp_change_text(change->has, ATP_REPO_STATUS));
	appendStringInfoChar(out, '}');
	atp_message_end(change->changes);
}

/* The row is gone, as after erase(): nothing more is known of the account. */
static void
tell_gone(const AtpRowChange *change)
{
	const char *did = atp_change_text(change->had, ATP_REPO_DID);
	StringInfo	out;

	if ((change->changes->options.kinds & (ATP_CHANGE_IDENTITIES | ATP_CHANGE_ACCOUNTS)) == 0 ||
		!atp_change_has_did(&change->changes->options, PG_DETOAST_DATUM_PACKED(change->had->values[ATP_REPO_DID])))
		return;
	out = atp_message_begin(change->changes, change->txn, "purge", change->table->target, did);
	appendStringInfo(out, ",\"table\":\"repo\",\"account\":{\"did\":\"%s\"}", did);
	atp_message_end(change->changes);
}

void
atp_change_of_repo(const AtpRowChange *change)
{
	struct varlena *did;
	Repo	   *repo;
	int			what;

	if (change->has == NULL)
	{
		tell_gone(change);
		return;
	}
	did = PG_DETOAST_DATUM_PACKED(change->has->values[ATP_REPO_DID]);
	if (!atp_change_has_did(&change->changes->options, did))
		return;
	repo = enter_repo(change->txn, did);
	if (!change->has->nulls[ATP_REPO_REV])
		repo->rev = DatumGetAtpTid(change->has->values[ATP_REPO_REV]);
	what = what_changed(change, repo);
	repo->announced = 0;
	if ((what & ATP_CHANGE_HANDLE) && (change->changes->options.kinds & ATP_CHANGE_IDENTITIES))
		tell_identity(change, atp_change_text(change->has, ATP_REPO_DID));
	if ((what & ATP_CHANGE_STATUS) && (change->changes->options.kinds & ATP_CHANGE_ACCOUNTS))
		tell_account(change, atp_change_text(change->has, ATP_REPO_DID));
}
