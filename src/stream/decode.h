/*
 * decode.h
 *		Messages of a stream into events and rows.
 */
#ifndef ATP_DECODE_H
#define ATP_DECODE_H

#include "postgres.h"

#include "config/subscription.h"
#include "stream/batch.h"

/* Where the stream is (rules E-40, E-41, E-43, D13). */
typedef struct AtpPosition
{
	int64		last;			/* last sequence number taken; -1: none yet */
	bool		overlap;		/* the server may send last once more (D13) */
	bool		outdated;		/* #info OutdatedCursor came: a gap begins after last */
	bool		timed;			/* somebody else has compared the stream's time with the clock */
} AtpPosition;

typedef struct AtpDecoder AtpDecoder;
struct AtpFormat;

/* For streams of this format; lives until its context is reset. */
extern AtpDecoder *atp_decoder_create(MemoryContext cxt, const struct AtpFormat *format);

/* The filters and policies for what is decoded from now on. */
extern void atp_decoder_settings(AtpDecoder *decoder, const AtpSettings *settings);

/*
 * Decode the batch's messages that are not decoded yet.  Returns
 * ATP_DROP_NONE, or why the connection must be dropped; then *why, palloc'd in
 * the batch's context, says it in words, and *error_name is the error frame's
 * name (E-27) or NULL.  What came before the fault is in the batch, to be
 * applied.
 *
 * ATP_DROP_CLOCK: this machine's clock or one message is wrong.  That message is
 * not decoded; events of other repositories after it may tell, in another call.
 */
extern AtpDrop atp_decode(AtpDecoder *decoder, AtpBatch *batch, AtpPosition *position,
						  const char **why, const char **error_name);

/*
 * The same for messages that others will decode: only what concerns the stream
 * itself is done (E-20 to E-45).  The batch gets events without rows, with their
 * keys, and no dead letter.
 */
extern AtpDrop atp_decode_heads(AtpDecoder *decoder, AtpBatch *batch, AtpPosition *position,
								const char **why, const char **error_name);

#endif							/* ATP_DECODE_H */
