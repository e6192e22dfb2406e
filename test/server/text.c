/*
 * text.c
 *		Reads the envelope of Jetstream's texts, of both versions, and builds
 *		error, info and padding texts.
 */
#include "text.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

/* "2026-01-01T00:00:00.123456Z" in microseconds; 0 when it is no time. */
static int64_t
time_of(Slice s)
{
	char		text[40];
	struct tm	tm = {0};
	const char *rest;
	long		usec = 0;

	if (s.len >= sizeof text)
		return 0;
	memcpy(text, s.p, s.len);
	text[s.len] = '\0';
	rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
	if (rest == NULL)
		return 0;
	if (sscanf(rest, ".%6ld", &usec) != 1)
		usec = 0;
	return (int64_t) timegm(&tm) * 1000000 + usec;
}

/* network.bsky.jetstream.subscribeEvents, or anything else in that framing */
static bool
read_payload(Message *m, Slice payload)
{
	Slice		type = {"", 0},
				time = {"", 0};
	const char *hash;

	json_string(payload, "$type", &type);
	hash = memchr(type.p, '#', type.len);
	if (hash != NULL)
		m->kind = (Slice) {hash + 1, type.len - (size_t) (hash + 1 - type.p)};
	json_string(payload, "did", &m->did);
	json_string(payload, "collection", &m->collection);
	json_string(payload, "time", &time);
	m->time_us = time_of(time);
	return json_number(payload, "seq", &m->seq) && m->seq > 0;
}

bool
text_read(Message *m)
{
	Slice		text = {(const char *) m->data, m->len};
	Slice		inner;

	if (json_member(text, "payload", &inner))
		return read_payload(m, inner);
	json_string(text, "did", &m->did);
	json_string(text, "kind", &m->kind);
	json_number(text, "time_us", &m->time_us);
	if (json_member(text, "commit", &inner))
		json_string(inner, "collection", &m->collection);
	return false;
}

static void
put(Buffer *out, const char *s)
{
	buffer_add(out, s, strlen(s));
}

void
text_error(Buffer *out, const char *name, const char *text)
{
	put(out, "{\"$type\":\"error\",\"error\":\"");
	put(out, name);
	put(out, "\",\"message\":\"");
	put(out, text);
	put(out, "\"}");
}

void
text_info(Buffer *out, const char *nsid, const char *name, const char *text)
{
	put(out, "{\"$type\":\"message\",\"payload\":{\"$type\":\"");
	put(out, nsid);
	put(out, "#info\",\"name\":\"");
	put(out, name);
	put(out, "\",\"message\":\"");
	put(out, text);
	put(out, "\"}}");
}

void
text_padding(Buffer *out, Wire wire, size_t size)
{
	size_t		start = buffer_len(out);
	const char *tail = wire == WIRE_JSON ? "\"}}" : "\"}";
	size_t		used;

	put(out, wire == WIRE_JSON ? "{\"$type\":\"message\",\"payload\":{\"$type\":\"org.example.sub#padding\",\"pad\":\""
		: "{\"kind\":\"padding\",\"pad\":\"");
	used = buffer_len(out) - start + strlen(tail);
	if (size < used)
		die("a padding text has at least %zu bytes", used);
	for (size -= used; size > 0; size--)
		buffer_add(out, "x", 1);
	put(out, tail);
}
