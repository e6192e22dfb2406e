/*
 * violation.h
 *		What is wrong with a value, as a sentence that begins with the place: a JSON
 *		pointer (RFC 6901) in quotes.
 */
#ifndef ATP_VIOLATION_H
#define ATP_VIOLATION_H

#include "postgres.h"

#include "core/atp.h"

/* A place: in what, and which member.  The root is NULL. */
typedef struct AtpPlace
{
	const struct AtpPlace *up;
	AtpSpan		name;			/* ptr NULL: the element */
	uint32		element;
} AtpPlace;

#define atp_member(up, name)		((AtpPlace) {(up), (name), 0})
#define atp_element(up, element)	((AtpPlace) {(up), {NULL, 0}, (element)})

/* The sentence, palloc'd. */
extern char *atp_fault(const AtpPlace *place, const char *format, ...) pg_attribute_printf(2, 3);

#endif							/* ATP_VIOLATION_H */
