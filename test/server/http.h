/*
 * http.h
 *		The HTTP part of a connection: the request, and the answers to it.
 */
#ifndef SRV_HTTP_H
#define SRV_HTTP_H

#include "buffer.h"
#include "options.h"

#define HTTP_REQUEST_MAX	65536
#define HTTP_HEADERS_MAX	64

typedef struct Request
{
	char	   *text;			/* a copy, cut up by zeros */
	const char *method;
	const char *path;
	const char *query;			/* what follows '?', or "" */
	char	   *cursor;			/* value of the parameter, or NULL */
	unsigned	nheaders;
	struct
	{
		const char *name;
		const char *value;
	}			header[HTTP_HEADERS_MAX];
} Request;

/* 1: read, and consumed from in.  0: not yet whole.  -1: not a request. */
extern int	http_read(Buffer *in, Request *r);
extern const char *http_header(const Request *r, const char *name);
extern void http_free(Request *r);

/* The i-th value of a parameter of the query, decoded; NULL when there are not so many. */
extern char *http_parameter(const Request *r, const char *name, size_t i);

/* Is it a GET with a WebSocket upgrade, of a path that this wire has?  Otherwise the status to send. */
extern int	http_check(const Request *r, Wire wire);

/* So many interim responses, before the answer. */
extern void http_interim(Buffer *out, int64_t n);

extern void http_switch(Buffer *out, const Request *r, bool bad_accept, Wire wire);

/* An answer with a JSON error; options add what was asked for, when not NULL. */
extern void http_refuse(Buffer *out, int status, const Options *o);

/* The answer 400 with an error of XRPC. */
extern void http_error(Buffer *out, const char *name, const char *text);

extern void http_bytes(Buffer *out, const Buffer *bytes);

#endif							/* SRV_HTTP_H */
