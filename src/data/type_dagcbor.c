/*
 * type_dagcbor.c
 *		The SQL type dagcbor: input and output, casts, equality and hash.  dagcbor_field.c has the operators on parts.
 *
 * A text is JSON of the data model, or, of a value that JSON cannot say, \x and the DAG-CBOR in hexadecimal digits.  The
 * binary format is the DAG-CBOR, and packed bytes never come from outside: every input is read strictly and packed here.
 * So a dump has no packed bytes, and gives back the same bytes and CIDs on each version.
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

#include "core/syntax/chars.h"
#include "data/dagcbor_value.h"
#include "data/error.h"
#include "data/json_read.h"
#include "data/jsonb_read.h"
#include "types/glue.h"

PG_FUNCTION_INFO_V1(atp_pg_dagcbor_in);
PG_FUNCTION_INFO_V1(atp_pg_dagcbor_out);
PG_FUNCTION_INFO_V1(atp_pg_dagcbor_recv);
PG_FUNCTION_INFO_V1(atp_pg_dagcbor_send);
PG_FUNCTION_INFO_V1(atp_pg_dagcbor_of_bytea);
PG_FUNCTION_INFO_V1(atp_pg_dagcbor_of_jsonb);
PG_FUNCTION_INFO_V1(atp_pg_dagcbor_as_bytea);
PG_FUNCTION_INFO_V1(atp_pg_dagcbor_as_jsonb);
PG_FUNCTION_INFO_V1(atp_pg_dagcbor_as_json);
PG_FUNCTION_INFO_V1(atp_pg_dagcbor_eq);
PG_FUNCTION_INFO_V1(atp_pg_dagcbor_ne);
PG_FUNCTION_INFO_V1(atp_pg_dagcbor_hash);
PG_FUNCTION_INFO_V1(atp_pg_dagcbor_hash_extended);
PG_FUNCTION_INFO_V1(atp_pg_dagcbor_is_intact);

static AtpPackedPart
arg_part(FunctionCallInfo fcinfo, int i)
{
	return atp_dagcbor_whole(atp_arg_bytes(fcinfo, i));
}

/* The bytes of hexadecimal digits behind \x; *at is the offset of a fault. */
static AtpErr
bytes_of_hex(AtpSpan digits, AtpBytes *bytes, size_t *at)
{
	uint8_t    *out = palloc(digits.len / 2 + 1);

	for (size_t i = 0; i + 1 < digits.len; i += 2)
	{
		for (size_t j = i; j < i + 2; j++)
		{
			if (!atp_char_is(digits.ptr[j], ATP_C_HEX))
			{
				*at = j;
				return ATP_E_CHAR;
			}
		}
		out[i / 2] = (uint8_t) (atp_hex_value(digits.ptr[i]) << 4 | atp_hex_value(digits.ptr[i + 1]));
	}
	*at = digits.len;
	*bytes = (AtpBytes) {out, digits.len / 2};
	return digits.len % 2 == 0 ? ATP_OK : ATP_E_CBOR_TRUNCATED;
}

/* NULL, with *err, and *at in the text: the text is no value. */
static struct varlena *
make_of_hex(AtpSpan text, AtpErr *err, size_t *at)
{
	AtpBytes	cbor;
	struct varlena *result;

	*err = bytes_of_hex((AtpSpan) {text.ptr + 2, text.len - 2}, &cbor, at);
	*at += 2;
	if (*err != ATP_OK)
		return NULL;
	result = atp_dagcbor_make(cbor, err, at);
	*at = 2 + 2 * *at;
	return result;
}

static struct varlena *
make_of_json(AtpSpan text, AtpErr *err, size_t *at)
{
	uint8_t    *room;
	AtpBytes	cbor;
	struct varlena *result;

	*err = atp_dagcbor_of_json(text, &room, &cbor, at);
	if (*err != ATP_OK)
		return NULL;
	result = atp_dagcbor_make(cbor, err, at);
	pfree(room);
	return result;
}

