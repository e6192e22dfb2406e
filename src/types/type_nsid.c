/*
 * type_nsid.c
 *		The type nsid (rules I-01 to I-07): stored by a code, or as text, as written.
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "utils/sortsupport.h"

#include "types/text_type.h"

#include "core/syntax/nsid.h"
#include "core/syntax/nsid_code.h"

/* D10: the longest name that DNS can look up. */
#define DOMAIN_MAX	253

struct varlena *
atp_nsid_make(const char *s, size_t n)
{
	struct varlena *v = palloc(VARHDRSZ + n);

	SET_VARSIZE(v, VARHDRSZ + atp_nsid_store(s, n, (uint8_t *) VARDATA(v)));
	return v;
}

/* The error does not quote the value: functions that raise the error are LEAKPROOF. */
static AtpSpan
text_of(const uint8_t *stored, size_t n)
{
	AtpSpan		text;

	if (!atp_nsid_text(stored, n, &text))
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("a stored NSID has a code that this version of the extension does not know"),
				 errdetail("A newer version has stored the NSID, or the value is damaged."),
				 errhint("Install the newest version that has written to this database.")));
	return text;
}

/* Only the length of a text is checked here. */
static bool
fits_nsid(const uint8_t *stored, size_t n)
{
	return n > 0 && n <= ATP_NSID_MAX;
}

AtpSpan
atp_nsid_span(const struct varlena *nsid)
{
	const uint8_t *stored = (const uint8_t *) VARDATA_ANY(nsid);
	size_t		n = VARSIZE_ANY_EXHDR(nsid);

	if (!fits_nsid(stored, n))
		atp_damaged_error("nsid");
	return text_of(stored, n);
}

char *
atp_nsid_cstring(const struct varlena *nsid)
{
	AtpSpan		s = atp_nsid_span(nsid);

	return pnstrdup(s.ptr, s.len);
}

struct varlena *
atp_nsid_renew(struct varlena *nsid)
{
	if (atp_nsid_is_code((const uint8_t *) VARDATA_ANY(nsid), VARSIZE_ANY_EXHDR(nsid)))
		return nsid;
	return atp_nsid_make(VARDATA_ANY(nsid), VARSIZE_ANY_EXHDR(nsid));
}

static bool
same_bytes(const uint8_t *a, size_t an, const uint8_t *b, size_t bn)
{
	return an == bn && memcmp(a, b, an) == 0;
}

int
atp_compare_stored_nsids(const uint8_t *a, size_t an, const uint8_t *b, size_t bn)
{
	return same_bytes(a, an, b, bn) ? 0 : atp_nsid_text_cmp(text_of(a, an), text_of(b, bn));
}

int
atp_compare_nsids(const struct varlena *a, const struct varlena *b)
{
	return atp_compare_stored_nsids((const uint8_t *) VARDATA_ANY(a), VARSIZE_ANY_EXHDR(a),
									(const uint8_t *) VARDATA_ANY(b), VARSIZE_ANY_EXHDR(b));
}

static uint64
abbreviate_text(const uint8_t *stored, size_t n)
{
	return atp_nsid_text_abbrev(text_of(stored, n));
}

static size_t
copy_text(const uint8_t *stored, size_t n, char *text)
{
	AtpSpan		s = text_of(stored, n);

	memcpy(text, s.ptr, s.len);
	return s.len;
}

static const AtpTextType type = {
	.name = "nsid",
	.check = atp_nsid_check,
	.make = atp_nsid_make,
	.fits = fits_nsid,
	.text = copy_text,
	.text_growth = ATP_NSID_MAX,
};

ATP_TEXT_TYPE_DEFINE(nsid, &type, in)
ATP_TEXT_TYPE_DEFINE(nsid, &type, recv)
ATP_TEXT_TYPE_DEFINE(nsid, &type, out)
ATP_TEXT_TYPE_DEFINE(nsid, &type, send)

/*
 * Two codes, or two texts, are equal only if their bytes are equal.  A code equals the text of its name, which a library
 * without this code has stored.
 */
static bool
equal_args(FunctionCallInfo fcinfo)
{
	AtpBytes	a = atp_arg_bytes(fcinfo, 0);
	AtpBytes	b = atp_arg_bytes(fcinfo, 1);

	if (same_bytes(a.ptr, a.len, b.ptr, b.len))
		return true;
	return atp_nsid_is_code(a.ptr, a.len) != atp_nsid_is_code(b.ptr, b.len) &&
		atp_nsid_text_cmp(text_of(a.ptr, a.len), text_of(b.ptr, b.len)) == 0;
}

PG_FUNCTION_INFO_V1(atp_pg_nsid_eq);
Datum
atp_pg_nsid_eq(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(equal_args(fcinfo));
}

