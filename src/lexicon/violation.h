/*
 * violation.h
 *		Builds the sentence about a fault in a value.  It begins with the place:
 *		a JSON pointer (RFC 6901) in quotes.
 */
#ifndef ATP_VIOLATION_H
#define ATP_VIOLATION_H

#include "postgres.h"

#include "core/atp.h"

/* A place in a value: the container's place, and the member or element within.  The root is NULL. */
typedef struct AtpJsonPath
{
	const struct AtpJsonPath *up;
	AtpSpan		name;			/* name of the member; ptr NULL: the place is an element */
	uint32		element;
} AtpJsonPath;

#define atp_member(up, name)		((AtpJsonPath) {(up), (name), 0})
#define atp_element(up, element)	((AtpJsonPath) {(up), {NULL, 0}, (element)})

/* The sentence, palloc'd.  pg_attribute_printf names what only the compiler of the server knows, which need not be this one. */
extern char *atp_violation(const AtpJsonPath *place, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif							/* ATP_VIOLATION_H */
