/*
 * atp.h
 *		The base of src/core, included by each of its files: spans, error codes, limits.
 *
 * src/core is the AT Protocol in plain C11: no PostgreSQL header, no allocation, no I/O, no locale, no global
 * state.  A function takes {pointer, length}, writes into the caller's memory, and returns an AtpErr.  Unless
 * the result is ATP_OK, *at is the byte offset of the fault, counted from the start of the input buffer.
 * Only atp_err_text() has the wording of errors; SQLSTATEs belong to the glue (types/glue.c, data/error.c).
 *
 * Where parameters are "restrict", output must not overlap input, and the compiler warns of a call with one
 * buffer for both.  Where parameters are not "restrict", a comment says which overlap is allowed, and a unit
 * test exercises this overlap.
 */
#ifndef ATP_H
#define ATP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Bytes in a buffer that belongs to the caller or to the input. ptr is NULL when the thing is absent. */
typedef struct AtpSpan
{
	const char *ptr;
	size_t		len;
} AtpSpan;

typedef struct AtpBytes
{
	const uint8_t *ptr;
	size_t		len;
} AtpBytes;

/* The error codes: errors.h lists each code with its sentence. */
typedef enum AtpErr
{
	ATP_OK = 0,
#define ATP_ERROR(code, text) code,
#include "errors.h"
#undef ATP_ERROR
	ATP_ERR_COUNT
} AtpErr;

/* The sentence of an error, usable as a DETAIL; never NULL. */
extern const char *atp_err_text(AtpErr err);

/*
 * Long computations (hundreds of megabytes, seconds) call this function now and then, so that the server can
 * cancel them: it may leave by longjmp, since src/core has nothing to clean up.  NULL: the computation cannot
 * be cancelled.
 */
typedef void (*AtpTickFn) (void);

static inline void
atp_tick(AtpTickFn tick, uint64_t n)
{
	if (tick != NULL && n % 4096 == 0)
		tick();
}

/* Offsets count from 0; messages to users count bytes from 1, as substring() does. */
static inline size_t
atp_byte_number(size_t at)
{
	return at + 1;
}

/*
 * SHA-256 comes from the caller (OpenSSL in the server).  An implementation that can fail must report the
 * failure through ctx and fill out with zeros.
 */
typedef void (*AtpSha256Fn) (void *ctx, const uint8_t *data, size_t len, uint8_t out[32]);

static inline bool
atp_span_is(AtpSpan s, const char *literal)
{
	size_t		n = strlen(literal);

	return s.len == n && memcmp(s.ptr, literal, n) == 0;
}

static inline bool
atp_span_begins(AtpSpan s, const char *literal)
{
	size_t		n = strlen(literal);

	return s.len >= n && memcmp(s.ptr, literal, n) == 0;
}

#endif							/* ATP_H */
