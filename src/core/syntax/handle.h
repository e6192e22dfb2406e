/*
 * handle.h
 *		Handles (rules I-10 to I-14).  Stored as lower-case text (D20).
 */
#ifndef ATP_HANDLE_H
#define ATP_HANDLE_H

#include "core/atp.h"

#define ATP_HANDLE_MAX	253

extern AtpErr atp_handle_check(const char *s, size_t n, size_t *at);	/* any case */
/* out holds n bytes, and may be s itself. */
extern void atp_handle_normalize(const char *s, size_t n, char *out);
extern bool atp_handle_tld_allowed(const char *s, size_t n);	/* I-13 */

#endif							/* ATP_HANDLE_H */