PG_FUNCTION_INFO_V1(atp_pg_nsid_ne);
Datum
atp_pg_nsid_ne(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(!equal_args(fcinfo));
}

/* The hash of the text, as hashvarlena() computes it: a row stays in its hash partition when the collection gets a code. */
PG_FUNCTION_INFO_V1(atp_pg_nsid_hash);
Datum
atp_pg_nsid_hash(PG_FUNCTION_ARGS)
{
	AtpSpan		s = atp_arg_nsid(fcinfo, 0);

	PG_RETURN_UINT32(hash_bytes((const unsigned char *) s.ptr, (int) s.len));
}

PG_FUNCTION_INFO_V1(atp_pg_nsid_hash_extended);
Datum
atp_pg_nsid_hash_extended(PG_FUNCTION_ARGS)
{
	AtpSpan		s = atp_arg_nsid(fcinfo, 0);

	PG_RETURN_UINT64(hash_bytes_extended((const unsigned char *) s.ptr, (int) s.len, PG_GETARG_INT64(1)));
}

PG_FUNCTION_INFO_V1(atp_pg_nsid_sortsupport);
Datum
atp_pg_nsid_sortsupport(PG_FUNCTION_ARGS)
{
	atp_sortsupport((SortSupport) PG_GETARG_POINTER(0), atp_compare_stored_nsids, abbreviate_text);
	PG_RETURN_VOID();
}

/*
 * Equal values may have different bytes, so a btree must not deduplicate: a posting list keeps the bytes of its first
 * entry only.
 */
PG_FUNCTION_INFO_V1(atp_pg_nsid_equalimage);
Datum
atp_pg_nsid_equalimage(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(false);
}

PG_FUNCTION_INFO_V1(atp_pg_nsid_name);
Datum
atp_pg_nsid_name(PG_FUNCTION_ARGS)
{
	AtpSpan		s = atp_text_type_checked_arg(fcinfo, 0, &type);

	ATP_RETURN_SPAN_TEXT(atp_nsid_name(s.ptr, s.len));
}

/* I-05: the segments before the name, in DNS order and lower case. */
PG_FUNCTION_INFO_V1(atp_pg_nsid_authority);
Datum
atp_pg_nsid_authority(PG_FUNCTION_ARGS)
{
	AtpSpan		s = atp_text_type_checked_arg(fcinfo, 0, &type);
	AtpSpan		domain = atp_nsid_domain(s.ptr, s.len);
	char		normal[ATP_NSID_MAX];
	struct varlena *result = palloc(VARHDRSZ + domain.len);
	char	   *out = VARDATA(result);
	size_t		end = domain.len;

	atp_nsid_normalize(s.ptr, s.len, normal);
	while (end > 0)
	{
		size_t		start = end;

		while (start > 0 && normal[start - 1] != '.')
			start--;
		memcpy(out, normal + start, end - start);
		out += end - start;
		if (start == 0)
			break;
		*out++ = '.';
		end = start - 1;
	}
	SET_VARSIZE(result, VARHDRSZ + domain.len);
	PG_RETURN_POINTER(result);
}

PG_FUNCTION_INFO_V1(atp_pg_nsid_authority_is_resolvable);
Datum
atp_pg_nsid_authority_is_resolvable(PG_FUNCTION_ARGS)
{
	AtpSpan		s = atp_text_type_checked_arg(fcinfo, 0, &type);

	PG_RETURN_BOOL(atp_nsid_domain(s.ptr, s.len).len <= DOMAIN_MAX);
}

PG_FUNCTION_INFO_V1(atp_pg_nsid_normalize);
Datum
atp_pg_nsid_normalize(PG_FUNCTION_ARGS)
{
	AtpSpan		s = atp_text_type_checked_arg(fcinfo, 0, &type);
	char		normal[ATP_NSID_MAX];

	atp_nsid_normalize(s.ptr, s.len, normal);
	PG_RETURN_POINTER(atp_nsid_make(normal, s.len));
}

PG_FUNCTION_INFO_V1(atp_pg_nsid_matches);
Datum
atp_pg_nsid_matches(PG_FUNCTION_ARGS)
{
	AtpSpan		s = atp_arg_nsid(fcinfo, 0);
	AtpSpan		pattern = atp_arg_span(fcinfo, 1);
	size_t		at;
	AtpErr		err = atp_nsid_pattern_check(pattern.ptr, pattern.len, &at);

	if (err != ATP_OK)
		atp_argument_error("NSID pattern", pattern.ptr, pattern.len, err, at);
	PG_RETURN_BOOL(atp_nsid_matches(s.ptr, s.len, pattern.ptr, pattern.len));
}
