/*
 * grapheme.h
 *		Counts graphemes, the characters that a reader perceives: extended
 *		grapheme clusters of Unicode (UAX #29, L-12), in which Lexicons limit
 *		texts.
 *
 * The table of classes is part of the extension, so that a limit means the same
 * on every server: ICU may be absent, and the rules of ICU depend on the version.
 */
#ifndef ATP_GRAPHEME_H
#define ATP_GRAPHEME_H

#include "core/atp.h"

/* Number of graphemes in UTF-8 text; counting stops at enough + 1. */
extern size_t atp_graphemes(const char *s, size_t n, size_t enough);

#endif							/* ATP_GRAPHEME_H */
