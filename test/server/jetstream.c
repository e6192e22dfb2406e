/*
 * jetstream.c
 *		What the two versions of Jetstream do with a request.
 *
 * The first takes a time in microseconds for a cursor, or (below 10^15) a
 * position, and forgives everything: what is too old is clamped without a word.
 * The second takes a seq, inclusive, or a time; it refuses a seq that is too
 * old, and tells that a time was.  Both are live where the cursor is ahead.
 */
#include "jetstream.h"

#include <stdlib.h>
#include <string.h>

#define TIMES_FROM		INT64_C(1000000000000000)

static bool
is_true(const Request *r, const char *parameter)
{
	char	   *value = http_parameter(r, parameter, 0);
	bool		is = value != NULL && strcmp(value, "true") == 0;

	free(value);
	return is;
}

static bool
refused(Jetstream *js, const char *error, const char *text)
{
	filter_free(&js->filter);
	js->error = error;
	js->text = text;
	return false;
}

static bool
compression(Jetstream *js, const Request *r, const Options *o)
{
	const char *encoding = http_header(r, "Socket-Encoding");
	char	   *id = http_parameter(r, "zstdDictionary", 0);
	bool		good = true;

	if (o->capture.wire == WIRE_JETSTREAM)
		js->compressed = is_true(r, "compress") || (encoding != NULL && strstr(encoding, "zstd") != NULL);
	else if (id != NULL)
	{
		js->compressed = true;
		good = o->dictionary != NULL && strtoul(id, NULL, 10) == dictionary_id(o->dictionary);
	}
	free(id);
	if (js->compressed && o->dictionary == NULL)
		good = false;
	return good || refused(js, "UnknownZstdDictionary", "There is no such dictionary.");
}

static bool
position(Jetstream *js, const Request *r, const Options *o)
{
	const Capture *c = &o->capture;
	int64_t		last = capture_last(c);
	int64_t		cursor;
	char	   *end;
	size_t		i;

	js->after = o->live_start != NEVER ? o->live_start : last;
	if (r->cursor == NULL)
		return true;
	cursor = strtoll(r->cursor, &end, 10);
	if (end == r->cursor || *end || cursor < 0)
		return refused(js, "InvalidRequest", "The cursor is not a number.");
	if (cursor >= TIMES_FROM)
	{
		if ((i = capture_find_time(c, cursor)) == c->n)
			return true;
		js->after = c->msgs[i].seq - 1;
	}
	else if (cursor > last)
		return true;
	else
		js->after = cursor > 0 ? cursor - 1 : 0;
	if (js->after < o->oldest - 1)
	{
		if (c->wire == WIRE_JSON && cursor < TIMES_FROM)
			return refused(js, "CursorTooOld", "The cursor is below the oldest event.");
		js->after = o->oldest - 1;
		js->told = c->wire == WIRE_JSON ? "OutdatedCursor" : "clamped";
	}
	return true;
}

bool
jetstream_open(Jetstream *js, const Request *r, const Options *o)
{
	const char *fault;

	*js = (Jetstream) {0};
	js->is = o->capture.wire == WIRE_JETSTREAM ||
		(o->capture.wire == WIRE_JSON && strcmp(r->path, "/xrpc/" JETSTREAM_NSID) == 0);
	if (!js->is)
		return true;
	js->hello = o->capture.wire == WIRE_JETSTREAM && is_true(r, "requireHello");
	if ((fault = filter_query(&js->filter, r, o->capture.wire)) != NULL)
		return refused(js, "InvalidRequest", fault);
	return compression(js, r, o) && position(js, r, o);
}

bool
jetstream_wants_dictionary(const Request *r)
{
	return strcmp(r->method, "GET") == 0 && strcmp(r->path, "/xrpc/network.bsky.jetstream.getZstdDictionary") == 0;
}

const char *
jetstream_dictionary(Buffer *out, const Request *r, const Dictionary *d)
{
	char	   *id = http_parameter(r, "id", 0);
	bool		found = d != NULL && (id == NULL || strtoul(id, NULL, 10) == dictionary_id(d));

	free(id);
	if (found)
		http_bytes(out, dictionary_bytes(d));
	else
		http_error(out, "DictionaryNotFound", "There is no such dictionary.");
	return found ? "dictionary" : "DictionaryNotFound";
}
