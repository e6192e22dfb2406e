/*
 * json.h
 *		A lenient reader of JSON texts: finds members, and believes what it sees.
 *		Written without the extension's reader, which is what the tests test.
 */
#ifndef SRV_JSON_H
#define SRV_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct Slice
{
	const char *p;
	size_t		len;
} Slice;

/* The value of an object's member, as it is written; false when there is none. */
extern bool json_member(Slice object, const char *key, Slice *value);

/* What is between the quotes of such a member (no escape is resolved), or a number. */
extern bool json_string(Slice object, const char *key, Slice *text);
extern bool json_number(Slice object, const char *key, int64_t *number);

/* Takes the next string off an array; begin with the array as json_member() gives it. */
extern bool json_next_string(Slice *array, Slice *text);

extern bool slice_is(Slice s, const char *text);

#endif							/* SRV_JSON_H */
