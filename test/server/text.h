/*
 * text.h
 *		What the server must know of JSON texts, and how to build its own.
 */
#ifndef SRV_TEXT_H
#define SRV_TEXT_H

#include "buffer.h"
#include "capture.h"

/* Fills in what a text tells; false when it has no seq. */
extern bool text_read(Message *m);

extern void text_error(Buffer *out, const char *name, const char *text);
extern void text_info(Buffer *out, const char *nsid, const char *name, const char *text);

/* A well-formed text of an unknown type, exactly size bytes long. */
extern void text_padding(Buffer *out, Wire wire, size_t size);

#endif							/* SRV_TEXT_H */
