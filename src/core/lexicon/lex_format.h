/*
 * lex_format.h
 *		Formats of Lexicon strings (L-09): their names, and what each asks for.
 */
#ifndef ATP_LEX_FORMAT_H
#define ATP_LEX_FORMAT_H

#include "core/atp.h"

typedef enum AtpLexFormat
{
	ATP_LEX_ANY,				/* none */
	ATP_LEX_AT_IDENTIFIER,
	ATP_LEX_AT_URI,
	ATP_LEX_CID,
	ATP_LEX_DATETIME,
	ATP_LEX_DID,
	ATP_LEX_HANDLE,
	ATP_LEX_LANGUAGE,
	ATP_LEX_NSID,
	ATP_LEX_RECORD_KEY,
	ATP_LEX_TID,
	ATP_LEX_URI,
	ATP_LEX_FORMATS
} AtpLexFormat;

extern const char *atp_lex_format_name(AtpLexFormat format);

/* ATP_LEX_FORMATS: there is none of this name. */
extern AtpLexFormat atp_lex_format_named(AtpSpan name);

extern AtpErr atp_lex_format_check(AtpLexFormat format, const char *s, size_t n, size_t *at);

/* Is a MIME type what a blob's "accept" has: the same, or beginning with what is before its '*'? */
extern bool atp_lex_accepts(AtpSpan pattern, AtpSpan mime);

#endif							/* ATP_LEX_FORMAT_H */
