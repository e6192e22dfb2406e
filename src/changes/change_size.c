/*
 * change_size.c
 *		The length of a row's message, known before the message is written.
 *
 * The owner of a table can store values whose JSON does not fit into a buffer of PostgreSQL (1 GB), some of them in a few
 * bytes: jsonb keeps the number 1e131071 in 14 bytes, and dagcbor a frequent text in one.  An ERROR in the plugin would come again at each start, so the slot
 * would never get past such a row.  The plugin does not catch this ERROR either: without a subtransaction, nothing would
 * release what the function that failed holds.  So the length is computed before the first byte is written.
 */
#include "postgres.h"

#include "access/detoast.h"
#include "catalog/pg_type.h"
#include "changes/change_size.h"
#include "changes/change_write.h"
#include "common/compat.h"
#include "data/dagcbor_value.h"
#include "utils/fmgrprotos.h"
#include "utils/jsonb.h"
#include "utils/memutils.h"
#include "utils/numeric.h"

/* Characters of JSON for a byte of a value at most: 147,459 for the 14 bytes of a number in jsonb (131,072 digits, a point, 16,383 digits). */
#define MOST_FOR_A_BYTE	12000

/* Characters beside keys and values: brackets, ", " and ": ". */
static const int around[] = {
	[WJB_KEY] = 4, [WJB_VALUE] = 0, [WJB_ELEM] = 2, [WJB_BEGIN_ARRAY] = 3, [WJB_BEGIN_OBJECT] = 3, [WJB_END_ARRAY] = 1, [WJB_END_OBJECT] = 1
};

/* The bytes of the values as PostgreSQL keeps them, uncompressed. */
static uint64
stored_size(const AtpChangeRow *row)
{
	uint64		size = 0;

	for (int i = 0; row != NULL && i < atp_change_columns(row->table->kind); i++)
		if (!row->nulls[i] && OidIsValid(atp_change_column_type(row->table->kind, i)))
			size += toast_raw_datum_size(row->values[i]);
	return size;
}

/* As escape_json() writes it. */
uint64
atp_change_string_size(const char *text, Size n)
{
	uint64		size = 2;

	for (Size i = 0; i < n; i++)
		size += (unsigned char) text[i] < ' ' ? 6 : text[i] == '"' || text[i] == '\\' ? 2 : 1;
	return size;
}

static uint64
number_size(Numeric number)
{
	char	   *text = DatumGetCString(DirectFunctionCall1(numeric_out, NumericGetDatum(number)));
	uint64		size = strlen(text);

	pfree(text);
	return size;
}

static uint64
scalar_size(const JsonbValue *value)
{
	if (value->type == jbvString)
		return atp_change_string_size(value->val.string.val, value->val.string.len);
	if (value->type == jbvNumeric)
		return number_size(value->val.numeric);
	return strlen("false");
}

/* Ends early when the size is above the limit. */
static uint64
jsonb_size(Jsonb *jsonb, uint64 limit)
{
	JsonbIterator *it = JsonbIteratorInit(&jsonb->root);
	JsonbIteratorToken token;
	JsonbValue	value;
	uint64		size = 0;

	while (size <= limit && (token = JsonbIteratorNext(&it, &value, false)) != WJB_DONE)
	{
		size += around[token];
		if (token == WJB_KEY || token == WJB_VALUE || token == WJB_ELEM)
			size += scalar_size(&value);
	}
	return size;
}

static bool
is_packed(const AtpChangeRow *row)
{
	return row != NULL && row->table->packed;
}

/* Characters of JSON for a byte of DAG-CBOR at most: the one byte of a byte string without bytes becomes {"$bytes": ""} and a comma. */
#define MOST_FOR_A_CBOR_BYTE	16

/*
 * The size, or a bound for the size, of a dagcbor as JSON or base64.  PG_UINT64_MAX: the DAG-CBOR alone is larger than the limit, or the
 * value is damaged, which must raise no ERROR here.
 */
static uint64
packed_size(AtpBytes bytes, uint64 limit)
{
	AtpBytes	cbor;
	StringInfoData json;
	uint64		size;
	size_t		n;

	if (!atp_dagcbor_size(bytes, &n) || n > limit)
		return PG_UINT64_MAX;
	size = (uint64) n * MOST_FOR_A_CBOR_BYTE;
	if (size <= limit || size > MaxAllocSize)
		return size;
	if (!atp_dagcbor_try_unpack(bytes, &cbor))
		return PG_UINT64_MAX;
	initStringInfo(&json);
	size = atp_dagcbor_jsonb_text(&json, cbor) ? (uint64) json.len : cbor.len / 3 * 4 + 4;
	pfree(json.data);
	pfree(unconstify(uint8_t *, cbor.ptr));
	return size;
}

static uint64
column_size(const AtpChangeRow *row, int column, uint64 limit)
{
	struct varlena *value;

	if (row->nulls[column])
		return 0;
	switch (atp_change_column_type(row->table->kind, column))
	{
		case JSONBOID:
			return is_packed(row) ? packed_size(atp_change_bytes(row, column), limit) : jsonb_size(DatumGetJsonbP(row->values[column]), limit);
		case TEXTOID:
			value = PG_DETOAST_DATUM_PACKED(row->values[column]);
			return atp_change_string_size(VARDATA_ANY(value), VARSIZE_ANY_EXHDR(value));
		case BYTEAOID:
			/* base64 */
			return (uint64) toast_raw_datum_size(row->values[column]) / 3 * 4 + 4;
		default:
			return 0;
	}
}

static uint64
row_size(const AtpChangeRow *row, uint64 limit)
{
	uint64		size = 0;

	for (int i = 0; row != NULL && size <= limit && i < atp_change_columns(row->table->kind); i++)
		size += Min(column_size(row, i, limit), limit + 1);
	return size;
}

bool
atp_change_fits(const AtpRowChange *change, const AtpChangeRow *row, const AtpChangeRow *old)
{
	uint64		limit = change->changes->options.max_message - ATP_MESSAGE_REST;
	uint64		stored = stored_size(row) + stored_size(old);

	/* so no value is read into memory that is larger than a message */
	if (stored > limit)
		return false;
	/* nearly all records of the network end here, in a table with jsonb */
	if (!is_packed(row) && !is_packed(old) && stored * MOST_FOR_A_BYTE <= limit)
		return true;
	return row_size(row, limit) + row_size(old, limit) <= limit;
}
