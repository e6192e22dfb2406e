/*
 * archive_message.c
 *		Messages of an archive's rows: see archive_message.h.
 */
#include "core/archive/archive_message.h"

#define SEQ		1
#define TIME	9
#define KIND	17
#define DID_LEN	18
#define REST	20				/* lengths of collection, rkey and rev, a byte each */
#define PAYLOAD	23
#define HEAD	27

static void
put_le(uint8_t *p, unsigned bytes, uint64_t value)
{
	for (unsigned i = 0; i < bytes; i++)
		p[i] = (uint8_t) (value >> 8 * i);
}

static size_t
payload_len(const AtpArchiveRow *row)
{
	return row->payload.len < ATP_ARCHIVE_PAYLOAD_MAX ? row->payload.len : ATP_ARCHIVE_PAYLOAD_MAX;
}

size_t
atp_archive_message_len(const AtpArchiveRow *row)
{
	return HEAD + row->did.len + row->collection.len + row->rkey.len + row->rev.len + payload_len(row);
}

static uint8_t *
put_text(uint8_t *to, const void *text, size_t len)
{
	if (len > 0)
		memcpy(to, text, len);
	return to + len;
}

void
atp_archive_message_write(const AtpArchiveRow *row, uint8_t *out)
{
	uint8_t    *to = out + HEAD;

	out[0] = ATP_ARCHIVE_MARK;
	put_le(out + SEQ, 8, row->seq);
	put_le(out + TIME, 8, (uint64_t) row->witnessed_at);
	out[KIND] = (uint8_t) row->kind;
	put_le(out + DID_LEN, 2, row->did.len);
	out[REST] = (uint8_t) row->collection.len;
	out[REST + 1] = (uint8_t) row->rkey.len;
	out[REST + 2] = (uint8_t) row->rev.len;
	put_le(out + PAYLOAD, 4, payload_len(row));
	to = put_text(to, row->did.ptr, row->did.len);
	to = put_text(to, row->collection.ptr, row->collection.len);
	to = put_text(to, row->rkey.ptr, row->rkey.len);
	to = put_text(to, row->rev.ptr, row->rev.len);
	(void) put_text(to, row->payload.ptr, payload_len(row));
}

static AtpSpan
next_text(const uint8_t **at, size_t len)
{
	AtpSpan		text = {(const char *) *at, len};

	*at += len;
	return text;
}

AtpErr
atp_archive_message_read(AtpBytes message, AtpArchiveRow *row)
{
	const uint8_t *p = message.ptr;
	const uint8_t *at = p + HEAD;
	uint64_t	payload;
	size_t		texts;

	*row = (AtpArchiveRow) {.kind = (AtpArchiveKind) ATP_ARCHIVE_POSITION};
	if (message.len < HEAD || p[0] != ATP_ARCHIVE_MARK || p[KIND] > ATP_ARCHIVE_CREATE_RESYNC)
		return ATP_E_BLOCK_COLUMNS;
	payload = atp_get_le(p + PAYLOAD, 4);
	texts = (size_t) atp_get_le(p + DID_LEN, 2) + p[REST] + p[REST + 1] + p[REST + 2];
	if (message.len - HEAD != texts + payload)
		return ATP_E_BLOCK_COLUMNS;
	row->seq = atp_get_le(p + SEQ, 8);
	row->witnessed_at = (int64_t) atp_get_le(p + TIME, 8);
	row->kind = (AtpArchiveKind) p[KIND];
	row->did = next_text(&at, (size_t) atp_get_le(p + DID_LEN, 2));
	row->collection = next_text(&at, p[REST]);
	row->rkey = next_text(&at, p[REST + 1]);
	row->rev = next_text(&at, p[REST + 2]);
	row->payload = (AtpBytes) {at, (size_t) payload};
	return ATP_OK;
}
