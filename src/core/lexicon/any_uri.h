/*
 * any_uri.h
 *		URIs of any scheme (RFC 3986, L-11), as Lexicons have them: something after the
 *		scheme, 8 kB at most.
 */
#ifndef ATP_ANY_URI_H
#define ATP_ANY_URI_H

#include "core/atp.h"

#define ATP_ANY_URI_MAX		8192

extern AtpErr atp_any_uri_check(const char *s, size_t n, size_t *at);

#endif							/* ATP_ANY_URI_H */
