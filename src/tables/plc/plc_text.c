/*
 * plc_text.c
 *		The table plc_text: see plc_text.h.
 *
 * Nothing of the table is cached: each batch looks its texts up, by one statement for all.  Most texts (keys, handles) belong to
 * a single account, and need no look-up: the process remembers recent texts with their accounts, and looks up a text only
 * when an operation of a second account has the text.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "common/secret_hash.h"
#include "storage/lmgr.h"
#include "tables/base/rows.h"
#include "tables/plc/plc_text.h"
#include "types/types.h"
#include "utils/builtins.h"

/* Number of remembered texts; a power of two. */
#define SEEN	65536

static const AtpColumn columns[] = {
	{"id", ATP_TYPE_INT4, ATP_KEY, "PRIMARY KEY", "number of the text in packed operations"},
	{"text", ATP_TYPE_TEXT, ATP_VALUE, "COLLATE \"C\" NOT NULL UNIQUE CHECK (octet_length(text) <= " CppAsString2(ATP_PLC_SHARED_MAX) ")",
	"key, address of a server, domain of handles"},
};

enum
{
	FIND, READ, ADD
};

static const AtpStatement statements[] = {
	[FIND] = {
		"SELECT u.n, (SELECT t.id FROM #.plc_text t WHERE t.text = u.text LIMIT 1) FROM unnest($1, $2) u (text, n)",
		SPI_OK_SELECT, {ATP_ARRAY(ATP_TYPE_TEXT), ATP_ARRAY(ATP_TYPE_INT4)}, {ATP_TYPE_INT4, ATP_TYPE_INT4},
		&atp_plc_text_table, ATP_BY_INDEX
	},
	[READ] = {
		"SELECT u.n, (SELECT t.text FROM #.plc_text t WHERE t.id = u.id LIMIT 1) FROM unnest($1, $2) u (id, n)",
		SPI_OK_SELECT, {ATP_ARRAY(ATP_TYPE_INT4), ATP_ARRAY(ATP_TYPE_INT4)}, {ATP_TYPE_INT4, ATP_TYPE_TEXT},
		&atp_plc_text_table, ATP_BY_INDEX
	},
	[ADD] = {
		"INSERT INTO #.plc_text (id, text) SELECT (l.id + u.n)::integer, u.text"
		" FROM (SELECT COALESCE(max(id), 0) FROM #.plc_text) l (id), unnest($1) WITH ORDINALITY u (text, n)"
		" ORDER BY u.n ON CONFLICT DO NOTHING",
		SPI_OK_INSERT, {ATP_ARRAY(ATP_TYPE_TEXT)}, {0}, &atp_plc_text_table
	},
};

const AtpTable atp_plc_text_table = {
	.name = "plc_text",
	.use = ATP_USE_PLC,
	.columns = columns,
	.ncolumns = lengthof(columns),
	.whole = true,
	.comment = "texts that operations of several did:plc accounts have; plc_operation.packed refers to the rows. Experimental.",
	.statements = statements,
	.nstatements = lengthof(statements),
};

typedef struct SharedText
{
	AtpSpan		text;			/* ptr NULL: only the id is known */
	uint64		hash;
	uint64		account;		/* hash of the first account in the batch with the text */
	uint32		id;				/* 0: none */
	bool		wanted;			/* two accounts have had it */
	char		status;
} SharedText;

#define SH_PREFIX by_text
#define SH_ELEMENT_TYPE SharedText
#define SH_KEY_TYPE AtpSpan
#define SH_KEY text
#define SH_HASH_KEY(tb, key) ((uint32) atp_secret_hash((key).ptr, (key).len, 0))
#define SH_EQUAL(tb, a, b) ((a).len == (b).len && memcmp((a).ptr, (b).ptr, (a).len) == 0)
#define SH_SCOPE static inline
#define SH_DECLARE
#define SH_DEFINE
#include "lib/simplehash.h"

/* An operator may have written any ids; the ids of a batch are few. */
#define SH_PREFIX by_id
#define SH_ELEMENT_TYPE SharedText
#define SH_KEY_TYPE uint32
#define SH_KEY id
#define SH_HASH_KEY(tb, key) ((uint32) atp_secret_hash(&(key), sizeof(key), 0))
#define SH_EQUAL(tb, a, b) ((a) == (b))
#define SH_SCOPE static inline
#define SH_DECLARE
#define SH_DEFINE
#include "lib/simplehash.h"

