/*
 * http_private.h
 *		Declarations shared by the files of the HTTP client.
 *
 * http.c: one request from its start over redirects to its answer; http_curl.c: the options set on
 * libcurl's handle; http_hear.c: libcurl's callbacks; http_body.c: the bytes of the body;
 * http_multi.c: all requests; http_policy.c: which requests are allowed.
 */
#ifndef ATP_HTTP_PRIVATE_H
#define ATP_HTTP_PRIVATE_H

#include "postgres.h"

#include <curl/curl.h>
#include <signal.h>

#include "core/wire/chunked.h"
#include "lib/ilist.h"
#include "net/http.h"
#include "net/http_policy.h"
#include "net/inflate.h"

#define ATP_HTTP_HEADERS_MAX	65536	/* bytes, of all headers of a request over its redirects (W-55) */
#define ATP_HTTP_RAW_MAX		(256 * 1024)	/* default of ahead_max: bytes of a streamed body that the caller has not read yet */
#define ATP_HTTP_DNS_MS			3000

/* A body. libcurl's callbacks fill it and must not raise an ERROR, so its memory is malloc'ed. */
typedef struct AtpHttpBody
{
	bool		stream;			/* stored undecoded until the caller reads */
	bool		gzip;
	AtpInflate *inflate;
	int64		max;
	int64		len;			/* bytes so far, decoded */
	int64		packed;			/* with gzip: compressed bytes so far */
	char	   *kept;			/* without stream: the decoded body, terminated by a zero byte */
	size_t		room;
	size_t		raw_max;		/* with stream: room for bytes not decoded yet */
	uint8_t    *raw;			/* with stream: received, not decoded yet ... */
	size_t		raw_from;
	size_t		raw_to;			/* ... from, to */
} AtpHttpBody;

typedef enum AtpHttpBodyResult
{
	ATP_BODY_TAKEN,
	ATP_BODY_FULL,				/* the body is longer than its limit */
	ATP_BODY_LATER,				/* nothing was taken: the buffer is full until the caller reads */
	ATP_BODY_BROKEN,
	ATP_BODY_PADDED,			/* far more bytes received than content in them */
	ATP_BODY_NO_MEMORY
} AtpHttpBodyResult;

struct AtpHttp
{
	dlist_node	node;			/* in the list of running or of ended requests */
	MemoryContext cxt;
	AtpHttpRequest request;		/* with copies of the strings */
	AtpTime		started;
	int			redirected;		/* number of redirects followed */
	AtpHttpUrl	url;			/* the URL being requested now */
	bool		running;
	bool		ended;			/* ended, and not yet returned by atp_http_next() */

	CURL	   *easy;
	struct curl_slist *headers;
	bool		added;			/* to the multi handle */
	bool		paused;
	char		curl_error[CURL_ERROR_SIZE];

	/* Written by the callbacks. */
	AtpTime		looking_up;		/* when the look-up of the name began; 0: no look-up is running */
	AtpHttpOutcome why;			/* the reason why a callback ended the transfer; ATP_HTTP_OK: no callback did */
	const char *why_text;
	/* a callback ended the transfer, because the part of the body that is needed has been received */
	bool		cut;
	int64		header_bytes;
	int			status;			/* the last status line */
	bool		has_head;		/* the answer's headers are complete */
	bool		other_encoding; /* an encoding which this client cannot decode */
	bool		in_chunks;
	AtpChunked	chunked;
	char		content_type[128];
	char		etag[ATP_HTTP_ETAG_MAX + 1];
	AtpHttpBody body;

	AtpHttpAnswer answer;
};

/*
 * Block signals while libcurl works: a signal handler of the server must run neither inside libcurl nor in
 * one of its threads.
 */
typedef sigset_t AtpSignals;

static inline AtpSignals
atp_block_signals(void)
{
	sigset_t	all,
				before;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	return before;
}

static inline void
atp_unblock_signals(AtpSignals before)
{
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* --- http_curl.c --- */

/* Create the libcurl handle for the current URL, or set a changed URL on it; false: out of memory. */
extern bool atp_http_prepare(AtpHttp *http);

/* Read this file of certificate authorities ("": the system's), unless the file read last is unchanged.  NULL, or the reason of a failure. */
extern const char *atp_http_read_ca(const char *path);

/* The file of certificate authorities for a request. */
extern const char *atp_http_ca_of(const AtpHttpRequest *request);

/* --- http_hear.c --- */

/* Register the callbacks of http_hear.c. */
extern void atp_http_listen(AtpHttp *http);

/* --- http_body.c --- */

extern AtpHttpBodyResult atp_body_take(AtpHttpBody *body, const void *data, size_t n);

/* With stream: decode the next bytes into buf; *result tells of a fault. */
extern size_t atp_body_read(AtpHttpBody *body, void *buf, size_t size, AtpHttpBodyResult *result);

/* With stream: is there room for n more bytes? */
extern bool atp_body_has_room_for(const AtpHttpBody *body, size_t n);

/* The text for a body that was not taken, and the outcome of its request. */
extern const char *atp_body_fault(AtpHttpBodyResult result, AtpHttpOutcome *outcome);

/*
 * With stream: is half of the buffer free?  Only then libcurl resumes a paused transfer, so that the transfer
 * does not pause again at once.
 */
extern bool atp_body_has_room(const AtpHttpBody *body);

/* Is the received body complete, not cut off in the middle of a gzip member? */
extern bool atp_body_is_whole(const AtpHttpBody *body);

/* Drop the body, and free its memory. */
extern void atp_body_reset(AtpHttpBody *body);

/* --- http.c --- */

/* libcurl has finished the transfer: follow a redirect, or end the request. */
extern void atp_http_done(AtpHttp *http, CURLcode rc);

/* End the request in whatever state it is; also with ATP_HTTP_OK. */
extern void atp_http_end(AtpHttp *http, AtpHttpOutcome outcome, const char *why);

/* --- http_multi.c --- */

/* Add the request to, or remove it from, libcurl's multi handle.  False: out of memory. */
extern bool atp_multi_add(AtpHttp *http);
extern void atp_multi_remove(AtpHttp *http);

/* Resume a transfer that on_body() has paused. */
extern void atp_multi_resume(AtpHttp *http);

/* Move the request to the list of ended requests, for atp_http_next(). */
extern void atp_multi_ended(AtpHttp *http);

#endif							/* ATP_HTTP_PRIVATE_H */
