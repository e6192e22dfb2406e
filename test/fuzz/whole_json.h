/*
 * whole_json.h
 *		Reads a text as JSON to its end.
 */
#ifndef WHOLE_JSON_H
#define WHOLE_JSON_H

#include "core/codec/json.h"

/* ATP_E_JSON_END: the text is JSON, at most so deep. */
static inline AtpErr
read_json(const char *s, size_t n, unsigned depth)
{
	AtpJsonReader r;
	AtpJsonItem item;
	size_t		at;
	AtpErr		err;

	atp_json_init(&r, s, n, depth);
	do
		err = atp_json_next(&r, &item, &at);
	while (err == ATP_OK);
	return err;
}

#endif							/* WHOLE_JSON_H */
