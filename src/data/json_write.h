/*
 * json_write.h
 *		Writes DAG-CBOR as the text of JSON, in the layout of jsonb's output, so that a value has one text whether it is
 *		stored as dagcbor or as jsonb.
 */
#ifndef ATP_JSON_WRITE_H
#define ATP_JSON_WRITE_H

#include "postgres.h"

#include "lib/stringinfo.h"

#include "core/atp.h"

/* What the text of a value says of the value. */
typedef struct AtpJsonText
{
	bool		exact;			/* see below */
	bool		has_nul;		/* a text has U+0000, which jsonb cannot hold */
} AtpJsonText;

/*
 * Appends one DAG-CBOR value.  exact: json_to_dagcbor() gives the same bytes back.  Otherwise the value has a float, an
 * integer of more than 64 bits, signed (J-02), or an object with the key "$link" or "$bytes": such a text tells what the
 * value has, but is another value or none.
 */
extern AtpErr atp_json_of_dagcbor(StringInfo out, AtpBytes value, AtpJsonText *said, size_t *at);

#endif							/* ATP_JSON_WRITE_H */
