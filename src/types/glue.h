/*
 * glue.h
 *		Shared by the files of src/types: turning an AtpErr into an error of
 *		PostgreSQL, type modifiers, and access to varlena arguments.
 *
 * SQL function x is the C function atp_pg_x: the prefix keeps it apart from the
 * functions of src/core.
 */
#ifndef ATP_GLUE_H
#define ATP_GLUE_H

#include "postgres.h"

#include "fmgr.h"
#include "nodes/nodes.h"
#include "utils/array.h"

#include "common/compat.h"
#include "core/atp.h"
#include "types/types.h"

/* The origin of a value decides how a fault in the value is reported. */
typedef struct AtpInputContext
{
	const char *type;			/* SQL name of the type */
	bool		binary;			/* from a receive function: 22P03, not 22P02 */
	Node	   *escontext;		/* receives a soft error, or NULL */
} AtpInputContext;

/* Reports a fault at offset "at" of s.  Returns only after a soft error. */
extern void atp_type_error(const AtpInputContext *source, const char *s, size_t n,
						   AtpErr err, size_t at);

/* Reports an invalid function argument: 22023, with the same DETAIL as atp_type_error(). */
pg_noreturn extern void atp_argument_error(const char *what, const char *s, size_t n,
										   AtpErr err, size_t at);

/*
 * Reports a damaged stored value, from a damaged page or a cast without a check.  The error does not quote the value: LEAKPROOF
 * functions raise the error.
 */
pg_noreturn extern void atp_damaged_error(const char *type);

/* The bytes given to a receive function. */
extern const char *atp_recv_bytes(FunctionCallInfo fcinfo, size_t *n);

/*
 * A type modifier is one word of a list that ends with NULL; the typmod is its
 * position.  SQL can call the functions with a typmod argument with any number.
 * So they read it by atp_arg_typmod(), which returns a position in the list, or
 * -1 for no modifier, and raises an error for all other numbers.
 */
extern int32 atp_typmod_in(ArrayType *array, const char *type, const char *const *words);
extern char *atp_typmod_out(int32 typmod, const char *const *words);
extern int32 atp_arg_typmod(FunctionCallInfo fcinfo, int i, const char *type,
							const char *const *words);

/* The content of a varlena argument; copied only if it is compressed or out of line. */
static inline AtpBytes
atp_arg_bytes(FunctionCallInfo fcinfo, int i)
{
	struct varlena *v = PG_GETARG_VARLENA_PP(i);

	return (AtpBytes) {(const uint8_t *) VARDATA_ANY(v), VARSIZE_ANY_EXHDR(v)};
}

static inline AtpSpan
atp_arg_span(FunctionCallInfo fcinfo, int i)
{
	struct varlena *v = PG_GETARG_VARLENA_PP(i);

	return (AtpSpan) {VARDATA_ANY(v), VARSIZE_ANY_EXHDR(v)};
}

/* The text of an argument of the type nsid. */
static inline AtpSpan
atp_arg_nsid(FunctionCallInfo fcinfo, int i)
{
	return atp_nsid_span(PG_GETARG_VARLENA_PP(i));
}

/* Returns the span as text, or SQL's NULL if the span is absent. */
#define ATP_RETURN_SPAN_TEXT(span) \
	do { \
		AtpSpan		span_ = (span); \
		if (span_.ptr == NULL) \
			PG_RETURN_NULL(); \
		PG_RETURN_POINTER(atp_varlena(span_.ptr, span_.len)); \
	} while (0)

/*
 * Sort support for a type with a comparison of stored forms and an
 * abbreviation.  The abbreviation is a number of eight bytes that never orders
 * two values differently than the comparison does.
 */
typedef int (*AtpCompareFn) (const uint8_t *a, size_t an, const uint8_t *b, size_t bn);
typedef uint64 (*AtpAbbreviateFn) (const uint8_t *stored, size_t n);

/* The order of the type nsid, of stored forms. */
extern int	atp_compare_stored_nsids(const uint8_t *a, size_t an, const uint8_t *b, size_t bn);

struct SortSupportData;
extern void atp_sortsupport(struct SortSupportData *ssup, AtpCompareFn compare,
							AtpAbbreviateFn abbreviate);

#endif							/* ATP_GLUE_H */
