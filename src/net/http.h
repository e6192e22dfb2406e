/*
 * http.h
 *		HTTP requests to servers that strangers name (rules W-50 to W-58), and to servers
 *		that an operator has named (H-01), many at a time, through libcurl.
 *
 * No function here waits or needs a transaction, and a transaction may be open. atp_http_start()
 * starts a request, atp_http_pump() advances all requests, and the owner takes an ended request.  Only
 * lack of memory raises an ERROR.  A process waits for the descriptor of poll.h, at most for
 * atp_http_timeout().
 *
 * Limits of requests per host are not kept here: tasks start requests through fetch/engine/fetch.h.
 */
#ifndef ATP_HTTP_H
#define ATP_HTTP_H

#include "postgres.h"

#include "common/clock.h"

#define ATP_HTTP_ETAG_MAX	200		/* bytes */

typedef struct AtpHttp AtpHttp;

/* How a request ended; atp_http_outcome_name() has the words for statistics. */
typedef enum AtpHttpOutcome
{
	ATP_HTTP_OK,				/* a complete answer, with whatever status */
	ATP_HTTP_POLICY,			/* the URL must not be requested: scheme, port, user info (W-50, W-52) */
	ATP_HTTP_ADDRESS,			/* connecting to the host's address is not allowed (W-51) */
	ATP_HTTP_DNS,				/* no address found, or the name servers do not answer */
	ATP_HTTP_CONNECT,			/* TCP, or the proxy */
	ATP_HTTP_TLS,
	ATP_HTTP_TIMEOUT,			/* the whole took too long */
	ATP_HTTP_SLOW,				/* too few bytes for too long */
	ATP_HTTP_TOO_LARGE,			/* body, after decoding, or headers */
	ATP_HTTP_REDIRECT,			/* too many redirects, or a redirect to a URL that must not be requested (W-53) */
	ATP_HTTP_BUSY,				/* a redirect to a host at its request limit: try again later */
	ATP_HTTP_SETTINGS,			/* no request was sent, since the file of fetch_ca_file is unusable: try again later */
	ATP_HTTP_BROKEN,			/* not HTTP, cut off, or a wrong encoding */
	ATP_HTTP_COUNT
} AtpHttpOutcome;

extern const char *atp_http_outcome_name(int outcome);

/* A request's parameters, copied except owner, arg and place.  A zero field means the default in its comment. */
typedef struct AtpHttpRequest
{
	const void *owner;			/* atp_http_next() returns requests by owner */
	void	   *arg;			/* the owner's own data */
	void	   *place;			/* fetch.c's */
	bool		shared;			/* fetch.c's: the host's requests for other purposes come first (P-60) */
	bool		bulk;			/* fetch.c's: leaves the last tenth of the bounds of an hour to other requests (hour.h) */
	const char *url;
	const char *accept;			/* media types; NULL: no Accept header */
	int			redirects;		/* redirects to follow at most */
	int			whole_ms;		/* time limit of the request with its redirects; default 10 s */
	int64		body_max;		/* limit of the decoded body in bytes; default 64 KiB */
	bool		cut;			/* a longer body is cut at body_max, and the outcome is ATP_HTTP_OK (W-21) */
	bool		gzip;			/* ask for gzip; such a body is decoded */
	bool		http2;			/* use HTTP/2 if possible: for many small requests to one host */
	bool		stream;			/* the caller reads the body by atp_http_read() while it arrives ... */
	size_t		ahead_max;		/* ... and so many bytes wait for the caller at most; default 256 KiB */
	int			slow_bytes;		/* end the request at fewer bytes per second ... */
	int			slow_s;			/* ... for this many seconds; 0: no such limit */
	const char *post;			/* JSON to send by POST; NULL: GET */
	const char *headers;		/* further lines "Name: value\r\n", which may be secret; NULL: none */
	bool		named;			/* an operator has named the host: any scheme, address and port, and the next two */
	const char *ca_file;		/* file with the certificate authorities to trust; NULL: the system's */
	const char *proxy;			/* NULL: from the environment; "": no proxy */
} AtpHttpRequest;

