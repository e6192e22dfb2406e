/*
 * glue.h
 *		What the files of src/types share: turning an AtpErr into an error of
 *		PostgreSQL, type modifiers, and access to varlena arguments.
 *
 * SQL function x is the C function atp_pg_x, so that it cannot be taken for a
 * function of src/core.
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

/* Where a value comes from; decides how a fault in it is reported. */
typedef struct AtpSource
{
	const char *type;			/* SQL name of the type */
	bool		binary;			/* from a receive function: 22P03, not 22P02 */
	Node	   *escontext;		/* for soft errors, or NULL */
} AtpSource;

/* Report a fault at offset "at" of s.  Returns only after a soft error. */
extern void atp_type_error(const AtpSource *source, const char *s, size_t n,
						   AtpErr err, size_t at);

/* A function's argument is wrong: 22023, with the same DETAIL. */
pg_noreturn extern void atp_argument_error(const char *what, const char *s, size_t n,
										   AtpErr err, size_t at);

/* The bytes that a receive function was given. */
extern const char *atp_recv_bytes(FunctionCallInfo fcinfo, size_t *n);

/*
 * Type modifiers are one word out of a list that ends with NULL; the typmod is
 * its position.  SQL can call the functions that take one with any number:
 * they get it with atp_arg_typmod(), which gives a position in the list, or -1
 * for none, and raises an error for all others.
 */
extern int32 atp_typmod_in(ArrayType *array, const char *type, const char *const *words);
extern char *atp_typmod_out(int32 typmod, const char *const *words);
extern int32 atp_arg_typmod(FunctionCallInfo fcinfo, int i, const char *type,
							const char *const *words);

/* A varlena argument's content, not copied unless compressed or out of line. */
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

/* A text, or NULL of SQL for a span that is absent. */
#define ATP_RETURN_SPAN_TEXT(span) \
	do { \
		AtpSpan		span_ = (span); \
		if (span_.ptr == NULL) \
			PG_RETURN_NULL(); \
		PG_RETURN_POINTER(atp_varlena(span_.ptr, span_.len)); \
	} while (0)

/*
 * Stored forms are compared as they stand.  This is sort support for a type
 * whose order has a comparison of stored forms and an abbreviation: eight
 * bytes, as a number, that never order two values otherwise than compare does.
 */
typedef int (*AtpCompareFn) (const uint8_t *a, size_t an, const uint8_t *b, size_t bn);
typedef uint64 (*AtpAbbreviateFn) (const uint8_t *stored, size_t n);

struct SortSupportData;
extern void atp_sortsupport(struct SortSupportData *ssup, AtpCompareFn compare,
							AtpAbbreviateFn abbreviate);

#endif							/* ATP_GLUE_H */
