/*
 * language.h
 *		Language tags (BCP 47, L-10), as Lexicons have them: well-formed by RFC 5646, with
 *		a language of two or three lower-case letters where it is one.
 */
#ifndef ATP_LANGUAGE_H
#define ATP_LANGUAGE_H

#include "core/atp.h"

#define ATP_LANGUAGE_MAX	128

extern AtpErr atp_language_check(const char *s, size_t n, size_t *at);

#endif							/* ATP_LANGUAGE_H */
