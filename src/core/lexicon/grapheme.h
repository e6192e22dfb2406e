/*
 * grapheme.h
 *		Graphemes: what a reader takes for one character.  Extended grapheme
 *		clusters of Unicode (UAX #29, L-12), in which Lexicons limit texts.
 *
 * The table is our own, so that a limit means the same on every server: ICU is not
 * everywhere, and differs by its version.
 */
#ifndef ATP_GRAPHEME_H
#define ATP_GRAPHEME_H

#include "core/atp.h"

/* How many graphemes the UTF-8 has; counted no further than enough + 1. */
extern size_t atp_graphemes(const char *s, size_t n, size_t enough);

#endif							/* ATP_GRAPHEME_H */
