/*
 * any_uri.h
 *		Syntax check of URIs of any scheme (RFC 3986, L-11), for the format "uri" of Lexicons: at least one
 *		character after the scheme, at most 8 kB.  AT URIs have a parser of their own, uri.h.
 */
#ifndef ATP_ANY_URI_H
#define ATP_ANY_URI_H

#include "core/atp.h"

#define ATP_ANY_URI_MAX		8192

extern AtpErr atp_any_uri_check(const char *s, size_t n, size_t *at);

#endif							/* ATP_ANY_URI_H */
