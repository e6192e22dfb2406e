/*
 * handle.h
 *		Handles (rules I-10 to I-14), stored as lower-case text (D20).  Whether
 *		a handle belongs to an account is decided elsewhere (identity/).
 */
#ifndef ATP_HANDLE_H
#define ATP_HANDLE_H

#include "core/atp.h"

#define ATP_HANDLE_MAX	253

extern AtpErr atp_handle_check(const char *s, size_t n, size_t *at);	/* accepts upper case, too */

/* Lower-cases; out holds n bytes, and may be s itself. */
extern void atp_handle_normalize(const char *s, size_t n, char *out);

/* I-13: false for TLDs that no handle may have */
extern bool atp_handle_tld_allowed(const char *s, size_t n);

/* I-30: an at-identifier is a DID or a handle */
extern AtpErr atp_identifier_check(const char *s, size_t n, size_t *at);

#endif							/* ATP_HANDLE_H */
