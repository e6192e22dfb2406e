/*
 * http_hear.c
 *		libcurl's callbacks for a request: name look-up, opening a socket, each header,
 *		each piece of the body.
 *
 * The callbacks run inside libcurl with signals blocked: they raise no ERROR and allocate no palloc'ed
 * memory.
 */
#include "postgres.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/wire/http_head.h"
#include "core/syntax/printable.h"
#include "net/hour.h"
#include "net/http_private.h"
#include "net/poll.h"
#include "storage/fd.h"
#include "utils/timestamp.h"

/* A look-up of the host's name begins; not called when libcurl has an address in its cache. */
static int
on_look_up(void *resolver, void *reserved, void *arg)
{
	((AtpHttp *) arg)->looking_up = atp_now();
	return 0;
}

/*
 * W-51: check the address here, where the socket to exactly this address is opened.  A check before
 * connecting could be bypassed by a second, different answer of the name server.
 */
static curl_socket_t
on_open(void *arg, curlsocktype purpose, struct curl_sockaddr *address)
{
	AtpHttp    *http = arg;
	curl_socket_t fd;

	http->looking_up = 0;
	if (purpose != CURLSOCKTYPE_IPCXN || !(http->url.named || http->request.named || atp_http_address_allowed(&address->addr)))
	{
		http->why = ATP_HTTP_ADDRESS;
		http->why_text = atp_fetch_proxy[0] != '\0' ? "the address of the proxy (atproto.fetch_proxy) is not on the public Internet"
			: "its address is not on the public Internet";
		return CURL_SOCKET_BAD;
	}
	fd = socket(address->family, address->socktype, address->protocol);
	if (fd == CURL_SOCKET_BAD)
		return fd;
	/* not by SOCK_CLOEXEC, which macOS lacks; no other thread starts programs in between */
	(void) fcntl(fd, F_SETFD, FD_CLOEXEC);
	ReserveExternalFD();
	return fd;
}

/* Called when libcurl closes a connection, which may be long after the request it was opened for. */
static int
on_close(void *arg, curl_socket_t fd)
{
	atp_poll_set(fd, 0, NULL, NULL);
	ReleaseExternalFD();
	return close(fd);
}

static int64
parse_number(AtpSpan value)
{
	uint32_t	n;

	return atp_retry_after_seconds(value, &n) ? (int64) n : -1;
}

/* Seconds from now.  The value is a number of seconds, a time in seconds since 1970, or an HTTP date. */
static int64
seconds_until(AtpSpan value)
{
	char		text[64];
	int64		now = timestamptz_to_time_t(atp_time_of_day());
	int64		then = parse_number(value);

	if (then >= 0 && then < INT64CONST(1000000000))
		return then;
	if (value.len == 0 || value.len >= sizeof(text))
		return -1;
	memcpy(text, value.ptr, value.len);
	text[value.len] = '\0';
	if (value.len == 10 && strspn(text, "0123456789") == 10)
		then = strtoll(text, NULL, 10);
	else
		then = curl_getdate(text, NULL);
	return then < 0 ? -1 : Max(then - now, 0);
}

static bool
is_header(AtpSpan name, const char *wanted)
{
	return name.len == strlen(wanted) && pg_strncasecmp(name.ptr, wanted, name.len) == 0;
}

/* A length in bytes; -1: not a number, or too large to be true. */
static int64
length_of(AtpSpan value)
{
	int64		n = 0;

	if (value.len == 0 || value.len > 15)
		return -1;
	for (size_t i = 0; i < value.len; i++)
	{
		if (value.ptr[i] < '0' || value.ptr[i] > '9')
			return -1;
		n = n * 10 + (value.ptr[i] - '0');
	}
	return n;
}

/* "bytes 0-499/1234" */
static void
take_range(AtpHttpAnswer *a, AtpSpan value)
{
	static const char unit[] = "bytes ";
	const char *end = value.ptr + value.len;
	const char *from = value.ptr + strlen(unit);
	const char *dash;
	const char *slash;

	a->range_from = a->range_total = -1;
	if (value.len <= strlen(unit) || pg_strncasecmp(value.ptr, unit, strlen(unit)) != 0 ||
		(dash = memchr(from, '-', end - from)) == NULL || (slash = memchr(dash, '/', end - dash)) == NULL)
		return;
	a->range_from = length_of((AtpSpan) {from, dash - from});
	a->range_total = length_of((AtpSpan) {slash + 1, end - slash - 1});
}

static void
take_header(AtpHttp *http, AtpSpan name, AtpSpan value)
{
	AtpHttpAnswer *a = &http->answer;

	if (is_header(name, "retry-after"))
		a->retry_after_s = seconds_until(value);
	else if (is_header(name, "ratelimit-limit"))
		a->limit = parse_number(value);
	else if (is_header(name, "ratelimit-remaining"))
		a->remaining = parse_number(value);
	else if (is_header(name, "ratelimit-reset"))
		a->reset_s = seconds_until(value);
	else if (is_header(name, "content-length"))
		a->length = length_of(value);
	else if (is_header(name, "content-range"))
		take_range(a, value);
	else if (is_header(name, "etag"))
	{
		a->etag = NULL;
		if (value.len > 0 && value.len <= ATP_HTTP_ETAG_MAX)
		{
			memcpy(http->etag, value.ptr, value.len);
			http->etag[value.len] = '\0';
			a->etag = http->etag;
		}
	}
	else if (is_header(name, "content-type"))
	{
		size_t		n = 0;

		while (n < value.len && n < sizeof(http->content_type) - 1 && value.ptr[n] != ';' && value.ptr[n] != ' ')
		{
			http->content_type[n] = pg_ascii_tolower((unsigned char) value.ptr[n]);
			n++;
		}
		atp_make_printable(http->content_type, n);
		http->content_type[n] = '\0';
	}
	else if (is_header(name, "content-encoding"))
	{
		/* a server may send a file stored as gzip although the request did not ask for gzip */
		http->body.gzip = is_header(value, "gzip") || is_header(value, "x-gzip");
		http->other_encoding |= !http->body.gzip && value.len > 0 && !is_header(value, "identity");
	}
	else if (is_header(name, "transfer-encoding"))
	{
		http->in_chunks = is_header(value, "chunked");
		http->other_encoding |= !http->in_chunks && value.len > 0 && !is_header(value, "identity");
	}
}