struct AtpPlcTextIds
{
	AtpStatements *set;
	by_text_hash *texts;
	by_id_hash *ids;
	uint64		account;		/* hash of the account of the present operation */
};

/* What this process has seen; only a hint, so one text may overwrite another. */
static struct
{
	uint64		text;
	uint64		account;
}			seen[SEEN];

AtpPlcTextIds *
atp_plc_texts_begin(AtpStatements *set)
{
	AtpPlcTextIds *texts = palloc0(sizeof(AtpPlcTextIds));

	texts->set = set;
	texts->texts = by_text_create(CurrentMemoryContext, 256, NULL);
	texts->ids = by_id_create(CurrentMemoryContext, 256, NULL);
	return texts;
}

/* Was the text seen lately in an operation of another account? */
static bool
seen_elsewhere(uint64 hash, uint64 account)
{
	bool		known = seen[hash % SEEN].text == hash && seen[hash % SEEN].account != account;

	if (!known)
	{
		seen[hash % SEEN].text = hash;
		seen[hash % SEEN].account = account;
	}
	return known;
}

static uint32_t
note_text(void *ctx, AtpSpan text)
{
	AtpPlcTextIds *texts = ctx;
	bool		found;
	SharedText *slot = by_text_insert(texts->texts, text, &found);

	if (!found)
	{
		slot->hash = atp_secret_hash(text.ptr, text.len, 1);
		slot->account = texts->account;
		slot->id = 0;
		slot->wanted = seen_elsewhere(slot->hash, texts->account);
	}
	slot->wanted |= slot->account != texts->account;
	return 0;
}

void
atp_plc_texts_note(AtpPlcTextIds *texts, const struct varlena *did, AtpBytes cbor, const uint8_t *prev)
{
	const AtpPlcTexts note = {.id = note_text, .ctx = texts};

	texts->account = atp_secret_hash(VARDATA_ANY(did), VARSIZE_ANY_EXHDR(did), 2);
	atp_plc_op_note(cbor, prev, &note);
}

/* The wanted texts without an id, in *slots; returns their number. */
static int
list_wanted(AtpPlcTextIds *texts, SharedText ***slots)
{
	by_text_iterator i;
	SharedText *slot;
	int			n = 0;

	*slots = palloc(Max(texts->texts->members, 1) * sizeof(SharedText *));
	by_text_start_iterate(texts->texts, &i);
	while ((slot = by_text_iterate(texts->texts, &i)) != NULL)
		if (slot->wanted && slot->id == 0)
			(*slots)[n++] = slot;
	return n;
}

/* Runs a statement whose arguments are values and their numbers; returns the number of rows. */
static uint64
ask_numbered(AtpPlcTextIds *texts, int statement, AtpType type, Datum *values, int n)
{
	Datum	   *numbers = palloc(Max(n, 1) * sizeof(Datum));
	Datum		args[2];

	for (int i = 0; i < n; i++)
		numbers[i] = Int32GetDatum(i);
	args[0] = atp_array(texts->set, type, values, NULL, n);
	args[1] = atp_array(texts->set, ATP_TYPE_INT4, numbers, NULL, n);
	return atp_execute(texts->set, &statements[statement], args, NULL);
}

/* The row's number and value; false: the value is null, as in a table that a user has altered. */
static bool
take_numbered(uint64 row, int n, int *number, Datum *value)
{
	Datum		v[2];
	bool		null[2];

	heap_deform_tuple(SPI_tuptable->vals[row], SPI_tuptable->tupdesc, v, null);
	*number = null[0] ? -1 : DatumGetInt32(v[0]);
	*value = v[1];
	return !null[1] && *number >= 0 && *number < n;
}

static Datum *
text_values(SharedText **slots, int n)
{
	Datum	   *values = palloc(Max(n, 1) * sizeof(Datum));

	for (int i = 0; i < n; i++)
		values[i] = PointerGetDatum(cstring_to_text_with_len(slots[i]->text.ptr, slots[i]->text.len));
	return values;
}

