/*
 * compare.c
 *		Comparison functions of the types that are stored as varlena: each is a
 *		shell around one comparison of stored forms.
 *
 * A value has one stored form, except of the type nsid, whose equality and
 * hash are in type_nsid.c.  So equality and hashing are PostgreSQL's own
 * for bytea (byteaeq, hashvarlena).  So is the order of the types that are
 * stored as text (bytealt, ..., byteacmp, bytea_sortsupport): see the types'
 * SQL files.  This file has the order of the packed types, and the functions
 * behind min and max, which bytea has only since version 18.
 */
#include "postgres.h"

#include "types/glue.h"

#include "core/syntax/did.h"
#include "core/syntax/recordkey.h"
#include "core/syntax/uri.h"
#include "utils/fmgrprotos.h"

static int
bytes_cmp(const uint8_t *a, size_t an, const uint8_t *b, size_t bn)
{
	int			cmp = memcmp(a, b, Min(an, bn));

	return cmp != 0 ? cmp : (an > bn) - (an < bn);
}

/* Compares the two arguments; inlined, so that "compare" is a direct call. */
static inline int
compare_args(FunctionCallInfo fcinfo, AtpCompareFn compare)
{
	struct varlena *a = PG_GETARG_VARLENA_PP(0);
	struct varlena *b = PG_GETARG_VARLENA_PP(1);
	int			cmp;

	cmp = compare((const uint8_t *) VARDATA_ANY(a), VARSIZE_ANY_EXHDR(a),
				  (const uint8_t *) VARDATA_ANY(b), VARSIZE_ANY_EXHDR(b));

	/* A btree calls this often in one memory context: free copies. */
	PG_FREE_IF_COPY(a, 0);
	PG_FREE_IF_COPY(b, 1);
	return cmp;
}

#define SHELL(name, result) \
	PG_FUNCTION_INFO_V1(name); \
	Datum \
	name(PG_FUNCTION_ARGS) \
	{ \
		result; \
	}

#define MIN_MAX(type, compare) \
	SHELL(atp_pg_##type##_smaller, \
		  PG_RETURN_DATUM(PG_GETARG_DATUM(compare_args(fcinfo, compare) <= 0 ? 0 : 1))) \
	SHELL(atp_pg_##type##_larger, \
		  PG_RETURN_DATUM(PG_GETARG_DATUM(compare_args(fcinfo, compare) >= 0 ? 0 : 1)))

#define ORDER(type, compare) \
	SHELL(atp_pg_##type##_lt, PG_RETURN_BOOL(compare_args(fcinfo, compare) < 0)) \
	SHELL(atp_pg_##type##_le, PG_RETURN_BOOL(compare_args(fcinfo, compare) <= 0)) \
	SHELL(atp_pg_##type##_ge, PG_RETURN_BOOL(compare_args(fcinfo, compare) >= 0)) \
	SHELL(atp_pg_##type##_gt, PG_RETURN_BOOL(compare_args(fcinfo, compare) > 0)) \
	SHELL(atp_pg_##type##_cmp, PG_RETURN_INT32(compare_args(fcinfo, compare))) \
	MIN_MAX(type, compare)

ORDER(did, atp_did_cmp)
ORDER(nsid, atp_compare_stored_nsids)
ORDER(recordkey, atp_rkey_cmp)
ORDER(uri, atp_uri_cmp)			/* aturi and noshuri */

/*
 * Equality and hash use shells of this module, although the server's functions are right.
 * The server searches a function of LANGUAGE internal, if it is not one of the
 * server's own, by name among all built-in functions at each look-up, and
 * INSERT ... ON CONFLICT looks the operators of a key up for each row.  This
 * took a fifth of the consumer's time.
 */
SHELL(atp_pg_bytes_eq, return byteaeq(fcinfo))
SHELL(atp_pg_bytes_ne, return byteane(fcinfo))
SHELL(atp_pg_bytes_hash, return hashvarlena(fcinfo))
SHELL(atp_pg_bytes_hash_extended, return hashvarlenaextended(fcinfo))

MIN_MAX(bytes, bytes_cmp)		/* handle and cidlink */
