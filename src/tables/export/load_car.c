/*
 * load_car.c
 *		SQL: atproto.load_car(): writes an export that the caller has into the tables.
 *
 * The export is written like a fetched export, with the rights of the subscription's owner and by
 * the subscription's settings, but in the caller's transaction.  Until the transaction ends, the
 * repository is locked, and consumers with events of the repository wait.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "config/extension.h"
#include "config/option.h"
#include "config/owner.h"
#include "config/spi.h"
#include "config/subscription.h"
#include "config/target.h"
#include "core/syntax/did.h"
#include "data/error.h"
#include "data/signed.h"
#include "fmgr.h"
#include "funcapi.h"
#include "identity/identity.h"
#include "miscadmin.h"
#include "tables/base/blocked.h"
#include "tables/base/derived.h"
#include "tables/base/error_class.h"
#include "tables/base/job.h"
#include "tables/export/export_owner.h"
#include "tables/repos/dead_letter.h"
#include "tables/base/logged.h"
#include "tables/export/merge.h"
#include "tables/export/repo_export.h"
#include "types/types.h"
#include "utils/builtins.h"

PG_FUNCTION_INFO_V1(atp_load_car);

/* Bytes and records processed between two checks for interrupts. */
#define SLICE_BYTES		(64 * 1024)
#define SLICE_RECORDS	1000

#define CAR_LEAST		10		/* bytes; the header alone has more */
#define CAR_MAP			0xa2

typedef struct Load
{
	struct varlena *did;
	char		did_text[ATP_DID_MAX + 1];
	const char *target;
	const AtpSubscription *sub;
	AtpStatements *statements;
	AtpExport  *export;
	bool		verified;		/* the signature was checked ... */
	bool		by_former;		/* ... with a key of the caller that the account's document does not have */
	uint8_t		key[ATP_MULTIKEY_LEN];
	AtpMerged	merged;
} Load;

/* Text that psql or a program sent in place of a file's contents has no other bytes than these. */
static bool
is_plain_text(const uint8_t *bytes, Size len)
{
	for (Size i = 0; i < len; i++)
		if ((bytes[i] < ' ' && strchr("\t\n\r", bytes[i]) == NULL) || bytes[i] == '\0' || bytes[i] > '~')
			return false;
	return true;
}

/* A CAR file begins with the length of its header, which is a map of two members. */
static void
check_beginning(const uint8_t *bytes, Size len)
{
	bool		wrong = len > 1 && bytes[0] < 0x80 && bytes[1] != CAR_MAP;

	if (len == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_BINARY_REPRESENTATION),
				 errmsg("\"%s\" is empty", "car"),
				 errhint("Give the answer of com.atproto.sync.getRepo as it comes, or the contents of a file: pg_read_binary_file('/path/repo.car').")));
	if (len < CAR_LEAST || wrong)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_BINARY_REPRESENTATION),
				 errmsg("\"%s\" is no CAR file", "car"),
				 is_plain_text(bytes, len) ? 0 : wrong ? errdetail("The bytes do not begin with the header of a CAR file.") : errdetail("There are only %zu bytes.", len),
				 is_plain_text(bytes, len) && bytes[0] != '{' && bytes[0] != '<'
				 ? errhint("Give the contents of the file, not its name: pg_read_binary_file('/path/repo.car').")
				 : errhint("Give the answer of com.atproto.sync.getRepo as it comes, uncompressed; an answer of text is an error message or a page.")));
}

static void
read_export(Load *load, const bytea *file)
{
	const uint8_t *bytes = (const uint8_t *) VARDATA_ANY(file);
	Size		len = VARSIZE_ANY_EXHDR(file);
	AtpExportState state = ATP_EXPORT_MORE;

	load->export = atp_export_create(CurrentMemoryContext, (AtpSpan) {load->did_text, strlen(load->did_text)}, false);
	check_beginning(bytes, len);
	for (Size pos = 0; pos < len; pos += SLICE_BYTES)
	{
		CHECK_FOR_INTERRUPTS();
		if (!atp_export_take(load->export, bytes + pos, Min(len - pos, SLICE_BYTES)))
			atp_export_error(load->export);
	}
	if (!atp_export_finish(load->export))
		atp_export_error(load->export);
	while (state == ATP_EXPORT_MORE)
	{
		CHECK_FOR_INTERRUPTS();
		state = atp_export_check(load->export, SLICE_RECORDS);
	}
	if (state == ATP_EXPORT_BAD)
		atp_export_error(load->export);
}

/* The account's key, from atproto.identity. */
static void
read_key(const Load *load, uint8_t *key)
{
	AtpIdentity identity;

	atp_identities_read(&load->did, 1, &identity);
	if (identity.state != ATP_IDENTITY_GOOD || !identity.has_key)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the key of account \"%s\" is not known", load->did_text),
				 errdetail("Subscription \"%s\" has \"verify\" set to \"full\": an export is only taken when the account has signed it.", load->sub->name),
				 errhint("Give the key, or have it looked up by atproto.await().")));
	memcpy(key, identity.key, ATP_MULTIKEY_LEN);
}

/* M-40: has the account's document, as far as known, another key than the one that the caller gives? */
static bool
is_former(const Load *load)
{
	AtpIdentity identity;

	atp_identities_read(&load->did, 1, &identity);
	return identity.has_key && memcmp(identity.key, load->key, ATP_MULTIKEY_LEN) != 0;
}

