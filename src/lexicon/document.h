/*
 * document.h
 *		Lexicon documents: those that are known, and what all must have.
 */
#ifndef ATP_LEXICON_DOCUMENT_H
#define ATP_LEXICON_DOCUMENT_H

#include "postgres.h"

#include "utils/jsonb.h"

/* Its id, palloc'd; an ERROR when it has none. */
extern char *atp_lexicon_id(Jsonb *doc);

/* An ERROR when it is not what the language wants. */
extern void atp_lexicon_require(Jsonb *doc);

/* The one that is known by this id, or NULL; SPI is connected. */
extern Jsonb *atp_lexicon_find(const char *id);

#endif							/* ATP_LEXICON_DOCUMENT_H */
