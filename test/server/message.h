/*
 * message.h
 *		The little that the server must know of event-stream messages: where a
 *		message carries its seq, and how to build its own.  Written without the
 *		extension's decoder, which is what the tests test.
 */
#ifndef SRV_MESSAGE_H
#define SRV_MESSAGE_H

#include "buffer.h"

#include <stdbool.h>

/* The seq of a message with op 1; false when it has none that can be read. */
extern bool message_seq(const uint8_t *msg, size_t len, int64_t *seq);

extern void message_error(Buffer *out, const char *name, const char *text);
extern void message_info(Buffer *out, const char *name, const char *text);

/* A well-formed message of an unknown type, exactly size bytes long. */
extern void message_padding(Buffer *out, size_t size);

#endif							/* SRV_MESSAGE_H */
