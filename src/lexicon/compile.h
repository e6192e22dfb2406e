/*
 * compile.h
 *		A compiled Lexicon document: nodes of types with their constraints, in a form that can be searched
 *		quickly while a record is checked (judge.h).
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
	/* allowed only as "main" */
	ATP_LEX_RECORD,
	ATP_LEX_QUERY,
	ATP_LEX_PROCEDURE,
	ATP_LEX_SUBSCRIPTION,
	ATP_LEX_PERMISSION_SET,
	ATP_LEX_SPACE,				/* S-04: the type of a space: proposal 0016, so nothing in it is checked yet */
	ATP_LEX_TYPES,
	ATP_LEX_OTHER = ATP_LEX_TYPES	/* S-04: a definition whose type this version does not know: nothing in it is checked */
} AtpLexType;

typedef struct AtpLexNode AtpLexNode;

/* The target of a reference: a document, and a definition in it. */
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

/* A type with its constraints.  An absent constraint has a value that accepts everything. */
struct AtpLexNode
{
	AtpLexType	type;
	AtpLexFormat format;		/* format of a string */
	bool		closed;			/* a union: only its references are allowed */
	/* of an integer or boolean; bytes of a string or byte string; elements of an array */
	int64		minimum;
	int64		maximum;		/* as minimum; for a blob its size */
	int64		min_graphemes;
	int64		max_graphemes;
	AtpSpan		key;			/* of a record: the type of its record keys */
	AtpSpan		name;			/* of a token: the text that values must have */

	/*
	 * The lists below have n entries.  They are sorted, because a record may have to be compared with many.
	 */
	int			n;
	AtpLexProperty *properties; /* of an object, in jsonb's order of keys */
	AtpLexRef  *refs;			/* of a ref or union */
	/* allowed strings; NULL: any.  The "accept" patterns of a blob, not sorted; NULL: any type */
	AtpSpan    *texts;
	int64	   *integers;		/* allowed integers; NULL: any */
	int			nrequired;
	int		   *required;		/* of an object: indexes of the required properties */
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
	char	   *unknown;		/* a sentence about the first definition of a type that is not known; NULL: there is none */
} AtpLexDoc;

/* Patterns in an "accept": each is compared with each blob, so their number is limited. */
#define ATP_LEX_ACCEPT_MAX	1000

/* Bytes of a document, as jsonb. */
#define ATP_LEX_DOC_MAX		(2 * 1024 * 1024)

/*
 * Checks a document (L-01 to L-08), and compiles it in the current memory context, without pointers into doc.
 * NULL: the document is invalid, and *fault says why.
 */
extern AtpLexDoc *atp_lexicon_compile(Jsonb *doc, char **fault);

/* A definition; NULL: the document has no definition of this name. */
extern const AtpLexNode *atp_lexicon_def(const AtpLexDoc *doc, AtpSpan name);

/* A property of an object; NULL: the object has no property of this name. */
extern AtpLexProperty *atp_lexicon_property(const AtpLexNode *object, AtpSpan name);

/* The reference of a union for a value with this "$type"; NULL: the union does not list the type. */
extern AtpLexRef *atp_lexicon_named(const AtpLexNode *node, AtpSpan type);

extern bool atp_lexicon_has_text(const AtpLexNode *node, AtpSpan text);
extern bool atp_lexicon_has_integer(const AtpLexNode *node, int64 value);

#endif							/* ATP_LEXICON_COMPILE_H */
