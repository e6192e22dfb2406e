/*
 * capture.c
 *		Reads a capture file and finds each message's seq.
 */
#include "capture.h"

#include "buffer.h"
#include "message.h"
#include "text.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

/* A file of at least so many bytes is mapped: tests write smaller ones again while the server runs. */
#define MAPPED_MIN	((off_t) 64 << 20)

/* zlib passes a file that is not gzip through as it stands. */
static void
read_all(const char *file, Buffer *b)
{
	gzFile		f = gzopen(file, "rb");
	uint8_t		chunk[65536];
	int			n;

	if (f == NULL)
		die("cannot open %s", file);
	while ((n = gzread(f, chunk, sizeof chunk)) > 0)
		buffer_add(b, chunk, (size_t) n);
	if (n < 0 || gzclose(f) != Z_OK)
		die("cannot read %s", file);
}

/* Maps a large file that is not gzip; NULL: another file. */
static uint8_t *
map_all(const char *file, size_t *len)
{
	int			fd = open(file, O_RDONLY);
	struct stat st;
	uint8_t		start[2];
	void	   *map = MAP_FAILED;

	if (fd < 0)
		die("cannot open %s", file);
	if (fstat(fd, &st) == 0 && st.st_size >= MAPPED_MIN && read(fd, start, 2) == 2 && !(start[0] == 0x1f && start[1] == 0x8b))
		map = mmap(NULL, (size_t) st.st_size, PROT_READ, MAP_PRIVATE | MAP_POPULATE, fd, 0);
	close(fd);
	if (map == MAP_FAILED)
		return NULL;
	*len = (size_t) st.st_size;
	return map;
}

static void
number(Capture *c)
{
	int64_t		last = 0;

	for (size_t i = 0; i < c->n; i++)
	{
		Message    *m = &c->msgs[i];

		if (c->wire == WIRE_CBOR ? message_seq(m->data, m->len, &m->seq) : text_read(m))
			c->has_seq = true;
		else
			m->seq = last;
		last = m->seq;
	}
	if (!c->has_seq)
		for (size_t i = 0; i < c->n; i++)
			c->msgs[i].seq = (int64_t) i + 1;
	if (c->wire == WIRE_JETSTREAM)
		c->has_seq = true;		/* messages of Jetstream have none: the position of a message in the file serves as its seq */
}

/* Which wire is it?  A frame of DAG-CBOR begins with a map. */
static Wire
wire_of(const Capture *c)
{
	Slice		first,
				value;

	if (c->n == 0 || c->msgs[0].len == 0 || c->msgs[0].data[0] != '{')
		return WIRE_CBOR;
	first = (Slice) {(const char *) c->msgs[0].data, c->msgs[0].len};
	return json_member(first, "$type", &value) ? WIRE_JSON : WIRE_JETSTREAM;
}

void
capture_load(Capture *c, const char *file)
{
	Buffer		b = {0};
	size_t		cap = 0;

	memset(c, 0, sizeof *c);
	b.data = map_all(file, &b.end);
	if (b.data != NULL)
		c->mapped = b.end;
	else
		read_all(file, &b);
	for (size_t pos = 0; pos < b.end;)
	{
		const uint8_t *p = b.data + pos;
		size_t		len;

		if (b.end - pos < 4)
			die("%s: a length is cut off at byte %zu", file, pos);
		len = (size_t) p[0] << 24 | (size_t) p[1] << 16 | (size_t) p[2] << 8 | p[3];
		if (b.end - pos - 4 < len)
			die("%s: a message is cut off at byte %zu", file, pos);
		if (c->n == cap)
		{
			cap = cap ? cap * 2 : 1024;
			c->msgs = xrealloc(c->msgs, cap * sizeof *c->msgs);
		}
		c->msgs[c->n++] = (Message) {.data = p + 4, .len = len};
		pos += 4 + len;
	}
	c->bytes = b.data;
	c->wire = wire_of(c);
	number(c);
}

size_t
capture_find(const Capture *c, int64_t seq)
{
	size_t		i = 0;

	/* Not a binary search: a capture may be out of order on purpose. */
	while (i < c->n && c->msgs[i].seq < seq)
		i++;
	return i;
}

size_t
capture_find_time(const Capture *c, int64_t time_us)
{
	size_t		i = 0;

	while (i < c->n && c->msgs[i].time_us < time_us)
		i++;
	return i;
}

int64_t
capture_last(const Capture *c)
{
	int64_t		last = 0;

	for (size_t i = 0; i < c->n; i++)
		if (c->msgs[i].seq > last)
			last = c->msgs[i].seq;
	return last;
}

void
capture_free(Capture *c)
{
	if (c->mapped > 0)
		munmap(c->bytes, c->mapped);
	else
		free(c->bytes);
	free(c->msgs);
	memset(c, 0, sizeof *c);
}
