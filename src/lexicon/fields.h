/*
 * fields.h
 *		The fields that a Lexicon gives to records, as columns of a table or view.
 *
 * A scalar property is a column, and so is an array of scalars.  An object is flattened by one level: its
 * properties are columns.  A reference to a record (strongRef) becomes two columns, URI and CID, at any
 * level.  Everything else is a column of jsonb.
 */
#ifndef ATP_LEXICON_FIELDS_H
#define ATP_LEXICON_FIELDS_H

#include "postgres.h"

#include "nodes/pg_list.h"
#include "utils/jsonb.h"

/* Names in a field's path: a property, a property of this object, and uri or cid. */
#define ATP_FIELD_DEPTH		3

/* Bytes; a Lexicon with a longer name is refused. */
#define ATP_FIELD_NAME_MAX	512

typedef struct AtpField
{
	int			depth;
	const char *path[ATP_FIELD_DEPTH];
	Oid			type;
	const char *description;	/* NULL: no description */
} AtpField;

/*
 * The fields of the records that a document describes, required fields first.  An ERROR when the document
 * describes no records, or more than max fields.  Looks references to other documents up in atproto.lexicon:
 * SPI must be connected.  *description: of the records, or NULL.
 */
extern List *atp_lexicon_fields(Jsonb *doc, int max, const char **description);

#endif							/* ATP_LEXICON_FIELDS_H */
