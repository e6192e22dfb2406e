/*
 * atp.h
 *		What every file of src/core shares: spans, error codes, limits.
 *
 * src/core is the AT Protocol in plain C11: no PostgreSQL header, no
 * allocation, no I/O, no locale, no global state.  A function takes
 * {pointer, length}, writes into memory that the caller owns, and returns an
 * AtpErr; when that is not ATP_OK it has stored the byte offset of the fault in
 * *at, counted from the start of the buffer that it was given.  The words for
 * an error are in one place, atp_err_text(); SQLSTATEs belong to the glue.
 *
 * Where parameters are "restrict", what is written must not overlap what is
 * read, and the compiler warns of a call with one buffer for both.  Where they
 * are not, a comment says what may overlap, and a unit test does it.
 */
#ifndef ATP_H
#define ATP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* A piece of somebody else's buffer.  ptr is NULL when the thing is absent. */
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

/* The error codes: errors.h lists each with the sentence that explains it. */
typedef enum AtpErr
{
	ATP_OK = 0,
#define ATP_ERROR(code, text) code,
#include "errors.h"
#undef ATP_ERROR
	ATP_ERR_COUNT
} AtpErr;

/* One English sentence fragment, usable as a DETAIL; never NULL. */
extern const char *atp_err_text(AtpErr err);

/*
 * Called now and then by what may take seconds with hundreds of megabytes, so that somebody can end it: a
 * function that has nothing to clean up, and so need not return.  NULL: nobody.
 */
typedef void (*AtpTickFn) (void);

static inline void
atp_tick(AtpTickFn tick, uint64_t n)
{
	if (tick != NULL && n % 4096 == 0)
		tick();
}

/* Offsets count from 0; the byte that a message names counts from 1, as in substring(). */
static inline size_t
atp_byte_number(size_t at)
{
	return at + 1;
}

/*
 * SHA-256 comes from outside (OpenSSL in the server).  It must not fail, or
 * must report through ctx and fill out with zeros.
 */
typedef void (*AtpSha256Fn) (void *ctx, const uint8_t *data, size_t len, uint8_t out[32]);

static inline bool
atp_span_is(AtpSpan s, const char *literal)
{
	size_t		n = strlen(literal);

	return s.len == n && memcmp(s.ptr, literal, n) == 0;
}

#endif							/* ATP_H */
