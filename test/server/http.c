/*
 * http.c
 *		Reads an upgrade request and writes the answer (RFC 6455, section 4.2).
 */
#include "http.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Cuts the next line off *rest; NULL at the empty line. */
static char *
line(char **rest)
{
	char	   *start = *rest;
	char	   *end = strstr(start, "\r\n");

	if (end == NULL || end == start)
		return NULL;
	*end = '\0';
	*rest = end + 2;
	return start;
}

static int
hex_digit(char c)
{
	const char *digits = "0123456789abcdef";
	const char *at = c ? strchr(digits, c | (c > '9' ? 0x20 : 0)) : NULL;

	return at ? (int) (at - digits) : -1;
}

/* A copy of n bytes, with what %XX stands for. */
static char *
decoded(const char *s, size_t n)
{
	char	   *copy = xcalloc(n + 1, 1);
	char	   *out = copy;

	for (const char *end = s + n; s < end; s++)
	{
		int			high = *s == '%' && end - s > 2 ? hex_digit(s[1]) : -1;
		int			low = high >= 0 ? hex_digit(s[2]) : -1;

		if (low >= 0)
			s += 2;
		*out++ = low >= 0 ? (char) (high << 4 | low) : *s;
	}
	return copy;
}

char *
http_parameter(const Request *r, const char *name, size_t i)
{
	size_t		n = strlen(name);

	for (const char *p = r->query; *p; p += strcspn(p, "&"), p += *p == '&')
		if (strncmp(p, name, n) == 0 && p[n] == '=' && i-- == 0)
			return decoded(p + n + 1, strcspn(p + n + 1, "&"));
	return NULL;
}

static bool
parse(Request *r)
{
	char	   *rest = r->text;
	char	   *s = line(&rest);
	char	   *target,
			   *query;

	if (s == NULL || (target = strchr(s, ' ')) == NULL)
		return false;
	*target++ = '\0';
	r->method = s;
	if ((s = strchr(target, ' ')) == NULL || strcmp(s, " HTTP/1.1") != 0)
		return false;
	*s = '\0';
	r->path = target;
	r->query = "";
	if ((query = strchr(target, '?')) != NULL)
	{
		*query = '\0';
		r->query = query + 1;
	}
	r->cursor = http_parameter(r, "cursor", 0);
	while ((s = line(&rest)) != NULL)
	{
		char	   *colon = strchr(s, ':');

		if (colon == NULL || r->nheaders == HTTP_HEADERS_MAX)
			return false;
		*colon++ = '\0';
		r->header[r->nheaders].name = s;
		r->header[r->nheaders++].value = colon + strspn(colon, " \t");
	}
	return true;
}

int
http_read(Buffer *in, Request *r)
{
	size_t		n = buffer_len(in);
	const uint8_t *bytes = buffer_bytes(in);
	const uint8_t *end = n ? memmem(bytes, n, "\r\n\r\n", 4) : NULL;

	memset(r, 0, sizeof *r);
	if (end == NULL)
		return n > HTTP_REQUEST_MAX ? -1 : 0;
	n = (size_t) (end - bytes) + 4;
	r->text = xcalloc(n + 1, 1);
	memcpy(r->text, bytes, n);
	buffer_consume(in, n);
	return memchr(r->text, '\0', n) == NULL && parse(r) ? 1 : -1;
}

const char *
http_header(const Request *r, const char *name)
{
	for (unsigned i = 0; i < r->nheaders; i++)
		if (strcasecmp(r->header[i].name, name) == 0)
			return r->header[i].value;
	return NULL;
}

void
http_free(Request *r)
{
	free(r->text);
	free(r->cursor);
	memset(r, 0, sizeof *r);
}

int
http_check(const Request *r, Wire wire)
{
	const char *upgrade = http_header(r, "Upgrade");
	const char *connection = http_header(r, "Connection");
	const char *version = http_header(r, "Sec-WebSocket-Version");
	const char *key = http_header(r, "Sec-WebSocket-Key");

	if (strcmp(r->method, "GET") != 0)
		return 405;
	if (wire == WIRE_JETSTREAM ? strcmp(r->path, "/subscribe") != 0 : strncmp(r->path, "/xrpc/", 6) != 0 || r->path[6] == '\0')
		return 404;
	if (upgrade == NULL || strcasecmp(upgrade, "websocket") != 0 ||
		connection == NULL || strcasestr(connection, "upgrade") == NULL ||
		version == NULL || strcmp(version, "13") != 0)
		return 426;
	if (key == NULL || strlen(key) != 24 || http_header(r, "Host") == NULL)
		return 400;
	return 101;
}