/*
 * V-05 to V-08: check the signature if verify is full or the caller gives a key.  False: no check
 * was needed.
 */
static bool
check_signature(Load *load, const text *key_text)
{
	if (key_text != NULL)
	{
		atp_key_of_text(key_text, load->key);
		load->by_former = is_former(load);
	}
	else if (load->sub->settings.verify == ATP_VERIFY_FULL)
		read_key(load, load->key);
	else
		return false;
	if (!atp_export_is_signed(load->export, load->key))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 key_text != NULL ? errmsg("the export's commit is not signed by this key")
				 : errmsg("the export's commit is not signed by the account's key")));
	return true;
}

/* Called as the subscription's owner. */
static void
apply_export(Load *load)
{
	AtpApply	a = {.sub = load->sub, .sink = &atp_repos_sink, .statements = load->statements};
	AtpRepoExport *repo;
	AtpMerge   *merge;
	const char *why;

	atp_require_values(load->statements, &load->sub->settings, a.sink->uses | atp_derived_uses(load->sub));
	if (atp_is_blocked_now(load->sub->target, load->did))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("account \"%s\" is blocked", load->did_text),
				 errhint("atproto.unblock() lets the account in again.")));
	repo = atp_repo_export_begin(&a, load->did);
	if (atp_repo_export_refused(repo, atp_export_head(load->export), false, false, &why) != ATP_REFUSED_NOT)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the export of account \"%s\" cannot be brought in", load->did_text),
				 errdetail_internal("%s", why)));
	atp_dead_letters_forget_repo(&a, load->did);
	merge = atp_merge_begin(CurrentMemoryContext, load->sub, load->statements, load->export, load->did);
	while (atp_merge_some(merge, ATP_MERGE_ROWS, PG_INT64_MAX, PG_INT64_MAX))
		;
	load->merged = atp_merge_done(merge);
	(void) atp_repo_export_end(repo, load->export, load->verified, load->by_former ? load->key : NULL);
	atp_merge_counts(merge);
}

/*
 * Lock the subscription that brings the export in, before the repository: dead letters of the export refer to it.  A session
 * may have given it another name or target before the lock.
 */
static const AtpSubscription *
hold_subscription(const Load *load)
{
	const AtpSubscription *sub = atp_export_owner_of(load->target, load->did);
	const AtpSubscription *found = NULL;

	while (found == NULL || strcmp(found->name, sub->name) != 0)
	{
		if (found != NULL)
			sub = found;
		(void) atp_jobs_hold(sub->name);
		found = atp_export_owner_of(load->target, load->did);
	}
	return found;
}

static void
load_car(Load *load, const bytea *file, const text *key)
{
	AtpCaller	caller;

	load->sub = hold_subscription(load);
	atp_check_logged(load->sub->target);
	read_export(load, file);
	load->verified = check_signature(load, key);
	/*
	 * the statement that fired the trigger writes rows that were judged by the tables' state before
	 * the export; the error class stops the consumer, since no single row is the cause
	 */
	if (atp_statements_in_use())
		ereport(ERROR,
				(errcode(ATP_ERRCODE_STOP),
				 errmsg("exports cannot be brought in by a trigger of the tables that are being filled")));
	load->statements = atp_statements_create(load->sub->target, ATP_WRITER_OTHER);
	PG_TRY();
	{
		caller = atp_target_begin(load->sub);
		apply_export(load);
		atp_owner_end(caller);
	}
	PG_FINALLY();
	{
		atp_statements_free(load->statements);
	}
	PG_END_TRY();
}

static HeapTuple
make_result(const Load *load, TupleDesc desc)
{
	Datum		values[] = {
		AtpTidGetDatum(atp_export_head(load->export)->rev),
		Int64GetDatum(load->merged.created), Int64GetDatum(load->merged.updated), Int64GetDatum(load->merged.deleted),
		Int64GetDatum(load->merged.same), Int64GetDatum(load->merged.refused)
	};
	bool		nulls[lengthof(values)] = {false};

	return heap_form_tuple(desc, values, nulls);
}

/* SQL: atproto.load_car(did, car, target, key) */
Datum
atp_load_car(PG_FUNCTION_ARGS)
{
	MemoryContext caller_cxt = CurrentMemoryContext;
	Load		load = {.target = NULL};
	TupleDesc	desc;
	HeapTuple	tuple;
	MemoryContext old;
	int			nest;

	if (PG_ARGISNULL(0) || PG_ARGISNULL(1) || PG_ARGISNULL(2))
		atp_argument_is_null(PG_ARGISNULL(0) ? "did" : PG_ARGISNULL(1) ? "car" : "target");
	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	atp_require_utf8();
	desc = BlessTupleDesc(desc);
	load.did = PG_GETARG_VARLENA_PP(0);
	load.did_text[atp_did_copy(load.did, load.did_text)] = '\0';
	load.target = NameStr(*PG_GETARG_NAME(2));
	SPI_connect();
	nest = atp_caller_begin();
	load_car(&load, PG_GETARG_BYTEA_PP(1), PG_ARGISNULL(3) ? NULL : PG_GETARG_TEXT_PP(3));
	atp_caller_end(nest);
	old = MemoryContextSwitchTo(caller_cxt);
	tuple = make_result(&load, desc);
	MemoryContextSwitchTo(old);
	atp_export_free(load.export);
	SPI_finish();
	return HeapTupleGetDatum(tuple);
}
