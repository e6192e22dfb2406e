/*
 * fields.h
 *		The fields of the records that a Lexicon describes, as columns of a table.
 *
 * A property that is a scalar or an array of scalars is a column, and so is each of an
 * object's: objects are flattened one level, and references to a record ("strong refs")
 * into their URI and CID wherever they stand.  Everything else is a column of jsonb.
 */
#ifndef ATP_LEXICON_FIELDS_H
#define ATP_LEXICON_FIELDS_H

#include "postgres.h"

#include "nodes/pg_list.h"
#include "utils/jsonb.h"

/* Of a field's path: a property, one of its object's, and uri or cid. */
#define ATP_FIELD_DEPTH		3

/* Bytes; a Lexicon with a longer one is refused. */
#define ATP_FIELD_NAME_MAX	512

typedef struct AtpField
{
	int			depth;
	const char *path[ATP_FIELD_DEPTH];
	Oid			type;
	const char *description;	/* NULL: none */
} AtpField;

/*
 * The fields of the records that a document describes, those that are required first;
 * an ERROR when it describes none, or more than max.  References to other documents are
 * looked up in atproto.lexicon: SPI is connected.  *description: of the records, or NULL.
 */
extern List *atp_lexicon_fields(Jsonb *doc, int max, const char **description);

#endif							/* ATP_LEXICON_FIELDS_H */
