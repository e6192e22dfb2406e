/*
 * judge.h
 *		Checks a record against its collection's Lexicon.  The rules of the data
 *		model are not checked here: see core/repo/record_check.h.
 */
#ifndef ATP_LEXICON_JUDGE_H
#define ATP_LEXICON_JUDGE_H

#include "postgres.h"

#include "lexicon/lexicons.h"

typedef enum AtpLexVerdict
{
	ATP_LEX_VALID,
	ATP_LEX_INVALID,			/* *why: the first fault */
	ATP_LEX_UNJUDGED			/* *why: the reason, for example that a Lexicon is not known */
} AtpLexVerdict;

/* rkey.ptr NULL: the record key is not checked.  *why is palloc'd. */
extern AtpLexVerdict atp_lexicon_judge(AtpLexicons *lexicons, Jsonb *record, AtpSpan collection, AtpSpan rkey,
									   char **why);

#endif							/* ATP_LEXICON_JUDGE_H */
