/*
 * language.h
 *		Syntax of language tags (BCP 47, L-10), for the format "language" of Lexicons: well-formed by RFC
 *		5646, and a language, if the tag begins with one, has two or three lower-case letters.
 */
#ifndef ATP_LANGUAGE_H
#define ATP_LANGUAGE_H

#include "core/atp.h"

#define ATP_LANGUAGE_MAX	128

extern AtpErr atp_language_check(const char *s, size_t n, size_t *at);

#endif							/* ATP_LANGUAGE_H */