/* base64(sha1(key + the GUID of RFC 6455)) */
static void
accept_key(const char *key, char out[32])
{
	char		text[128];
	uint8_t		digest[EVP_MAX_MD_SIZE];
	unsigned	n;

	snprintf(text, sizeof text, "%s258EAFA5-E914-47DA-95CA-C5AB0DC85B11", key);
	if (EVP_Digest(text, strlen(text), digest, &n, EVP_sha1(), NULL) != 1)
		die("SHA-1 failed");
	EVP_EncodeBlock((uint8_t *) out, digest, (int) n);
}

static void
put(Buffer *out, const char *s)
{
	buffer_add(out, s, strlen(s));
}

void
http_interim(Buffer *out, int64_t n)
{
	while (n-- > 0)
		put(out, "HTTP/1.1 103 Early Hints\r\nLink: </style.css>; rel=preload\r\n\r\n");
}

void
http_switch(Buffer *out, const Request *r, bool bad_accept, Wire wire)
{
	const char *protocol = http_header(r, "Sec-WebSocket-Protocol");
	char		key[32];

	accept_key(bad_accept ? "some other key" : http_header(r, "Sec-WebSocket-Key"), key);
	put(out, "HTTP/1.1 101 Switching Protocols\r\n"
		"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ");
	put(out, key);
	if (wire == WIRE_JSON && protocol != NULL && strcmp(protocol, "xrpc.v1.json") == 0)
		put(out, "\r\nSec-WebSocket-Protocol: xrpc.v1.json");
	put(out, "\r\n\r\n");
}

static void
read_body(Buffer *body, const char *file)
{
	FILE	   *f = fopen(file, "rb");
	uint8_t		chunk[65536];
	size_t		n;

	if (f == NULL)
		die("cannot open %s", file);
	while ((n = fread(chunk, 1, sizeof chunk, f)) > 0)
		buffer_add(body, chunk, n);
	fclose(f);
}

static void
fill_body(Buffer *body, int64_t size)
{
	char		chunk[4096];

	memset(chunk, 'x', sizeof chunk);
	for (int64_t left = size; left > 0; left -= (int64_t) sizeof chunk)
		buffer_add(body, chunk, left < (int64_t) sizeof chunk ? (size_t) left : sizeof chunk);
}

void
http_refuse(Buffer *out, int status, const Options *o)
{
	Buffer		body = {0};
	char		text[256];

	if (o && o->body_file)
		read_body(&body, o->body_file);
	else if (o && o->body_size != NEVER)
		fill_body(&body, o->body_size);
	else
	{
		snprintf(text, sizeof text, "{\"error\":\"Status%d\",\"message\":\"The test server answers %d.\"}",
				 status, status);
		put(&body, text);
	}
	snprintf(text, sizeof text, "HTTP/1.1 %d Answer\r\nConnection: close\r\nContent-Length: %zu\r\n",
			 status, buffer_len(&body));
	put(out, text);
	put(out, o && (o->body_file || o->body_size != NEVER) ? "Content-Type: text/html\r\n"
		: "Content-Type: application/json\r\n");
	if (o && o->retry_after)
	{
		put(out, "Retry-After: ");
		put(out, o->retry_after);
		put(out, "\r\n");
	}
	if (o && o->redirect)
	{
		put(out, "Location: ");
		put(out, o->redirect);
		put(out, "\r\n");
	}
	put(out, "\r\n");
	buffer_add(out, buffer_bytes(&body), buffer_len(&body));
	buffer_free(&body);
}

static void
whole_answer(Buffer *out, const char *status, const char *type, const void *body, size_t n)
{
	char		text[256];

	snprintf(text, sizeof text, "HTTP/1.1 %s\r\nConnection: close\r\nContent-Length: %zu\r\nContent-Type: %s\r\n\r\n",
			 status, n, type);
	put(out, text);
	buffer_add(out, body, n);
}

void
http_error(Buffer *out, const char *name, const char *text)
{
	char		body[512];

	snprintf(body, sizeof body, "{\"error\":\"%s\",\"message\":\"%s\"}", name, text);
	whole_answer(out, "400 Bad Request", "application/json", body, strlen(body));
}

void
http_bytes(Buffer *out, const Buffer *bytes)
{
	whole_answer(out, "200 OK", "application/octet-stream", buffer_bytes(bytes), buffer_len(bytes));
}
