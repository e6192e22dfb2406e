/*
 * lexicons.h
 *		Lexicons by their NSIDs, compiled when they are first asked for.
 */
#ifndef ATP_LEXICONS_H
#define ATP_LEXICONS_H

#include "postgres.h"

#include "lexicon/compile.h"

typedef struct AtpLexicons AtpLexicons;

/* doc NULL: there is none of this NSID, or what there is has a fault. */
typedef struct AtpLexicon
{
	const AtpLexDoc *doc;
	const char *fault;
} AtpLexicon;

/*
 * Those of atproto.lexicon, kept by this process until the table changes.  What it gives
 * is good until the next call.
 */
extern AtpLexicons *atp_lexicons_known(void);

/* Those of a document, or of an array of documents, in the current memory context. */
extern AtpLexicons *atp_lexicons_given(Jsonb *docs);

extern AtpLexicon atp_lexicons_get(AtpLexicons *lexicons, AtpSpan id);

#endif							/* ATP_LEXICONS_H */
