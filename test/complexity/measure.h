/*
 * measure.h
 *		Shapes: inputs that strangers may send, of n parts each, and the functions that read them.
 *
 * A shape's make() writes an input of n parts into "input"; run() reads it and says whether the result is the
 * expected one.  Each n up to the limit must be valid, also 0.  Only run() is measured.
 */
#ifndef MEASURE_H
#define MEASURE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/codec/cbor_write.h"

typedef struct Shape
{
	const char *name;
	size_t		limit;			/* n of the largest input that is accepted */
	size_t		quick;			/* the largest n of the short form; 0: the limit */
	void		(*make) (size_t n);
	bool		(*run) (void);
} Shape;

/* A file of shapes ends with this list; the last name is NULL. */
extern const Shape wire_shapes[];
extern const Shape archive_shapes[];
extern const Shape answer_shapes[];
extern const Shape link_shapes[];
extern const Shape repo_shapes[];
extern const Shape codec_shapes[];
extern const Shape plc_shapes[];
extern const Shape syntax_shapes[];
extern const Shape net_shapes[];

/* an account, in inputs that need one */
#define DID	"did:plc:ewvi7nxzyoun6zhxrhs64oiz"

#define INPUT_ROOM	(6 * 1024 * 1024)

extern AtpCborWriter input;
extern size_t parts;			/* n */

static inline void
put(const char *text)
{
	atp_cbor_put_raw(&input, (const uint8_t *) text, strlen(text));
}

static inline void
put_times(size_t n, const char *text)
{
	while (n-- > 0)
		put(text);
}

/* Appends formatted text, of less than 4 kB. */
#define putf(...) \
	do { \
		char		text_[4096]; \
		(void) snprintf(text_, sizeof(text_), __VA_ARGS__); \
		put(text_); \
	} while (0)

#define INPUT_TEXT	((const char *) input.buf)

#endif							/* MEASURE_H */