Datum
atp_pg_dagcbor_in(PG_FUNCTION_ARGS)
{
	const char *s = PG_GETARG_CSTRING(0);
	AtpSpan		text = {s, strlen(s)};
	AtpInputContext source = {"dagcbor", false, fcinfo->context};
	struct varlena *result;
	AtpErr		err;
	size_t		at;

	atp_require_utf8();
	result = text.len >= 2 && s[0] == '\\' && s[1] == 'x' ? make_of_hex(text, &err, &at) : make_of_json(text, &err, &at);
	if (result == NULL)
		atp_type_error(&source, text.ptr, text.len, err, at);
	PG_RETURN_POINTER(result);
}

Datum
atp_pg_dagcbor_out(PG_FUNCTION_ARGS)
{
	AtpPackedPart		part = arg_part(fcinfo, 0);
	StringInfoData text;
	AtpBytes	cbor;

	initStringInfo(&text);
	if (!atp_dagcbor_json(&text, &part))
	{
		cbor = atp_dagcbor_unpack(&part);
		resetStringInfo(&text);
		enlargeStringInfo(&text, (int) Min(2 + 2 * cbor.len, MaxAllocSize));
		appendStringInfoString(&text, "\\x");
		text.len += (int) hex_encode((const char *) cbor.ptr, cbor.len, text.data + text.len);
		text.data[text.len] = '\0';
	}
	PG_RETURN_CSTRING(text.data);
}

/* A value of bytes from a client or a bytea, which may be anything. */
static struct varlena *
make_of_binary(AtpBytes cbor)
{
	AtpInputContext source = {"dagcbor", true, NULL};
	struct varlena *result;
	AtpErr		err;
	size_t		at;

	atp_require_utf8();
	result = atp_dagcbor_make(cbor, &err, &at);
	if (result == NULL)
		atp_type_error(&source, NULL, 0, err, at);
	return result;
}

Datum
atp_pg_dagcbor_recv(PG_FUNCTION_ARGS)
{
	size_t		n;
	const char *s = atp_recv_bytes(fcinfo, &n);

	PG_RETURN_POINTER(make_of_binary((AtpBytes) {(const uint8_t *) s, n}));
}

Datum
atp_pg_dagcbor_of_bytea(PG_FUNCTION_ARGS)
{
	PG_RETURN_POINTER(make_of_binary(atp_arg_bytes(fcinfo, 0)));
}

Datum
atp_pg_dagcbor_of_jsonb(PG_FUNCTION_ARGS)
{
	bytea	   *cbor;
	AtpErr		err;

	atp_require_utf8();
	if ((err = atp_dagcbor_of_jsonb(PG_GETARG_JSONB_P(0), &cbor)) != ATP_OK)
		atp_data_error("cannot convert jsonb to dagcbor", err, ATP_NO_OFFSET);
	PG_RETURN_POINTER(make_of_binary((AtpBytes) {(const uint8_t *) VARDATA(cbor), VARSIZE(cbor) - VARHDRSZ}));
}

static Datum
bytea_of_arg(FunctionCallInfo fcinfo)
{
	AtpPackedPart		part = arg_part(fcinfo, 0);
	AtpBytes	cbor = atp_dagcbor_unpack(&part);

	return PointerGetDatum(atp_varlena(cbor.ptr, cbor.len));
}

Datum
atp_pg_dagcbor_send(PG_FUNCTION_ARGS)
{
	return bytea_of_arg(fcinfo);
}

Datum
atp_pg_dagcbor_as_bytea(PG_FUNCTION_ARGS)
{
	return bytea_of_arg(fcinfo);
}

Datum
atp_pg_dagcbor_as_jsonb(PG_FUNCTION_ARGS)
{
	AtpPackedPart		part = arg_part(fcinfo, 0);
	Jsonb	   *result = atp_dagcbor_jsonb(&part);

	if (result == NULL)
		PG_RETURN_NULL();
	PG_RETURN_JSONB_P(result);
}

Datum
atp_pg_dagcbor_as_json(PG_FUNCTION_ARGS)
{
	AtpPackedPart		part = arg_part(fcinfo, 0);
	StringInfoData text;

	initStringInfo(&text);
	(void) atp_dagcbor_json(&text, &part);
	PG_RETURN_TEXT_P(cstring_to_text_with_len(text.data, text.len));
}

