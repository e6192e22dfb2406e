/*
 * http.h
 *		HTTP requests to servers that strangers name (rules W-50 to W-58), many at
 *		a time, through libcurl.
 *
 * Nothing here waits, and nothing needs a transaction or minds one: a request is
 * started, atp_http_pump() moves all of them on, and its owner takes it when it
 * has ended.  Only out of memory raises an ERROR.  Whoever waits, waits for the
 * one descriptor of poll.h, at most as long as atp_http_timeout() says.
 *
 * Errands do not start requests here but through fetch/engine/fetch.h, which keeps the
 * limits of the hosts.
 */
#ifndef ATP_HTTP_H
#define ATP_HTTP_H

#include "postgres.h"

#include "common/clock.h"

typedef struct AtpHttp AtpHttp;

/* How a request ended; atp_http_outcome_name() has the words that statistics use. */
typedef enum AtpHttpOutcome
{
	ATP_HTTP_OK,				/* an answer came whole, whatever its status */
	ATP_HTTP_POLICY,			/* this URL is not asked: scheme, port, user info (W-50, W-52) */
	ATP_HTTP_ADDRESS,			/* nor this address (W-51) */
	ATP_HTTP_DNS,				/* no address; name servers that do not answer, too */
	ATP_HTTP_CONNECT,			/* TCP, or the proxy */
	ATP_HTTP_TLS,
	ATP_HTTP_TIMEOUT,			/* the whole took too long */
	ATP_HTTP_SLOW,				/* too few bytes for too long */
	ATP_HTTP_TOO_LARGE,			/* body, after decoding, or headers */
	ATP_HTTP_REDIRECT,			/* one more than allowed, or a bad one (W-53) */
	ATP_HTTP_BUSY,				/* one to a host that has to rest now: try again later */
	ATP_HTTP_SETTINGS,			/* nobody is asked: what fetch_ca_file names cannot be used; likewise */
	ATP_HTTP_BROKEN,			/* no HTTP, cut in the middle, or an encoding that is wrong */
	ATP_HTTP_COUNT
} AtpHttpOutcome;

extern const char *atp_http_outcome_name(int outcome);

/* All is copied but owner, arg and place.  What is zero has the default that is given here. */
typedef struct AtpHttpRequest
{
	const void *owner;			/* atp_http_next() gives a request to its owner */
	void	   *arg;			/* what the owner wants to know it by */
	void	   *place;			/* fetch.c's */
	const char *url;
	const char *accept;			/* media types; NULL: no such header */
	int			redirects;		/* how many are followed */
	int			whole_ms;		/* time limit of all, redirects too; 10 s */
	int64		body_max;		/* bytes, after decoding; 64 KiB */
	bool		cut;			/* a longer body is cut there, and that is ATP_HTTP_OK (W-21) */
	bool		gzip;			/* accept it, and decode it */
	bool		http2;			/* for many small requests to one host */
	bool		stream;			/* the body is read by atp_http_read() as it comes */
	int			slow_bytes;		/* fewer per second ... */
	int			slow_s;			/* ... for so long end it; 0: no such limit */
} AtpHttpRequest;

/* What came back; lives as long as the AtpHttp. */
typedef struct AtpHttpAnswer
{
	AtpHttpOutcome outcome;
	int			status;			/* 0: none came */
	const char *error;			/* for people: URL, status, reason (W-58); NULL when outcome is OK and status 2xx */
	const char *url;			/* the last one asked */
	const char *host;			/* of it: see atp_http_host_of() */
	const char *content_type;	/* NULL: none; without parameters, lower case, printable */
	const char *body;			/* terminated by a zero byte; NULL with stream */
	int64		body_len;		/* decoded bytes that came, with stream, too */
	int64		received;		/* bytes of the wire: headers and bodies */
	/* -1: not said, or not understood */
	int64		retry_after_s;	/* seconds, or a date; from now */
	int64		limit;			/* ratelimit-limit */
	int64		remaining;		/* ratelimit-remaining */
	int64		reset_s;		/* ratelimit-reset; from now */
} AtpHttpAnswer;

/* From _PG_init(): the settings. */
extern void atp_http_init(void);

/* Once in a process, before everything else.  Raises an ERROR when libcurl cannot be used. */
extern void atp_http_begin(void);

/* Never NULL: what cannot be asked has ended when this returns. */
extern AtpHttp *atp_http_start(const AtpHttpRequest *request);

/*
 * Move all on, as far as that can be done without waiting.  To be called when the
 * descriptor is readable or the time is over; and at least each 50 ms in long
 * work, where a transaction may be open.
 */
extern void atp_http_pump(void);

/*
 * Milliseconds until atp_http_pump() has something to do without a socket, or
 * atp_http_news() something to say; -1: none.
 */
extern long atp_http_timeout(AtpTime now);

/* Has anything come since this was asked last, for whomever? */
extern bool atp_http_news(void);

/* The next of this owner that has ended, each once; NULL: none.  It is the owner's to free. */
extern AtpHttp *atp_http_next(const void *owner);

/* Has atp_http_next() given it? */
extern bool atp_http_is_taken(const AtpHttp *http);

/* When it has ended; before, NULL. */
extern const AtpHttpAnswer *atp_http_answer(const AtpHttp *http);

/* was it not the time for it?  Then it says nothing of what was asked for. */
extern bool atp_http_is_later(const AtpHttpAnswer *answer);

/* Status of a request with stream, as soon as it is known (after redirects); 0: not yet. */
extern int	atp_http_status(const AtpHttp *http);

/*
 * The next bytes of the body of a request with stream, decoded; 0: none now.
 * While nobody reads, the server waits: a request that has ended may have some
 * left.  When the request has ended and this returns 0, the body was whole if
 * the outcome is ATP_HTTP_OK: look at it then, since decoding may fail here.
 */
extern size_t atp_http_read(AtpHttp *http, void *buf, size_t size);

extern void *atp_http_arg(const AtpHttp *http);
extern void *atp_http_place(const AtpHttp *http);

/* The host that is asked now: a redirect changes it. */
extern const char *atp_http_host(const AtpHttp *http);

/* Ends it if it runs; NULL is allowed. */
extern void atp_http_free(AtpHttp *http);

/* How many run. */
extern int	atp_http_running(void);

/* What limits are kept for: "name", or "name:port" when it is not the scheme's port; palloc'd; NULL: no URL. */
extern char *atp_http_host_of(const char *url);

/*
 * May there be a request to this URL (W-50, W-52)?  NULL: yes; else why not.
 * For whoever stores a PDS's URL (W-14) as for each request and redirect.
 */
extern const char *atp_http_refused(const char *url);

/*
 * Asked before a redirect is followed: may there be a request at this host now?
 * The other host has answered.  False ends the request with ATP_HTTP_BUSY.
 */
typedef bool (*AtpHttpRedirect) (AtpHttp *http, const char *from, const char *to);
extern void atp_http_on_redirect(AtpHttpRedirect redirect);

#endif							/* ATP_HTTP_H */
