/*
 * archive_message.h
 *		A row of an archive as a message of its own, which a consumer keeps in a batch, passes to workers, and keeps as a
 *		dead letter.
 *
 * The first byte occurs in no text of UTF-8, so that such a message is never taken for a message of a Jetstream's stream.
 */
#ifndef ATP_ARCHIVE_MESSAGE_H
#define ATP_ARCHIVE_MESSAGE_H

#include "core/archive/archive_block.h"

#define ATP_ARCHIVE_MARK		0xff

/* A payload is cut at this length, which is more than a record or message may have: so the check of the row fails (H-25). */
#define ATP_ARCHIVE_PAYLOAD_MAX	2500000

/* The kind of a message that has only a sequence number: all rows up to it that the filters want were read (H-06). */
#define ATP_ARCHIVE_POSITION	0

static inline bool
atp_is_archive_message(AtpBytes message)
{
	return message.len > 0 && message.ptr[0] == ATP_ARCHIVE_MARK;
}

/* The length of the row's message. */
extern size_t atp_archive_message_len(const AtpArchiveRow *row);

/* Writes the message, of atp_archive_message_len() bytes. */
extern void atp_archive_message_write(const AtpArchiveRow *row, uint8_t *out);

/* Reads a message; its texts stay in place.  ATP_E_BLOCK_COLUMNS: the lengths do not fill the message. */
extern AtpErr atp_archive_message_read(AtpBytes message, AtpArchiveRow *row);

#endif							/* ATP_ARCHIVE_MESSAGE_H */
