/*
 * lexicons.c
 *		Lexicons by their NSIDs, out of the table or as they were given.
 *
 * A document is read as it is committed now, or written by this transaction: never as an
 * older snapshot has it, since what is kept here outlives the snapshot, and nobody would
 * tell of the change that came between.
 */
#include "postgres.h"

#include "access/xact.h"
#include "commands/trigger.h"
#include "common/hashfn.h"
#include "config/extension.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "lexicon/lexicons.h"
#include "miscadmin.h"
#include "types/types.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

PG_FUNCTION_INFO_V1(atp_lexicon_changed);

/* Beyond that all are forgotten: Lexicons may be large, and NSIDs come from strangers. */
#define KNOWN_MAX	10000
#define BYTES_MAX	((Size) 64 * 1024 * 1024)

static inline bool
same_id(AtpSpan a, AtpSpan b)
{
	return a.len == b.len && memcmp(a.ptr, b.ptr, a.len) == 0;
}

#define SH_PREFIX lexhash
#define SH_ELEMENT_TYPE AtpLexicon
#define SH_KEY_TYPE AtpSpan
#define SH_KEY id
#define SH_HASH_KEY(tb, key) hash_bytes((const unsigned char *) (key).ptr, (int) (key).len)
#define SH_EQUAL(tb, a, b) same_id((a), (b))
#define SH_SCOPE static inline
#define SH_DECLARE
#define SH_DEFINE
#include "lib/simplehash.h"

struct AtpLexicons
{
	MemoryContext cxt;
	lexhash_hash *found;
	Jsonb	   *given;			/* NULL: the table's */
};

/* The table's; cxt NULL: none is known yet. */
static AtpLexicons known;
static Oid	known_to;			/* role that may read them */
static bool provisional;		/* read by a snapshot that was there */
static bool changed;
static Oid	watched[2];			/* tables that have them */

static void
relcache_callback(Datum arg, Oid relid)
{
	if (relid == InvalidOid || relid == watched[0] || relid == watched[1])
		changed = true;
}

static void
watch(void)
{
	static bool registered = false;

	watched[0] = atp_relation("lexicon_bundled");
	watched[1] = atp_relation("lexicon_loaded");
	if (!registered)
		CacheRegisterRelcacheCallback(relcache_callback, (Datum) 0);
	registered = true;
}

AtpLexicons *
atp_lexicons_known(void)
{
	if (known.cxt != NULL && (changed || known_to != GetUserId() || (provisional && !IsInParallelMode()) ||
							  known.found->members > KNOWN_MAX ||
							  MemoryContextMemAllocated(known.cxt, true) > BYTES_MAX))
	{
		MemoryContextDelete(known.cxt);
		known.cxt = NULL;
	}
	if (known.cxt == NULL)
	{
		watch();
		known_to = GetUserId();
		provisional = false;
		changed = false;
		known.cxt = AllocSetContextCreate(TopMemoryContext, "atproto Lexicons", ALLOCSET_DEFAULT_SIZES);
		known.found = lexhash_create(known.cxt, 64, NULL);
	}
	return &known;
}

AtpLexicons *
atp_lexicons_given(Jsonb *docs)
{
	AtpLexicons *lexicons = palloc(sizeof(AtpLexicons));

	*lexicons = (AtpLexicons) {CurrentMemoryContext, lexhash_create(CurrentMemoryContext, 16, NULL), docs};
	return lexicons;
}

/* The document of the table, in the current memory context; NULL: none. */
static Jsonb *
read_document(AtpSpan id)
{
	MemoryContext cxt = CurrentMemoryContext;
	Oid			type = atp_type("nsid");
	Datum		arg = PointerGetDatum(atp_nsid_make(id.ptr, id.len));
	char	   *sql = psprintf("SELECT doc FROM atproto.lexicon WHERE id OPERATOR(%s.=) $1", atp_extension_schema());
	bool		fresh = !IsInParallelMode();
	Jsonb	   *doc = NULL;

	/* no other snapshot can be taken there; what it finds is not kept for longer */
	provisional = provisional || !fresh;
	if (fresh)
		PushActiveSnapshot(GetLatestSnapshot());
	SPI_connect();
	if (SPI_execute_with_args(sql, 1, &type, &arg, NULL, true, 1) != SPI_OK_SELECT)
		elog(ERROR, "could not read atproto.lexicon");
	if (SPI_processed > 0)
	{
		bool		isnull;
		Datum		value = SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &isnull);
		MemoryContext spi = MemoryContextSwitchTo(cxt);

		if (!isnull)
			doc = DatumGetJsonbPCopy(value);
		MemoryContextSwitchTo(spi);
	}
	SPI_finish();
	if (fresh)
		PopActiveSnapshot();
	return doc;
}

static bool
has_id(Jsonb *doc, AtpSpan id)
{
	JsonbValue	v;

	return JB_ROOT_IS_OBJECT(doc) && getKeyJsonValueFromContainer(&doc->root, "id", 2, &v) != NULL &&
		v.type == jbvString && same_id((AtpSpan) {v.val.string.val, v.val.string.len}, id);
}

static Jsonb *
given_document(Jsonb *given, AtpSpan id)
{
	if (!JB_ROOT_IS_ARRAY(given))
		return has_id(given, id) ? given : NULL;
	for (int i = 0; i < JB_ROOT_COUNT(given); i++)
	{
		Jsonb	   *doc = JsonbValueToJsonb(getIthJsonbValueFromContainer(&given->root, i));

		if (has_id(doc, id))
			return doc;
		CHECK_FOR_INTERRUPTS();
	}
	return NULL;
}

AtpLexicon
atp_lexicons_get(AtpLexicons *lexicons, AtpSpan id)
{
	AtpLexicon *entry = lexhash_lookup(lexicons->found, id);
	MemoryContext work;
	MemoryContext old;
	AtpLexicon	found = {{NULL, 0}};
	char	   *copy;
	char	   *fault = NULL;
	Jsonb	   *json;
	bool		inserted;

	if (entry != NULL)
		return *entry;
	work = AllocSetContextCreate(CurrentMemoryContext, "atproto Lexicon", ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(work);
	json = lexicons->given == NULL ? read_document(id) : given_document(lexicons->given, id);
	MemoryContextSwitchTo(lexicons->cxt);
	if (json != NULL)
		found.doc = atp_lexicon_compile(json, &fault);
	/* a view could give another one */
	if (found.doc != NULL && !same_id(found.doc->id, id))
		found.doc = NULL;
	found.fault = fault;
	copy = palloc(id.len + 1);
	memcpy(copy, id.ptr, id.len);
	entry = lexhash_insert(lexicons->found, (AtpSpan) {copy, id.len}, &inserted);
	entry->doc = found.doc;
	entry->fault = found.fault;
	MemoryContextSwitchTo(old);
	MemoryContextDelete(work);
	return *entry;
}

/* SQL: atproto.lexicon_changed(), after each statement: every process that has compiled some hears of it, at commit. */
Datum
atp_lexicon_changed(PG_FUNCTION_ARGS)
{
	if (!CALLED_AS_TRIGGER(fcinfo))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("function \"%s\" was not called by a trigger", "lexicon_changed")));
	CacheInvalidateRelcache(((TriggerData *) fcinfo->context)->tg_relation);
	return PointerGetDatum(NULL);
}