/* The result of a request; lives as long as the AtpHttp. */
typedef struct AtpHttpAnswer
{
	AtpHttpOutcome outcome;
	int			status;			/* 0: no status line came */
	const char *error;			/* for people: URL, status, reason (W-58); NULL when outcome is OK and status 2xx */
	const char *url;			/* the last URL requested, after redirects */
	const char *host;			/* the host of url: see atp_http_host_of() */
	const char *content_type;	/* NULL: no such header; without parameters, lower case, printable */
	const char *body;			/* terminated by a zero byte; NULL with stream */
	int64		body_len;		/* decoded bytes received, also with stream */
	int64		received;		/* bytes of the wire: headers and bodies */
	/* -1: header missing or invalid */
	int64		retry_after_s;	/* seconds, or a date; from now */
	int64		limit;			/* ratelimit-limit */
	int64		remaining;		/* ratelimit-remaining */
	int64		reset_s;		/* ratelimit-reset; from now */
	int64		length;			/* content-length */
	int64		range_from;		/* content-range: the first byte ... */
	int64		range_total;	/* ... and the bytes of the whole */
	const char *etag;			/* with its quotes; NULL: none, or longer than ATP_HTTP_ETAG_MAX */
} AtpHttpAnswer;

/* From _PG_init(): the settings. */
extern void atp_http_init(void);

/* Once in a process, before everything else.  Raises an ERROR when libcurl cannot be used. */
extern void atp_http_begin(void);

/* Start a request; never returns NULL.  A request which cannot be sent has already ended on return. */
extern AtpHttp *atp_http_start(const AtpHttpRequest *request);

/*
 * Advance all requests, without waiting.  Call when the descriptor is readable or the timeout has passed; in
 * long work, where a transaction may be open, call at least every 50 ms, so that transfers keep running.
 */
extern void atp_http_pump(void);

/*
 * Milliseconds until atp_http_pump() has work without a ready socket, or atp_http_news() has news; -1: no
 * limit.
 */
extern long atp_http_timeout(AtpTime now);

/* Has any request of any owner progressed since the last call? */
extern bool atp_http_news(void);

/*
 * The next ended request of an owner; each is returned once.  NULL: no request has ended.  The owner frees
 * the request.
 */
extern AtpHttp *atp_http_next(const void *owner);

/* Has atp_http_next() returned the request? */
extern bool atp_http_is_taken(const AtpHttp *http);

/* The answer of an ended request; NULL: the request is still running. */
extern const AtpHttpAnswer *atp_http_answer(const AtpHttp *http);

/*
 * did the request fail only because of its moment (rate limit, server busy, settings)?  Then the answer
 * says nothing about the object requested, and the owner asks again later.
 */
extern bool atp_http_is_later(const AtpHttpAnswer *answer);

/* Status of a request with stream, as soon as known (after redirects); 0: not known yet. */
extern int	atp_http_status(const AtpHttp *http);

/* The headers of a request with stream, as soon as atp_http_status() is known; NULL: not yet. */
extern const AtpHttpAnswer *atp_http_head(const AtpHttp *http);

/*
 * With stream: read the next decoded bytes of the body; returns 0 when no bytes are available now.  When our
 * buffer is full, the server has to wait until the caller reads.  An ended request may have bytes left.
 * After 0 from an ended request, the body was complete if the outcome is ATP_HTTP_OK: check the outcome then,
 * since decoding can still fail in this call.
 */
extern size_t atp_http_read(AtpHttp *http, void *buf, size_t size);

extern void *atp_http_arg(const AtpHttp *http);
extern void *atp_http_place(const AtpHttp *http);

/* The host of the current URL: a redirect changes the host. */
extern const char *atp_http_host(const AtpHttp *http);

/* End the request if it is running, and free it; NULL is allowed. */
extern void atp_http_free(AtpHttp *http);

/* The number of running requests. */
extern int	atp_http_running(void);

/*
 * The key for limits per host: "name", or "name:port" when the port is not the scheme's; palloc'd; NULL: not
 * a URL.
 */
extern char *atp_http_host_of(const char *url);

/*
 * Is a request to this URL allowed (W-50, W-52)?  NULL: yes; else the reason.  Before a PDS's URL is stored
 * (W-14) the same check runs as before each request and redirect.
 */
extern const char *atp_http_refused(const char *url);

/*
 * Called before a redirect from one host to another is followed: may the host "to" get a request now?  "from"
 * has answered.  False ends the request with ATP_HTTP_BUSY.
 */
typedef bool (*AtpHttpRedirect) (AtpHttp *http, const char *from, const char *to);
extern void atp_http_on_redirect(AtpHttpRedirect redirect);

#endif							/* ATP_HTTP_H */
