/*
 * compile.h
 *		A Lexicon document as the walk through a record wants it.
 */
#ifndef ATP_LEXICON_COMPILE_H
#define ATP_LEXICON_COMPILE_H

#include "postgres.h"

#include "core/atp.h"
#include "core/lexicon/lex_format.h"
#include "utils/jsonb.h"

typedef enum AtpLexType
{
	ATP_LEX_NULL,
	ATP_LEX_BOOLEAN,
	ATP_LEX_INTEGER,
	ATP_LEX_STRING,
	ATP_LEX_BYTES,
	ATP_LEX_CID_LINK,
	ATP_LEX_BLOB,
	ATP_LEX_ARRAY,
	ATP_LEX_OBJECT,
	ATP_LEX_TOKEN,
	ATP_LEX_REF,
	ATP_LEX_UNION,
	ATP_LEX_UNKNOWN,
	ATP_LEX_PARAMS,
	/* these stand as "main" only */
	ATP_LEX_RECORD,
	ATP_LEX_QUERY,
	ATP_LEX_PROCEDURE,
	ATP_LEX_SUBSCRIPTION,
	ATP_LEX_PERMISSION_SET,
	ATP_LEX_TYPES
} AtpLexType;

typedef struct AtpLexNode AtpLexNode;

/* Where a reference leads: a document, and a definition in it. */
typedef struct AtpLexRef
{
	AtpSpan		id;
	AtpSpan		name;
	const AtpLexNode *target;	/* NULL: not looked up yet */
} AtpLexRef;

typedef struct AtpLexProperty
{
	AtpSpan		name;
	AtpLexNode *node;
	bool		required;
	bool		nullable;
} AtpLexProperty;

/* A type with its constraints; those that the document does not have let everything pass. */
struct AtpLexNode
{
	AtpLexType	type;
	AtpLexFormat format;		/* of a string */
	bool		closed;			/* a union: nothing but its references */
	int64		minimum;		/* of an integer, a boolean; bytes of a string or byte string, elements of an array */
	int64		maximum;		/* likewise; of a blob its size */
	int64		min_graphemes;
	int64		max_graphemes;
	AtpSpan		key;			/* of a record: the kind of its keys */
	AtpSpan		name;			/* of a token: what stands for it */
	/* of the next ones there are n; they are sorted, since a record may have to be compared with many */
	int			n;
	AtpLexProperty *properties; /* of an object, in the order of jsonb's keys */
	AtpLexRef  *refs;			/* of a ref or union */
	AtpSpan    *texts;			/* a string is one of these; NULL: any.  A blob's "accept", likewise */
	int64	   *integers;		/* an integer is one of these; NULL: any */
	int			nrequired;
	int		   *required;		/* of an object: which of its properties */
	AtpLexNode *child;			/* of an array: its elements; of a record: the object */
};

typedef struct AtpLexDef
{
	AtpSpan		name;
	AtpLexNode *node;
} AtpLexDef;

typedef struct AtpLexDoc
{
	AtpSpan		id;
	int			n;
	AtpLexDef  *defs;
} AtpLexDoc;

/* Patterns in an "accept": each has to be compared with each blob. */
#define ATP_LEX_ACCEPT_MAX	1000

/* Bytes of a document, as jsonb. */
#define ATP_LEX_DOC_MAX		(2 * 1024 * 1024)

/*
 * Judge a document (L-01 to L-08), and compile it in the current memory context, without
 * pointers into doc.  NULL: it is no Lexicon, and *fault says why.
 */
extern AtpLexDoc *atp_lexicon_compile(Jsonb *doc, char **fault);

/* A definition; NULL: the document has none of this name. */
extern const AtpLexNode *atp_lexicon_def(const AtpLexDoc *doc, AtpSpan name);

/* Of an object; NULL: it has none of this name. */
extern AtpLexProperty *atp_lexicon_property(const AtpLexNode *object, AtpSpan name);

/* Of a union, for a value with this "$type"; NULL: it is none of them. */
extern AtpLexRef *atp_lexicon_named(const AtpLexNode *node, AtpSpan type);

extern bool atp_lexicon_has_text(const AtpLexNode *node, AtpSpan text);
extern bool atp_lexicon_has_integer(const AtpLexNode *node, int64 value);

#endif							/* ATP_LEXICON_COMPILE_H */
