/*
 * type_cidlink.c
 *		The type cidlink: binary CIDv1, rules B-40 to B-44 and D11.
 *
 * The stored form is the binary CID, so that the cast to bytea needs no
 * conversion.
 */
#include "postgres.h"

#include "mb/pg_wchar.h"
#include "utils/builtins.h"

#include "types/glue.h"

#include "core/codec/cid.h"
#include "common/sha256.h"

static const char *const typmods[] = {"blessed", NULL};

enum
{
	CID_BLESSED
};

/* Codecs by the names of the multicodec table; other codecs are shown by number. */
static const struct
{
	uint64_t	code;
	const char *name;
}			codecs[] = {
	{ATP_CID_CODEC_DAG_CBOR, "dag-cbor"},
	{ATP_CID_CODEC_RAW, "raw"},
	{0x70, "dag-pb"},
	{0x0129, "dag-json"},
};

struct varlena *
atp_cidlink_make(const uint8_t *bytes, size_t n)
{
	return atp_varlena(bytes, n);
}

/*
 * Makes a value of a valid binary CID, if the type modifier allows it. given is
 * the CID as it was written, for the error message.
 */
static struct varlena *
make_checked(const AtpInputContext *source, const char *given, size_t given_len,
			 const uint8_t *bytes, size_t n, int32 typmod)
{
	if (typmod == CID_BLESSED && !atp_cid_is_blessed(bytes, n))
	{
		atp_type_error(source, given, given_len, ATP_E_CID_NOT_BLESSED, 0);
		return NULL;
	}
	return atp_cidlink_make(bytes, n);
}

/* The text form of a CID, for output and for messages. */
static AtpSpan
text_of_bytes(AtpBytes bytes)
{
	char	   *text = palloc(ATP_CID_TEXT_MAX + 1);
	size_t		n;

	if (bytes.len > ATP_CID_MAX)
		atp_damaged_error("cidlink");
	n = atp_cid_format(bytes.ptr, bytes.len, text);
	text[n] = '\0';
	return (AtpSpan) {text, n};
}

/* Makes a value of bytes that must be checked. */
static struct varlena *
make_of_binary(const AtpInputContext *source, const uint8_t *bytes, size_t n, int32 typmod)
{
	AtpCid		cid;
	size_t		at;
	AtpErr		err = atp_cid_check(bytes, n, &cid, &at);

	if (err != ATP_OK)
		atp_type_error(source, NULL, 0, err, at);
	return make_checked(source, NULL, 0, bytes, n, typmod);
}

static int32
typmod_of_arg(FunctionCallInfo fcinfo, int i)
{
	return atp_arg_typmod(fcinfo, i, "cidlink", typmods);
}

PG_FUNCTION_INFO_V1(atp_pg_cidlink_in);
Datum
atp_pg_cidlink_in(PG_FUNCTION_ARGS)
{
	const char *s = PG_GETARG_CSTRING(0);
	AtpInputContext source = {"cidlink", false, fcinfo->context};
	uint8_t		bytes[ATP_CID_MAX];
	size_t		n;
	size_t		at;
	AtpErr		err = atp_cid_parse(s, strlen(s), bytes, &n, &at);

	if (err != ATP_OK)
	{
		atp_type_error(&source, s, strlen(s), err, at);
		PG_RETURN_POINTER(NULL);
	}
	PG_RETURN_POINTER(make_checked(&source, s, strlen(s), bytes, n, typmod_of_arg(fcinfo, 2)));
}

PG_FUNCTION_INFO_V1(atp_pg_cidlink_out);
Datum
atp_pg_cidlink_out(PG_FUNCTION_ARGS)
{
	PG_RETURN_CSTRING(unconstify(char *, text_of_bytes(atp_arg_bytes(fcinfo, 0)).ptr));
}

/* cidlink_send is byteasend. */
PG_FUNCTION_INFO_V1(atp_pg_cidlink_recv);
Datum
atp_pg_cidlink_recv(PG_FUNCTION_ARGS)
{
	size_t		n;
	const char *s = atp_recv_bytes(fcinfo, &n);
	AtpInputContext source = {"cidlink", true, NULL};

	PG_RETURN_POINTER(make_of_binary(&source, (const uint8_t *) s, n, typmod_of_arg(fcinfo, 2)));
}

/* The cast from bytea, checked like the binary format. */
PG_FUNCTION_INFO_V1(atp_pg_cidlink_of_bytea);
Datum
atp_pg_cidlink_of_bytea(PG_FUNCTION_ARGS)
{
	AtpBytes	bytes = atp_arg_bytes(fcinfo, 0);
	AtpInputContext source = {"cidlink", true, NULL};

	PG_RETURN_POINTER(make_of_binary(&source, bytes.ptr, bytes.len, -1));
}

