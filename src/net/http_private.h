/*
 * http_private.h
 *		What the files of the HTTP client share.
 *
 * http.c is one request, from its start over redirects to its answer; http_curl.c
 * what libcurl is told of it, and http_hear.c what it tells; http_body.c the bytes
 * of its body; http_multi.c all of them; http_policy.c which of them may be made.
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

#define ATP_HTTP_HEADERS_MAX	65536	/* bytes, of one answer and all before it (W-55) */
#define ATP_HTTP_RAW_MAX		(256 * 1024)	/* of a body that nobody has read yet */
#define ATP_HTTP_DNS_MS			3000

/* Of libcurl's callbacks: they may not raise an ERROR, so what they allocate is malloc'ed. */
typedef struct AtpHttpBody
{
	bool		stream;			/* kept as it came, until it is read */
	bool		gzip;
	AtpInflate *inflate;
	int64		max;
	int64		len;			/* decoded */
	int64		packed;			/* with gzip: what that was made of */
	char	   *kept;			/* all of it, decoded, and a zero byte after it; not with stream */
	size_t		room;
	uint8_t    *raw;			/* with stream: not decoded yet ... */
	size_t		raw_from;
	size_t		raw_to;			/* ... from, to */
} AtpHttpBody;

typedef enum AtpHttpBodyResult
{
	ATP_BODY_TAKEN,
	ATP_BODY_FULL,				/* it has more than it may */
	ATP_BODY_LATER,				/* read first: nothing was taken */
	ATP_BODY_BROKEN,
	ATP_BODY_PADDED,			/* what came is far more than what is in it */
	ATP_BODY_NO_MEMORY
} AtpHttpBodyResult;

struct AtpHttp
{
	dlist_node	node;			/* in the list of those that run, or have ended */
	MemoryContext cxt;
	AtpHttpRequest request;		/* its texts are copies */
	AtpTime		started;
	int			redirected;		/* how often */
	AtpHttpUrl	url;			/* the one that is asked now */
	bool		running;
	bool		ended;			/* and its owner has not taken it yet */

	CURL	   *easy;
	struct curl_slist *headers;
	bool		added;			/* to the multi handle */
	bool		paused;
	char		curl_error[CURL_ERROR_SIZE];

	/* what the callbacks say */
	AtpTime		looking_up;		/* since when its name is looked up; 0: it is not */
	AtpHttpOutcome why;			/* ended by one of them for this reason; ATP_HTTP_OK: it was not */
	const char *why_text;
	bool		cut;			/* ended since all that counts of the body is here */
	int64		header_bytes;
	int			status;			/* the last status line */
	bool		has_head;		/* the answer's headers are complete */
	bool		other_encoding; /* one that cannot be decoded */
	bool		in_chunks;
	AtpChunked	chunked;
	char		content_type[128];
	AtpHttpBody body;

	AtpHttpAnswer answer;
};

/* While libcurl works: none of the signals that it or its threads get may be served there. */
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

/* Make the handle for the present URL, or tell it of another; false: out of memory. */
extern bool atp_http_prepare(AtpHttp *http);

/* Read the file of fetch_ca_file, if it is not the one that is known; NULL, or why it cannot be. */
extern const char *atp_http_read_ca(void);

/* --- http_hear.c --- */

/* Have libcurl call the functions there. */
extern void atp_http_listen(AtpHttp *http);

/* --- http_body.c --- */

extern AtpHttpBodyResult atp_body_take(AtpHttpBody *body, const void *data, size_t n);

/* With stream: decode the next bytes.  *result says what is wrong, if something is. */
extern size_t atp_body_read(AtpHttpBody *body, void *buf, size_t size, AtpHttpBodyResult *result);

/* With stream: is there room for so many bytes? */
extern bool atp_body_has_room_for(const AtpHttpBody *body, size_t n);

/* Why it is not taken, and what its request has come to. */
extern const char *atp_body_fault(AtpHttpBodyResult result, AtpHttpOutcome *outcome);

/* With stream: is there room for the largest piece that libcurl hands over? */
extern bool atp_body_has_room(const AtpHttpBody *body);

/* Has what came an end where it ends? */
extern bool atp_body_is_whole(const AtpHttpBody *body);

/* Forget it, and free all. */
extern void atp_body_reset(AtpHttpBody *body);

/* --- http.c --- */

/* libcurl is done with it: go where it leads, or end it. */
extern void atp_http_done(AtpHttp *http, CURLcode rc);

/* End it, wherever it is; with ATP_HTTP_OK, too. */
extern void atp_http_end(AtpHttp *http, AtpHttpOutcome outcome, const char *why);

/* --- http_multi.c --- */

/* Let it run, or not any more.  False: out of memory. */
extern bool atp_multi_add(AtpHttp *http);
extern void atp_multi_remove(AtpHttp *http);

/* It has been paused, and can go on. */
extern void atp_multi_resume(AtpHttp *http);

/* It has ended: atp_http_next() has it. */
extern void atp_multi_ended(AtpHttp *http);

#endif							/* ATP_HTTP_PRIVATE_H */
