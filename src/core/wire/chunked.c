/*
 * chunked.c
 *		Decoder of HTTP/1.1 chunked bodies: see chunked.h.
 */
#include "core/wire/chunked.h"

/* To which part of the body the next byte belongs. */
enum
{
	SIZE, EXTENSION, DATA, DATA_END, TRAILER, TRAILER_LINE, END
};

/*
 * A chunk of one byte needs five bytes of framing ("1" and two line ends).  A body may have AROUND_FREE bytes
 * of framing, and AROUND_PER_BYTE more for each byte of contents; beyond this the framing is only a burden,
 * and the body is refused (W-55).
 */
#define AROUND_FREE		65536
#define AROUND_PER_BYTE	8

static int
hex_digit(uint8_t c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The line with a chunk's size has ended. */
static AtpErr
end_size(AtpChunked *c)
{
	if (c->digits == 0)
		return ATP_E_CHUNK;
	c->state = c->left > 0 ? DATA : TRAILER;
	c->digits = 0;
	return ATP_OK;
}

static AtpErr
take_size(AtpChunked *c, uint8_t byte)
{
	int			digit = hex_digit(byte);

	if (byte == '\n')
		return end_size(c);
	if (digit < 0)
	{
		c->state = EXTENSION;
		return c->digits > 0 && (byte == '\r' || byte == ';' || byte == ' ' || byte == '\t') ? ATP_OK : ATP_E_CHUNK;
	}
	if (++c->digits > 15)
		return ATP_E_CHUNK;
	c->left = c->left << 4 | (uint64_t) digit;
	return ATP_OK;
}

/* Reads one byte of framing. */
static AtpErr
take_around(AtpChunked *c, uint8_t byte)
{
	if (++c->around > AROUND_FREE && (c->around - AROUND_FREE) / AROUND_PER_BYTE > c->contents)
		return ATP_E_CHUNK_PADDED;
	switch (c->state)
	{
		case SIZE:
			return take_size(c, byte);
		case EXTENSION:
			return byte == '\n' ? end_size(c) : ATP_OK;
		case DATA_END:
			if (byte == '\n')
				c->state = SIZE;
			return byte == '\n' || byte == '\r' ? ATP_OK : ATP_E_CHUNK;
		case TRAILER:
			if (byte == '\n')
				c->state = END;
			else if (byte != '\r')
				c->state = TRAILER_LINE;
			return ATP_OK;
		default:
			if (byte == '\n')
				c->state = TRAILER;
			return ATP_OK;
	}
}

AtpErr
atp_chunked_next(AtpChunked *c, const uint8_t **in, size_t *n, AtpBytes *piece)
{
	*piece = (AtpBytes) {*in, 0};
	while (*n > 0 && c->state != END)
	{
		AtpErr		err;

		if (c->state == DATA)
		{
			size_t		len = c->left < *n ? (size_t) c->left : *n;

			*piece = (AtpBytes) {*in, len};
			*in += len;
			*n -= len;
			c->left -= len;
			c->contents += len;
			if (c->left == 0)
				c->state = DATA_END;
			return ATP_OK;
		}
		err = take_around(c, **in);
		(*in)++;
		(*n)--;
		if (err != ATP_OK)
			return err;
	}
	return ATP_OK;
}

bool
atp_chunked_is_whole(const AtpChunked *c)
{
	return c->state == END;
}