/* Looks up the ids of the texts; returns how many have none. */
static int
find_ids(AtpPlcTextIds *texts)
{
	SharedText **slots;
	int			n = list_wanted(texts, &slots);
	int			left = n;
	uint64		rows;

	if (n == 0)
		return 0;
	rows = ask_numbered(texts, FIND, ATP_TYPE_TEXT, text_values(slots, n), n);
	for (uint64 i = 0; i < rows; i++)
	{
		int			number;
		Datum		id;

		if (!take_numbered(i, n, &number, &id) || DatumGetInt32(id) <= 0)
			continue;
		slots[number]->id = (uint32) DatumGetInt32(id);
		left--;
	}
	SPI_freetuptable(SPI_tuptable);
	return left;
}

/*
 * A text without an id is stored in the operations themselves.  So this process never waits for another process that
 * adds texts, nor for VACUUM.
 */
void
atp_plc_texts_find_ids(AtpPlcTextIds *texts)
{
	Oid			relid = atp_target_table(texts->set, atp_plc_text_table.name);
	SharedText **slots;
	Datum		args[1];
	int			n;

	if (find_ids(texts) == 0 || !ConditionalLockRelationOid(relid, ShareUpdateExclusiveLock))
		return;
	if (find_ids(texts) == 0)
		return;
	n = list_wanted(texts, &slots);
	args[0] = atp_array(texts->set, ATP_TYPE_TEXT, text_values(slots, n), NULL, n);
	(void) atp_execute(texts->set, &statements[ADD], args, NULL);
	(void) find_ids(texts);
}

static uint32_t
id_of_text(void *ctx, AtpSpan text)
{
	AtpPlcTextIds *texts = ctx;
	SharedText *slot = by_text_lookup(texts->texts, text);

	return slot != NULL ? slot->id : 0;
}

struct varlena *
atp_plc_texts_pack(AtpPlcTextIds *texts, AtpBytes cbor, uint8_t signer, const uint8_t *prev)
{
	const AtpPlcTexts ids = {.id = id_of_text, .ctx = texts};
	uint8_t    *room = palloc(atp_plc_pack_room(cbor.len));
	size_t		n = atp_plc_op_pack(cbor, signer, prev, &ids, room);
	struct varlena *packed = atp_varlena(room, n);

	pfree(room);
	return packed;
}

void
atp_plc_texts_note_ids(AtpPlcTextIds *texts, AtpBytes packed)
{
	size_t		pos = 0;
	uint32_t	id;
	bool		found;

	while (atp_plc_packed_id(packed, &pos, &id))
	{
		SharedText *slot = by_id_insert(texts->ids, id, &found);

		if (!found)
			slot->text = (AtpSpan) {NULL, 0};
	}
}

void
atp_plc_texts_read(AtpPlcTextIds *texts)
{
	SharedText **slots = palloc(Max(texts->ids->members, 1) * sizeof(SharedText *));
	Datum	   *values = palloc(Max(texts->ids->members, 1) * sizeof(Datum));
	by_id_iterator i;
	SharedText *slot;
	int			n = 0;
	uint64		rows;

	by_id_start_iterate(texts->ids, &i);
	while ((slot = by_id_iterate(texts->ids, &i)) != NULL)
	{
		if (slot->id > INT32_MAX || slot->text.ptr != NULL)
			continue;
		slots[n] = slot;
		values[n++] = Int32GetDatum((int32) slot->id);
	}
	if (n == 0)
		return;
	rows = ask_numbered(texts, READ, ATP_TYPE_INT4, values, n);
	for (uint64 row = 0; row < rows; row++)
	{
		int			number;
		Datum		value;

		if (take_numbered(row, n, &number, &value))
		{
			text	   *copy = DatumGetTextPCopy(value);

			slots[number]->text = (AtpSpan) {VARDATA(copy), VARSIZE(copy) - VARHDRSZ};
		}
	}
	SPI_freetuptable(SPI_tuptable);
}

static AtpSpan
text_of_id(void *ctx, uint32_t id)
{
	AtpPlcTextIds *texts = ctx;
	SharedText *slot = by_id_lookup(texts->ids, id);

	return slot != NULL ? slot->text : (AtpSpan) {NULL, 0};
}

AtpBytes
atp_plc_texts_unpack(AtpPlcTextIds *texts, AtpBytes packed, const uint8_t *prev)
{
	const AtpPlcTexts known = {.text = text_of_id, .ctx = texts};
	static uint8_t room[ATP_PLC_OP_MAX];
	size_t		n;

	if (!atp_plc_op_unpack(packed, prev, &known, room, sizeof(room), &n))
		return (AtpBytes) {NULL, 0};
	return (AtpBytes) {memcpy(palloc(Max(n, 1)), room, n), n};
}