static bool
same_bytes(AtpBytes a, AtpBytes b)
{
	return a.len == b.len && memcmp(a.ptr, b.ptr, a.len) == 0;
}

/*
 * Indexes and replication call equality and hash for each row of a table without a memory context of the row: these functions free
 * what they have allocated.
 */
static void
free_bytes(AtpBytes bytes)
{
	pfree(unconstify(uint8_t *, bytes.ptr));
}

static inline AtpBytes
bytes_of(const struct varlena *v)
{
	return (AtpBytes) {(const uint8_t *) VARDATA_ANY(v), VARSIZE_ANY_EXHDR(v)};
}

/* Two values of one edition are equal exactly if their bytes are equal. */
static bool
are_equal(AtpBytes a, AtpBytes b)
{
	AtpPackedPart		a_part;
	AtpPackedPart		b_part;
	AtpBytes	a_cbor;
	AtpBytes	b_cbor;
	bool		equal;

	if (same_bytes(a, b))
		return true;
	a_part = atp_dagcbor_whole(a);
	b_part = atp_dagcbor_whole(b);
	if (a_part.edition == b_part.edition)
		return false;
	a_cbor = atp_dagcbor_unpack(&a_part);
	b_cbor = atp_dagcbor_unpack(&b_part);
	equal = same_bytes(a_cbor, b_cbor);
	free_bytes(a_cbor);
	free_bytes(b_cbor);
	return equal;
}

static bool
equal_args(FunctionCallInfo fcinfo)
{
	struct varlena *a = PG_GETARG_VARLENA_PP(0);
	struct varlena *b = PG_GETARG_VARLENA_PP(1);
	bool		equal = are_equal(bytes_of(a), bytes_of(b));

	PG_FREE_IF_COPY(a, 0);
	PG_FREE_IF_COPY(b, 1);
	return equal;
}

Datum
atp_pg_dagcbor_eq(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(equal_args(fcinfo));
}

Datum
atp_pg_dagcbor_ne(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(!equal_args(fcinfo));
}

/*
 * The hash of the DAG-CBOR: equal values of different editions have one hash, and stay in one hash partition.  The first 32 bits
 * of hash_bytes_extended() with the seed 0 are those of hash_bytes().
 */
static uint64
hash_arg(FunctionCallInfo fcinfo, uint64 seed)
{
	struct varlena *v = PG_GETARG_VARLENA_PP(0);
	AtpPackedPart		part = atp_dagcbor_whole(bytes_of(v));
	AtpBytes	cbor = atp_dagcbor_unpack(&part);
	uint64		hash = hash_bytes_extended(cbor.ptr, (int) cbor.len, seed);

	free_bytes(cbor);
	PG_FREE_IF_COPY(v, 0);
	return hash;
}

Datum
atp_pg_dagcbor_hash(PG_FUNCTION_ARGS)
{
	PG_RETURN_UINT32((uint32) hash_arg(fcinfo, 0));
}

Datum
atp_pg_dagcbor_hash_extended(PG_FUNCTION_ARGS)
{
	PG_RETURN_UINT64(hash_arg(fcinfo, (uint64) PG_GETARG_INT64(1)));
}

/*
 * SQL: dagcbor_is_intact(value).  Many spoilt values can still be unpacked: the check packs the unpacked bytes again, and
 * compares.  A change within a text or a hash makes another sound value, which only a CID can tell.
 */
Datum
atp_pg_dagcbor_is_intact(PG_FUNCTION_ARGS)
{
	AtpBytes	stored = atp_arg_bytes(fcinfo, 0);
	size_t		unpacked;
	size_t		room;
	AtpErr		err = atp_packed_unpack(stored, NULL, 0, &unpacked);
	uint8_t    *scratch;

	if (err == ATP_OK)
	{
		room = ATP_PACKED_CHECK_ROOM(stored.len, unpacked);
		scratch = palloc(room);
		err = atp_packed_check(stored, scratch, room);
		pfree(scratch);
	}
	if (err == ATP_E_PACKED_EDITION)
		atp_dagcbor_require(err);
	PG_RETURN_BOOL(err == ATP_OK);
}
