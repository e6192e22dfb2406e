/*
 * compile_private.h
 *		What the files that read Lexicon documents share.
 *
 * Functions that return a bool return false when the document has a fault, which is
 * in the compiler then.
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
	AtpSpan		id;
	JsonbContainer *defs;
	int			depth;
} AtpLexCompiler;

/* A value of the document that has members, and its place. */
typedef struct AtpLexObject
{
	JsonbContainer *members;
	const AtpPlace *place;
} AtpLexObject;

/* Where types stand. */
#define AS_DEF			0x01
#define AS_MAIN			0x02
#define AS_FIELD		0x04
#define AS_PARAMETER	0x08
#define AS_ITEM			0x10	/* of an array that is a parameter */
#define AS_RECORD		0x20
#define AS_PARAMETERS	0x40
#define AS_BODY			0x80
#define AS_MESSAGE		0x100

/* compile_members.c: of places */
extern bool atp_lex_fail(AtpLexCompiler *c, const AtpPlace *place, const char *what);
extern bool atp_lex_fail_member(AtpLexCompiler *c, AtpLexObject o, const char *name, const char *what);

/* of values */
extern AtpSpan atp_lex_copy_span(AtpSpan span);
extern bool atp_lex_is_object(const JsonbValue *v);
extern bool atp_lex_is_array(const JsonbValue *v);

/* of members; those that are absent leave the value as it is */
extern bool atp_lex_get(AtpLexObject o, const char *name, JsonbValue *v);
extern bool atp_lex_get_text(AtpLexCompiler *c, AtpLexObject o, const char *name, AtpSpan *text);
extern bool atp_lex_get_bool(AtpLexCompiler *c, AtpLexObject o, const char *name, bool *value, bool *found);
extern bool atp_lex_get_integer(AtpLexCompiler *c, AtpLexObject o, const char *name, int64 *value, bool *found);
extern bool atp_lex_get_texts(AtpLexCompiler *c, AtpLexObject o, const char *name, AtpSpan **texts, int *n);
extern bool atp_lex_get_object(AtpLexCompiler *c, AtpLexObject o, AtpPlace *place, const char *name, AtpLexObject *member);

/* L-05: what is about a number of things */
extern bool atp_lex_get_range(AtpLexCompiler *c, AtpLexObject o, const char *low, int64 *minimum, const char *high, int64 *maximum);

/* Call for each member, or for each element of an array that may be absent; a fault ends it. */
extern bool atp_lex_each_member(AtpLexCompiler *c, AtpLexObject o, void *to,
								bool (*each) (AtpLexCompiler *c, AtpSpan name, const JsonbValue *v, const AtpPlace *place, void *to));
extern bool atp_lex_each_element(AtpLexCompiler *c, AtpLexObject o, const char *name,
								 bool (*each) (AtpLexCompiler *c, const JsonbValue *v, const AtpPlace *place));

/* compile.c: a type, as so many kinds of types as may stand there (AS_...); it must not be absent */
extern bool atp_lex_compile_member(AtpLexCompiler *c, AtpLexObject o, const char *name, unsigned as, AtpLexNode **node);

/* compile_methods.c */
extern bool atp_lex_check_method(AtpLexCompiler *c, AtpLexObject o, AtpLexNode *node, unsigned as);
extern bool atp_lex_check_permission_set(AtpLexCompiler *c, AtpLexObject o, AtpLexNode *node, unsigned as);

#endif							/* ATP_LEXICON_COMPILE_PRIVATE_H */
