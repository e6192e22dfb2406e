/*
 * document.h
 *		Lexicon documents: look-up of a known document in atproto.lexicon, and
 *		checks of a new one, with errors for users. lexicons.h has the compiled
 *		documents of a process.
 */
#ifndef ATP_LEXICON_DOCUMENT_H
#define ATP_LEXICON_DOCUMENT_H

#include "postgres.h"

#include "utils/jsonb.h"

/* The document's id, palloc'd; an ERROR if the document has no valid id, with this HINT; NULL: with an example of a Lexicon. */
extern char *atp_lexicon_id(Jsonb *doc, const char *hint);

/* An ERROR unless the document is a valid Lexicon. */
extern void atp_lexicon_require(Jsonb *doc);

/* The known document with this id, or NULL.  SPI must be connected. */
extern Jsonb *atp_lexicon_find(const char *id);

#endif							/* ATP_LEXICON_DOCUMENT_H */
