/*
 * document.h
 *		Lexicon documents: those that are known, and what all must have.
 */
#ifndef ATP_LEXICON_DOCUMENT_H
#define ATP_LEXICON_DOCUMENT_H

#include "postgres.h"

#include "utils/jsonb.h"

/* Why it cannot be a Lexicon, a sentence; NULL: it can. */
extern const char *atp_lexicon_problem(Jsonb *doc);

/* Its id, palloc'd; an ERROR when it cannot be a Lexicon. */
extern char *atp_lexicon_id(Jsonb *doc);

/* The one that is known by this id, or NULL; SPI is connected. */
extern Jsonb *atp_lexicon_find(const char *id);

#endif							/* ATP_LEXICON_DOCUMENT_H */