/* A status line begins a new answer: headers of an earlier one, of status 1xx or from a proxy, do not count. */
static void
begin_head(AtpHttp *http)
{
	AtpHttpAnswer *a = &http->answer;

	a->retry_after_s = a->limit = a->remaining = a->reset_s = a->length = a->range_from = a->range_total = -1;
	a->etag = NULL;
	http->content_type[0] = '\0';
	http->body.gzip = http->other_encoding = http->has_head = http->in_chunks = false;
	http->chunked = (AtpChunked) {0};
}

static bool
is_success(int status)
{
	return status >= 200 && status <= 299;
}

/*
 * The headers are complete.  With stream, only a successful answer is streamed; the body of an error answer
 * is kept, up to a small limit, for the error message.
 */
static void
end_head(AtpHttp *http)
{
	long		status = 0;

	(void) curl_easy_getinfo(http->easy, CURLINFO_RESPONSE_CODE, &status);
	http->status = (int) status;
	if (status < 200)
		return;
	http->has_head = true;
	http->body.stream = http->request.stream && is_success(http->status);
	if (http->request.stream && !http->body.stream)
		http->body.max = ATP_HTTP_HEADERS_MAX;
}

static size_t
on_header(char *data, size_t size, size_t n, void *arg)
{
	AtpHttp    *http = arg;
	const char *end = data + n;
	const char *colon = memchr(data, ':', n);

	http->answer.received += n;
	atp_hour_bytes(n);
	http->header_bytes += n;
	if (http->header_bytes > ATP_HTTP_HEADERS_MAX)
	{
		http->why = ATP_HTTP_TOO_LARGE;
		http->why_text = "the headers of the answer are too long";
		return 0;
	}
	while (end > data && (end[-1] == '\n' || end[-1] == '\r' || end[-1] == ' ' || end[-1] == '\t'))
		end--;
	if (end == data)
		end_head(http);
	else if (n >= 5 && pg_strncasecmp(data, "HTTP/", 5) == 0)
		begin_head(http);
	/* trailers after a chunked body change nothing */
	else if (colon != NULL && colon < end && !http->has_head)
	{
		const char *value = colon + 1;

		while (value < end && (*value == ' ' || *value == '\t'))
			value++;
		take_header(http, (AtpSpan) {data, colon - data}, (AtpSpan) {value, end - value});
	}
	return n;
}

/* Take a piece of a chunked body. */
static AtpHttpBodyResult
take_chunks(AtpHttp *http, const uint8_t *in, size_t n)
{
	AtpHttpBodyResult result = ATP_BODY_TAKEN;
	AtpBytes	piece;

	/* take all of the data or nothing: after a pause libcurl calls again with all of the same data */
	if (http->body.stream && !atp_body_has_room_for(&http->body, n))
		return ATP_BODY_LATER;
	do
	{
		AtpErr		err = atp_chunked_next(&http->chunked, &in, &n, &piece);

		if (err != ATP_OK)
			return err == ATP_E_CHUNK_PADDED ? ATP_BODY_PADDED : ATP_BODY_BROKEN;
		if (piece.len > 0)
			result = atp_body_take(&http->body, piece.ptr, piece.len);
	} while (piece.len > 0 && result == ATP_BODY_TAKEN);
	return result;
}

static size_t
on_body(char *data, size_t size, size_t n, void *arg)
{
	AtpHttp    *http = arg;
	AtpHttpBodyResult result = http->other_encoding ? ATP_BODY_BROKEN
		: http->in_chunks ? take_chunks(http, (const uint8_t *) data, n)
		: atp_body_take(&http->body, data, n);

	if (result == ATP_BODY_LATER)
	{
		http->paused = true;
		return CURL_WRITEFUNC_PAUSE;
	}
	http->answer.received += n;
	atp_hour_bytes(n);
	if (result == ATP_BODY_TAKEN)
		return n;
	/* a longer body is no fault where a cut body is wanted, nor in an error answer */
	if (result == ATP_BODY_FULL && (http->request.cut || !is_success(http->status)))
		http->cut = true;
	else
		http->why_text = atp_body_fault(result, &http->why);
	return 0;
}

void
atp_http_listen(AtpHttp *http)
{
	CURL	   *e = http->easy;

	curl_easy_setopt(e, CURLOPT_PRIVATE, http);
	curl_easy_setopt(e, CURLOPT_ERRORBUFFER, http->curl_error);
	curl_easy_setopt(e, CURLOPT_RESOLVER_START_FUNCTION, on_look_up);
	curl_easy_setopt(e, CURLOPT_RESOLVER_START_DATA, http);
	curl_easy_setopt(e, CURLOPT_OPENSOCKETFUNCTION, on_open);
	curl_easy_setopt(e, CURLOPT_OPENSOCKETDATA, http);
	curl_easy_setopt(e, CURLOPT_CLOSESOCKETFUNCTION, on_close);
	curl_easy_setopt(e, CURLOPT_HEADERFUNCTION, on_header);
	curl_easy_setopt(e, CURLOPT_HEADERDATA, http);
	curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, on_body);
	curl_easy_setopt(e, CURLOPT_WRITEDATA, http);
}
