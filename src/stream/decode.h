/*
 * decode.h
 *		Decodes messages of a stream into events and rows.  Touches no table; the format
 *		of the stream (format.h) does the work that depends on the kind of stream.
 */
#ifndef ATP_DECODE_H
#define ATP_DECODE_H

#include "postgres.h"

#include "config/subscription.h"
#include "stream/batch.h"
#include "stream/position.h"

typedef struct AtpDecoder AtpDecoder;
struct AtpFormat;

/* Create a decoder for streams of this format; lives as long as cxt. */
extern AtpDecoder *atp_decoder_create(MemoryContext cxt, const struct AtpFormat *format);

/* Change the format for messages decoded from now on. */
extern void atp_decoder_format(AtpDecoder *decoder, const struct AtpFormat *format);

/* Set the filters and policies for messages decoded from now on. */
extern void atp_decoder_settings(AtpDecoder *decoder, const AtpSettings *settings);

/*
 * Set the table of repository states which several sources fill, so that known commits are passed over
 * (rev_cache.h); InvalidOid: only this source fills it.
 */
extern void atp_decoder_shares(AtpDecoder *decoder, Oid table);

/* The part of decoding that a process does. */
typedef enum AtpDecodePart
{
	ATP_DECODE_ALL,

	/*
	 * A consumer with workers decodes only the parts about the stream itself (E-20, E-45 and the rules
	 * between).  The batch gets events without rows, with their keys, and no dead letters.
	 */
	ATP_DECODE_HEADS,
	/* A worker decodes the rows; the consumer has already judged the stream's time. */
	ATP_DECODE_ROWS,
	/* Held events are decoded like ROWS, but none is passed over as already known. */
	ATP_DECODE_HELD
} AtpDecodePart;

/* Error frames (E-27) to which the consumer reacts. */
typedef enum AtpServerError
{
	ATP_SERVER_ERROR_NONE,
	ATP_SERVER_ERROR_FUTURE_CURSOR, /* E-45 */
	ATP_SERVER_ERROR_OTHER
} AtpServerError;

/* Whether the stream can continue. */
typedef struct AtpVerdict
{
	AtpDrop		drop;			/* ATP_DROP_NONE: continue; else the connection must be dropped */
	AtpServerError error;		/* of ATP_DROP_ERROR_FRAME */
	const char *why;			/* in words, palloc'd in the batch's context; NULL: the stream continues */
} AtpVerdict;

/*
 * Decode the batch's messages not decoded yet.  After a fault of the stream, the batch contains the events
 * before the fault, to be applied.
 *
 * ATP_DROP_CLOCK: either this machine's clock or one message is wrong.  The message stays undecoded; later
 * events of other repositories may decide, in another call.
 */
extern AtpVerdict atp_decode(AtpDecoder *decoder, AtpBatch *batch, AtpPosition *position, AtpDecodePart part);

/*
 * The sequence number of a message, and a digest of its contents that is the same whether the stream or an archive has brought it.
 * Both are 0 for a message that is no event, or that cannot be read.
 */
extern int64 atp_message_digest(AtpDecoder *decoder, AtpBytes message, int64 *seq);

/* Is one of the messages received last, and not decoded yet, a commit known from another source (rev_cache.h)? */
extern bool atp_decode_is_known(AtpDecoder *decoder, const AtpBatch *batch);

#endif							/* ATP_DECODE_H */