PG_FUNCTION_INFO_V1(atp_pg_cidlink_typmod_in);
Datum
atp_pg_cidlink_typmod_in(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT32(atp_typmod_in(PG_GETARG_ARRAYTYPE_P(0), "cidlink", typmods));
}

PG_FUNCTION_INFO_V1(atp_pg_cidlink_typmod_out);
Datum
atp_pg_cidlink_typmod_out(PG_FUNCTION_ARGS)
{
	PG_RETURN_CSTRING(atp_typmod_out(PG_GETARG_INT32(0), typmods));
}

/* cidlink(cidlink, typmod): the cast that applies a modifier. */
PG_FUNCTION_INFO_V1(atp_pg_cidlink_cast);
Datum
atp_pg_cidlink_cast(PG_FUNCTION_ARGS)
{
	AtpInputContext source = {"cidlink", false, NULL};
	AtpBytes	bytes = atp_arg_bytes(fcinfo, 0);
	AtpSpan		text = text_of_bytes(bytes);

	(void) make_checked(&source, text.ptr, text.len, bytes.ptr, bytes.len, typmod_of_arg(fcinfo, 1));
	PG_RETURN_DATUM(PG_GETARG_DATUM(0));
}

/* The parts of an argument: a value was checked when it was made. */
static AtpCid
cid_of_arg(FunctionCallInfo fcinfo, int i)
{
	AtpBytes	bytes = atp_arg_bytes(fcinfo, i);
	AtpCid		cid;
	size_t		at;

	if (atp_cid_check(bytes.ptr, bytes.len, &cid, &at) != ATP_OK)
		atp_damaged_error("cidlink");
	return cid;
}

PG_FUNCTION_INFO_V1(atp_pg_cidlink_codec);
Datum
atp_pg_cidlink_codec(PG_FUNCTION_ARGS)
{
	AtpCid		cid = cid_of_arg(fcinfo, 0);

	for (int i = 0; i < lengthof(codecs); i++)
		if (codecs[i].code == cid.codec)
			PG_RETURN_TEXT_P(cstring_to_text(codecs[i].name));
	PG_RETURN_TEXT_P(cstring_to_text(psprintf("0x%02llx", (unsigned long long) cid.codec)));
}

PG_FUNCTION_INFO_V1(atp_pg_cidlink_digest);
Datum
atp_pg_cidlink_digest(PG_FUNCTION_ARGS)
{
	AtpCid		cid = cid_of_arg(fcinfo, 0);

	PG_RETURN_POINTER(atp_varlena(cid.digest.ptr, cid.digest.len));
}

PG_FUNCTION_INFO_V1(atp_pg_cidlink_is_blessed);
Datum
atp_pg_cidlink_is_blessed(PG_FUNCTION_ARGS)
{
	AtpBytes	bytes = atp_arg_bytes(fcinfo, 0);

	PG_RETURN_BOOL(atp_cid_is_blessed(bytes.ptr, bytes.len));
}

/* B-44: the CID of a block. */
PG_FUNCTION_INFO_V1(atp_pg_cidlink_of);
Datum
atp_pg_cidlink_of(PG_FUNCTION_ARGS)
{
	AtpBytes	block = atp_arg_bytes(fcinfo, 0);
	AtpSpan		codec = atp_arg_span(fcinfo, 1);
	uint8_t		cid[ATP_CID_BLESSED_LEN];
	uint64_t	code;

	if (atp_span_is(codec, "dag-cbor"))
		code = ATP_CID_CODEC_DAG_CBOR;
	else if (atp_span_is(codec, "raw"))
		code = ATP_CID_CODEC_RAW;
	else
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("unknown codec: \"%.*s\"",
						pg_mbcliplen(codec.ptr, (int) codec.len, NAMEDATALEN), codec.ptr),
				 errhint("The codecs of the AT Protocol are \"dag-cbor\" and \"raw\".")));

	atp_cid_of(code, block.ptr, block.len, atp_sha256, NULL, cid);
	PG_RETURN_POINTER(atp_cidlink_make(cid, sizeof(cid)));
}

PG_FUNCTION_INFO_V1(atp_pg_is_cid_syntax);
Datum
atp_pg_is_cid_syntax(PG_FUNCTION_ARGS)
{
	AtpSpan		s = atp_arg_span(fcinfo, 0);

	PG_RETURN_BOOL(atp_cid_is_syntax(s.ptr, s.len));
}
