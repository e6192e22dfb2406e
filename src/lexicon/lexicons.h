/*
 * lexicons.h
 *		Compiled Lexicons by NSID; each document is compiled at its first use.
 */
#ifndef ATP_LEXICONS_H
#define ATP_LEXICONS_H

#include "postgres.h"

#include "lexicon/compile.h"

typedef struct AtpLexicons AtpLexicons;

/* doc NULL: no Lexicon with this NSID is known, or the document has a fault. */
typedef struct AtpLexicon
{
	const AtpLexDoc *doc;
	const char *fault;
} AtpLexicon;

/*
 * The Lexicons of atproto.lexicon, kept by this process until the table changes.  The result and all
 * documents from it are valid until the next call.
 */
extern AtpLexicons *atp_lexicons_known(void);

/* The Lexicons in a document, or in an array of documents, in the current memory context. */
extern AtpLexicons *atp_lexicons_given(Jsonb *docs);

extern AtpLexicon atp_lexicons_get(AtpLexicons *lexicons, AtpSpan id);

#endif							/* ATP_LEXICONS_H */
