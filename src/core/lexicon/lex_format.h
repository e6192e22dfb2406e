/*
 * lex_format.h
 *		The formats of Lexicon strings (L-09): their names, and the check of each.  The syntaxes themselves
 *		stand in their own files.
 */
#ifndef ATP_LEX_FORMAT_H
#define ATP_LEX_FORMAT_H

#include "core/atp.h"

typedef enum AtpLexFormat
{
	ATP_LEX_ANY,				/* no format */
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

/* ATP_LEX_FORMATS: no format has this name. */
extern AtpLexFormat atp_lex_format_named(AtpSpan name);

extern AtpErr atp_lex_format_check(AtpLexFormat format, const char *s, size_t n, size_t *at);

/*
 * Does a MIME type match a pattern of a blob's "accept"?  A pattern that ends in '*' matches all types with
 * the same beginning.
 */
extern bool atp_lex_accepts(AtpSpan pattern, AtpSpan mime);

#endif							/* ATP_LEX_FORMAT_H */
