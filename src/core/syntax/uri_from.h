/*
 * uri_from.h
 *		AT URIs in spellings that people paste, and that the type aturi refuses: the candidate forms of the
 *		working group, and addresses of web pages.  A text that is not known gives false, never
 *		a guess; the result is a valid URI in normal form whose authority is a DID or a handle.
 */
#ifndef ATP_URI_FROM_H
#define ATP_URI_FROM_H

#include "core/atp.h"

#define ATP_WEB_MAX		1024	/* bytes of a pattern, and of the URI beside the pattern */

/* out holds ATP_URI_MAX bytes. */
extern bool atp_uri_from(const char *restrict s, size_t n, char *restrict out, size_t *on);

/*
 * a pattern, "https://bsky.app/profile/{authority}/post/{rkey}", and the URI of its pages,
 * "at://{authority}/app.bsky.feed.post/{rkey}".  Each check stores the set of placeholders: the sets of a
 * pattern and its URI must be equal.
 */
extern AtpErr atp_web_pattern_check(AtpSpan pattern, unsigned *places, size_t *at);
extern AtpErr atp_web_uri_check(AtpSpan uri, unsigned *places, size_t *at);

/* The URI of a page; pattern and uri have passed the checks. out holds ATP_URI_MAX bytes. */
extern bool atp_uri_from_web(const char *restrict s, size_t n, AtpSpan pattern, AtpSpan uri,
							 char *restrict out, size_t *on);

#endif							/* ATP_URI_FROM_H */
