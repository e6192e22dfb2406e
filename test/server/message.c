/*
 * message.c
 *		Finds "seq" in a message's payload and builds error, info and padding
 *		messages.  A lenient reader: it only has to walk over what it skips.
 */
#include "message.h"

#include <string.h>

#define DEPTH_MAX	64

typedef struct Walk
{
	const uint8_t *p;
	const uint8_t *end;
} Walk;

/* Reads an item's head: major type and argument. */
static bool
head(Walk *w, unsigned *major, uint64_t *arg)
{
	unsigned	info,
				bytes;

	if (w->p == w->end)
		return false;
	*major = *w->p >> 5;
	info = *w->p++ & 31;
	*arg = info;
	if (info < 24)
		return true;
	if (info > 27)
		return false;
	bytes = 1u << (info - 24);
	if ((size_t) (w->end - w->p) < bytes)
		return false;
	for (*arg = 0; bytes > 0; bytes--)
		*arg = *arg << 8 | *w->p++;
	return true;
}

static bool
skip(Walk *w, unsigned depth)
{
	unsigned	major;
	uint64_t	n;

	if (depth > DEPTH_MAX || !head(w, &major, &n))
		return false;
	if (major == 2 || major == 3)
	{
		if (n > (uint64_t) (w->end - w->p))
			return false;
		w->p += n;
		return true;
	}
	if (major == 6)
		return skip(w, depth + 1);
	if (major != 4 && major != 5)
		return true;			/* an integer, or a simple value and its bytes */
	if (n > (uint64_t) (w->end - w->p))
		return false;
	for (n *= major == 5 ? 2 : 1; n > 0; n--)
		if (!skip(w, depth + 1))
			return false;
	return true;
}

/*
 * Looks for an integer under the key in the map that comes next, and walks
 * over the whole map.  Negative integers count, as their value.
 */
static bool
find_integer(Walk *w, const char *key, int64_t *value, bool *found)
{
	unsigned	major;
	uint64_t	pairs,
				n;

	*found = false;
	if (!head(w, &major, &pairs) || major != 5)
		return false;
	while (pairs-- > 0)
	{
		bool		match;

		if (!head(w, &major, &n) || major != 3 || n > (uint64_t) (w->end - w->p))
			return false;
		match = n == strlen(key) && memcmp(w->p, key, n) == 0;
		w->p += n;
		if (match && w->p < w->end && *w->p >> 5 <= 1)
		{
			if (!head(w, &major, &n) || n > INT64_MAX)
				return false;
			*value = major == 0 ? (int64_t) n : -1 - (int64_t) n;
			*found = true;
		}
		else if (!skip(w, 0))
			return false;
	}
	return true;
}

/* Moves to the value under the key in the map that comes next. */
static bool
find_value(Walk *w, const char *key)
{
	unsigned	major;
	uint64_t	pairs,
				n;

	if (!head(w, &major, &pairs) || major != 5)
		return false;
	while (pairs-- > 0)
	{
		if (!head(w, &major, &n) || major != 3 || n > (uint64_t) (w->end - w->p))
			return false;
		w->p += n;
		if (n == strlen(key) && memcmp(w->p - n, key, n) == 0)
			return true;
		if (!skip(w, 0))
			return false;
	}
	return false;
}

bool
message_seq(const uint8_t *msg, size_t len, int64_t *seq)
{
	Walk		w = {msg, msg + len};
	Walk		object = w;
	int64_t		op;
	bool		found;

	if (!find_integer(&w, "op", &op, &found))
		return false;
	/* a frame of one object has no "op" (E-61) */
	if (!found)
		w = object;
	if (found ? op != 1 : !find_value(&w, "payload"))
		return false;
	return find_integer(&w, "seq", seq, &found) && found && *seq > 0;
}

static void
put_head(Buffer *out, unsigned major, uint64_t n)
{
	uint8_t		b[9];
	unsigned	bytes = n < 24 ? 0 : n <= UINT8_MAX ? 1 : n <= UINT16_MAX ? 2 : n <= UINT32_MAX ? 4 : 8;
	unsigned	info = bytes == 0 ? (unsigned) n : bytes == 1 ? 24 : bytes == 2 ? 25 : bytes == 4 ? 26 : 27;

	b[0] = (uint8_t) (major << 5 | info);
	for (unsigned i = 0; i < bytes; i++)
		b[1 + i] = (uint8_t) (n >> 8 * (bytes - 1 - i));
	buffer_add(out, b, 1 + bytes);
}

static void
put_text(Buffer *out, const char *s)
{
	put_head(out, 3, strlen(s));
	buffer_add(out, s, strlen(s));
}

void
message_error(Buffer *out, const char *name, const char *text)
{
	put_head(out, 5, 1);
	put_text(out, "op");
	put_head(out, 1, 0);		/* -1 */
	put_head(out, 5, text ? 2 : 1);
	put_text(out, "error");
	put_text(out, name);
	if (text)
	{
		put_text(out, "message");
		put_text(out, text);
	}
}

static void
put_header(Buffer *out, const char *type)
{
	put_head(out, 5, 2);
	put_text(out, "t");
	put_text(out, type);
	put_text(out, "op");
	put_head(out, 0, 1);
}

void
message_info(Buffer *out, const char *name, const char *text)
{
	put_header(out, "#info");
	put_head(out, 5, 2);
	put_text(out, "name");
	put_text(out, name);
	put_text(out, "message");
	put_text(out, text);
}

void
message_padding(Buffer *out, size_t size)
{
	size_t		start = buffer_len(out);
	size_t		used;
	uint8_t		zeros[4096] = {0};

	put_header(out, "#padding");
	put_head(out, 5, 1);
	put_text(out, "pad");
	used = buffer_len(out) - start + 5;
	if (size < used + UINT16_MAX + 1)
		die("a padding message has at least %zu bytes", used + UINT16_MAX + 1);
	put_head(out, 2, size - used);
	for (size -= used; size > 0; size -= size < sizeof zeros ? size : sizeof zeros)
		buffer_add(out, zeros, size < sizeof zeros ? size : sizeof zeros);
}
