/*
 * compile_private.h
 *		Shared only by the files that compile Lexicon documents.
 *
 * A function with an AtpLexCompiler that returns false has found a fault in the document, and has stored
 * the sentence in the compiler's field fault.
 */
#ifndef ATP_LEXICON_COMPILE_PRIVATE_H
#define ATP_LEXICON_COMPILE_PRIVATE_H

#include "postgres.h"

#include "lexicon/compile.h"
#include "lexicon/violation.h"
#include "utils/jsonb.h"

typedef struct AtpLexCompiler
{
	char	   *fault;
	char	   *unknown;		/* as in AtpLexDoc */
	AtpSpan		id;
	JsonbContainer *defs;
	int			depth;
} AtpLexCompiler;

/* An object of the document, and its place. */
typedef struct AtpLexObject
{
	JsonbContainer *members;
	const AtpJsonPath *place;
} AtpLexObject;

/* The places where a type can be allowed. */
#define AS_DEF			0x01
#define AS_MAIN			0x02
#define AS_FIELD		0x04
#define AS_PARAMETER	0x08
#define AS_ITEM			0x10	/* element of an array that is a parameter */
#define AS_RECORD		0x20
#define AS_PARAMETERS	0x40
#define AS_BODY			0x80
#define AS_MESSAGE		0x100

/* compile_members.c: faults, with their places */
extern bool atp_lex_fail(AtpLexCompiler *c, const AtpJsonPath *place, const char *what);
extern bool atp_lex_fail_member(AtpLexCompiler *c, AtpLexObject o, const char *name, const char *what);

/* Values. */
extern AtpSpan atp_lex_copy_span(AtpSpan span);
extern bool atp_lex_is_object(const JsonbValue *v);
extern bool atp_lex_is_array(const JsonbValue *v);

/* Members; an absent member leaves the result unchanged. */
extern bool atp_lex_get(AtpLexObject o, const char *name, JsonbValue *v);
extern bool atp_lex_get_text(AtpLexCompiler *c, AtpLexObject o, const char *name, AtpSpan *text);
extern bool atp_lex_get_bool(AtpLexCompiler *c, AtpLexObject o, const char *name, bool *value, bool *found);
extern bool atp_lex_get_integer(AtpLexCompiler *c, AtpLexObject o, const char *name, int64 *value, bool *found);
extern bool atp_lex_get_texts(AtpLexCompiler *c, AtpLexObject o, const char *name, AtpSpan **texts, int *n);
extern bool atp_lex_get_object(AtpLexCompiler *c, AtpLexObject o, AtpJsonPath *place, const char *name, AtpLexObject *member);

/* L-05: a minimum and a maximum number of things */
extern bool atp_lex_get_range(AtpLexCompiler *c, AtpLexObject o, const char *low, int64 *minimum, const char *high, int64 *maximum);

/*
 * Call each() for each member of an object, or for each element of an array that may be absent; end at the
 * first fault.
 */
extern bool atp_lex_each_member(AtpLexCompiler *c, AtpLexObject o, void *to,
								bool (*each) (AtpLexCompiler *c, AtpSpan name, const JsonbValue *v, const AtpJsonPath *place, void *to));
extern bool atp_lex_each_element(AtpLexCompiler *c, AtpLexObject o, const char *name,
								 bool (*each) (AtpLexCompiler *c, const JsonbValue *v, const AtpJsonPath *place));

/* compile.c: compiles a required member that is a type; as: the places (AS_...) whose types are allowed */
extern bool atp_lex_compile_member(AtpLexCompiler *c, AtpLexObject o, const char *name, unsigned as, AtpLexNode **node);

/* compile_methods.c: checks without a result */
extern bool atp_lex_check_method(AtpLexCompiler *c, AtpLexObject o, AtpLexNode *node, unsigned as);
extern bool atp_lex_check_permission_set(AtpLexCompiler *c, AtpLexObject o, AtpLexNode *node, unsigned as);

#endif							/* ATP_LEXICON_COMPILE_PRIVATE_H */
