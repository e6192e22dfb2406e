/*
 * lexicons.c
 *		Compiled Lexicons by NSID, from atproto.lexicon or from given documents: see lexicons.h.
 *
 * A document is read with the latest snapshot: as committed now, or as written by this transaction.  An older
 * snapshot must not be used: the compiled document outlives the snapshot, and no invalidation would arrive
 * for a change committed in between.
 */
#include "postgres.h"

#include "access/xact.h"
#include "commands/trigger.h"
#include "common/hashfn.h"
#include "common/compat.h"
#include "config/extension.h"
#include "config/watch.h"
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

/* Beyond this much memory all compiled Lexicons are forgotten: Lexicons may be large. */
#define BYTES_MAX	((Size) 64 * 1024 * 1024)

static inline bool
same_id(AtpSpan a, AtpSpan b)
{
	return a.len == b.len && memcmp(a.ptr, b.ptr, a.len) == 0;
}

typedef struct LexiconEntry
{
	AtpSpan		id;
	bool		read;			/* the document was read; doc and fault are set */
	Jsonb	   *given;			/* the given document; NULL: the document is in the table */
	const AtpLexDoc *doc;
	const char *fault;
	char		status;			/* used by simplehash */
} LexiconEntry;

#define SH_PREFIX lexhash
#define SH_ELEMENT_TYPE LexiconEntry
#define SH_KEY_TYPE AtpSpan
#define SH_KEY id
#define SH_HASH_KEY(tb, key) hash_bytes((const unsigned char *) (key).ptr, (int) (key).len)
#define SH_EQUAL(tb, a, b) same_id((a), (b))
#define SH_SCOPE static inline
#define SH_DECLARE
#define SH_DEFINE
#include "lib/simplehash.h"

/*
 * The hash table has an entry for every known Lexicon, read or not.  So a collection without a Lexicon costs
 * no query, even though strangers can invent any number of collections.
 */
struct AtpLexicons
{
	MemoryContext cxt;
	lexhash_hash *entries;
};

/* The Lexicons of the table; cxt NULL: not listed yet. */
static AtpLexicons known;

/* the role that made the list: another role may lack the right to read the table */
static Oid	known_to;
static bool provisional;		/* read with a snapshot that may be old: read again as soon as possible */
static bool changed;
static Oid	watched[2];			/* the tables behind atproto.lexicon, whose changes are watched */

static void
relation_changed(Oid relid)
{
	if (relid == InvalidOid || relid == watched[0] || relid == watched[1])
		changed = true;
}

static void
watch_tables(void)
{
	watched[0] = atp_relation("lexicon_bundled");
	watched[1] = atp_relation("lexicon_loaded");
	atp_watch_relations(relation_changed);
}

/* Adds an NSID; of several documents with the same NSID the first counts. */
static void
add_entry(AtpLexicons *lexicons, AtpSpan id, Jsonb *given)
{
	char	   *copy;
	LexiconEntry *entry;
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

/*
 * Takes the latest snapshot for a query of the table.  In parallel mode no snapshot can be taken: then the
 * query uses the active snapshot, and the result is provisional.
 */
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
		add_entry(lexicons, atp_nsid_span(PG_DETOAST_DATUM_PACKED(PointerGetDatum(id))), NULL);
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
		watch_tables();
		known_to = GetUserId();
		provisional = false;
		changed = false;
		/* "known" is set only after the list is complete: an ERROR leaves no partial list behind. */
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

/* The document in the table, in the current memory context; NULL: not found. */
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
read_lexicon(AtpLexicons *lexicons, LexiconEntry *entry)
{
	MemoryContext work = AllocSetContextCreate(CurrentMemoryContext, "atproto Lexicon", ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(work);
	Jsonb	   *json = entry->given != NULL ? entry->given : read_document(entry->id);
	const AtpLexDoc *doc = NULL;
	char	   *fault = NULL;

	MemoryContextSwitchTo(lexicons->cxt);
	if (json != NULL)
		doc = atp_lexicon_compile(json, &fault);
	/* A role that may write the table may have stored a document under another id: ignore such a document. */
	entry->doc = doc != NULL && same_id(doc->id, entry->id) ? doc : NULL;
	entry->fault = fault;
	entry->read = true;
	MemoryContextSwitchTo(old);
	MemoryContextDelete(work);
}

AtpLexicon
atp_lexicons_get(AtpLexicons *lexicons, AtpSpan id)
{
	LexiconEntry *entry = lexhash_lookup(lexicons->entries, id);

	if (entry == NULL)
		return (AtpLexicon) {NULL, NULL};
	if (!entry->read)
		read_lexicon(lexicons, entry);
	return (AtpLexicon) {entry->doc, entry->fault};
}

/*
 * SQL: atproto_internal.lexicon_changed(), a trigger after each statement: invalidates the table's relcache entry, so
 * that every process forgets its compiled Lexicons when the change commits.
 */
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
