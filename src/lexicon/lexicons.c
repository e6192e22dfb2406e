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
#include "common/compat.h"
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

/* Beyond that all are forgotten: Lexicons may be large. */
#define BYTES_MAX	((Size) 64 * 1024 * 1024)

static inline bool
same_id(AtpSpan a, AtpSpan b)
{
	return a.len == b.len && memcmp(a.ptr, b.ptr, a.len) == 0;
}

typedef struct Entry
{
	AtpSpan		id;
	bool		read;			/* it has been looked at */
	Jsonb	   *given;			/* NULL: it is in the table */
	const AtpLexDoc *doc;
	const char *fault;
	char		status;			/* simplehash's */
} Entry;

#define SH_PREFIX lexhash
#define SH_ELEMENT_TYPE Entry
#define SH_KEY_TYPE AtpSpan
#define SH_KEY id
#define SH_HASH_KEY(tb, key) hash_bytes((const unsigned char *) (key).ptr, (int) (key).len)
#define SH_EQUAL(tb, a, b) same_id((a), (b))
#define SH_SCOPE static inline
#define SH_DECLARE
#define SH_DEFINE
#include "lib/simplehash.h"

/* All that there are, so that a collection without a Lexicon costs no query: strangers choose their names. */
struct AtpLexicons
{
	MemoryContext cxt;
	lexhash_hash *entries;
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

/* One more NSID; of several documents with it the first counts. */
static void
add_entry(AtpLexicons *lexicons, AtpSpan id, Jsonb *given)
{
	char	   *copy;
	Entry	   *entry;
	bool		found;

	if (lexhash_lookup(lexicons->entries, id) != NULL)
		return;
	copy = MemoryContextAlloc(lexicons->cxt, id.len + 1);
	memcpy(copy, id.ptr, id.len);
	entry = lexhash_insert(lexicons->entries, (AtpSpan) {copy, id.len}, &found);
	entry->read = false;
	entry->given = given;
	entry->doc = NULL;
	entry->fault = NULL;
}

/* The snapshot of a query about the table; where no new one can be taken, what it finds is not kept for longer. */
static bool
begin_query(void)
{
	bool		fresh = !IsInParallelMode();

	provisional = provisional || !fresh;
	if (fresh)
		PushActiveSnapshot(GetLatestSnapshot());
	SPI_connect();
	return fresh;
}

static void
end_query(bool fresh)
{
	SPI_finish();
	if (fresh)
		PopActiveSnapshot();
}

static void
list_known(AtpLexicons *lexicons)
{
	bool		fresh = begin_query();

	if (SPI_execute("SELECT id FROM atproto.lexicon", true, 0) != SPI_OK_SELECT)
		elog(ERROR, "could not read atproto.lexicon");
	for (uint64 i = 0; i < SPI_processed; i++)
	{
		bool		isnull;
		struct varlena *id = (struct varlena *) DatumGetPointer(SPI_getbinval(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, 1, &isnull));

		if (isnull)
			continue;
		id = PG_DETOAST_DATUM_PACKED(PointerGetDatum(id));
		add_entry(lexicons, (AtpSpan) {VARDATA_ANY(id), VARSIZE_ANY_EXHDR(id)}, NULL);
	}
	end_query(fresh);
}

AtpLexicons *
atp_lexicons_known(void)
{
	AtpLexicons fill;

	if (known.cxt != NULL && (changed || known_to != GetUserId() || (provisional && !IsInParallelMode()) ||
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
		/* an ERROR leaves nothing behind that is not whole */
		fill.cxt = AllocSetContextCreate(CurrentMemoryContext, "atproto Lexicons", ALLOCSET_DEFAULT_SIZES);
		fill.entries = lexhash_create(fill.cxt, 256, NULL);
		list_known(&fill);
		MemoryContextSetParent(fill.cxt, TopMemoryContext);
		known = fill;
	}
	return &known;
}

static void
add_given(AtpLexicons *lexicons, Jsonb *doc)
{
	JsonbValue	v;

	if (JB_ROOT_IS_OBJECT(doc) && getKeyJsonValueFromContainer(&doc->root, "id", 2, &v) != NULL && v.type == jbvString)
		add_entry(lexicons, (AtpSpan) {v.val.string.val, v.val.string.len}, doc);
}

AtpLexicons *
atp_lexicons_given(Jsonb *docs)
{
	AtpLexicons *lexicons = palloc(sizeof(AtpLexicons));

	*lexicons = (AtpLexicons) {CurrentMemoryContext, lexhash_create(CurrentMemoryContext, 16, NULL)};
	if (!JB_ROOT_IS_ARRAY(docs))
		add_given(lexicons, docs);
	for (int i = 0; JB_ROOT_IS_ARRAY(docs) && i < JB_ROOT_COUNT(docs); i++)
	{
		CHECK_FOR_INTERRUPTS();
		add_given(lexicons, JsonbValueToJsonb(getIthJsonbValueFromContainer(&docs->root, i)));
	}
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
	bool		fresh = begin_query();
	Jsonb	   *doc = NULL;

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
	end_query(fresh);
	return doc;
}

static void
read_entry(AtpLexicons *lexicons, Entry *entry)
{
	MemoryContext work = AllocSetContextCreate(CurrentMemoryContext, "atproto Lexicon", ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(work);
	Jsonb	   *json = entry->given != NULL ? entry->given : read_document(entry->id);
	const AtpLexDoc *doc = NULL;
	char	   *fault = NULL;

	MemoryContextSwitchTo(lexicons->cxt);
	if (json != NULL)
		doc = atp_lexicon_compile(json, &fault);
	/* a table could give another one */
	entry->doc = doc != NULL && same_id(doc->id, entry->id) ? doc : NULL;
	entry->fault = fault;
	entry->read = true;
	MemoryContextSwitchTo(old);
	MemoryContextDelete(work);
}

AtpLexicon
atp_lexicons_get(AtpLexicons *lexicons, AtpSpan id)
{
	Entry	   *entry = lexhash_lookup(lexicons->entries, id);

	if (entry == NULL)
		return (AtpLexicon) {NULL, NULL};
	if (!entry->read)
		read_entry(lexicons, entry);
	return (AtpLexicon) {entry->doc, entry->fault};
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
