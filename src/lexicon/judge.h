/*
 * judge.h
 *		Is a record what its collection's Lexicon says?
 */
#ifndef ATP_LEXICON_JUDGE_H
#define ATP_LEXICON_JUDGE_H

#include "postgres.h"

#include "lexicon/lexicons.h"

typedef enum AtpLexVerdict
{
	ATP_LEX_VALID,
	ATP_LEX_INVALID,			/* *why: the first fault */
	ATP_LEX_UNJUDGED			/* *why: what keeps from telling, such as a Lexicon that is not known */
} AtpLexVerdict;

/* rkey.ptr NULL: its key is not looked at.  *why is palloc'd. */
extern AtpLexVerdict atp_lexicon_judge(AtpLexicons *lexicons, Jsonb *record, AtpSpan collection, AtpSpan rkey,
									   char **why);

#endif							/* ATP_LEXICON_JUDGE_H */
