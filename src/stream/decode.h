/*
 * decode.h
 *		Messages of a stream into events and rows.
 */
#ifndef ATP_DECODE_H
#define ATP_DECODE_H

#include "postgres.h"

#include "config/subscription.h"
#include "stream/batch.h"
#include "stream/position.h"

typedef struct AtpDecoder AtpDecoder;
struct AtpFormat;

/* For streams of this format; lives until its context is reset. */
extern AtpDecoder *atp_decoder_create(MemoryContext cxt, const struct AtpFormat *format);

/* What comes from now on is of this format. */
extern void atp_decoder_format(AtpDecoder *decoder, const struct AtpFormat *format);

/* The filters and policies for what is decoded from now on. */
extern void atp_decoder_settings(AtpDecoder *decoder, const AtpSettings *settings);

/* Others fill this table of states of repositories, too (recent.h); InvalidOid: nobody does. */
extern void atp_decoder_shares(AtpDecoder *decoder, Oid table);

/* What is to be done with messages. */
typedef enum AtpDecodePart
{
	ATP_DECODE_ALL,

	/*
	 * Others will decode them: only what concerns the stream itself (E-20 to
	 * E-45).  The batch gets events without rows, with their keys, and no dead
	 * letter.
	 */
	ATP_DECODE_HEADS,
	/* What those others do; the stream's time has been judged. */
	ATP_DECODE_ROWS,
	/* Likewise, of what has waited: all of it is looked at. */
	ATP_DECODE_HELD
} AtpDecodePart;

/* Error frames (E-27) that mean something to this program. */
typedef enum AtpServerError
{
	ATP_SERVER_ERROR_NONE,
	ATP_SERVER_ERROR_FUTURE_CURSOR, /* E-45 */
	ATP_SERVER_ERROR_OTHER
} AtpServerError;

/* Whether the stream goes on. */
typedef struct AtpVerdict
{
	AtpDrop		drop;			/* ATP_DROP_NONE: it does; else the connection must be dropped */
	AtpServerError error;		/* of ATP_DROP_ERROR_FRAME */
	const char *why;			/* in words, palloc'd in the batch's context; NULL: it goes on */
} AtpVerdict;

/*
 * Decode the batch's messages that are not decoded yet.  What came before a
 * fault of the stream is in the batch, to be applied.
 *
 * ATP_DROP_CLOCK: this machine's clock or one message is wrong.  That message is
 * not decoded; events of other repositories after it may tell, in another call.
 */
extern AtpVerdict atp_decode(AtpDecoder *decoder, AtpBatch *batch, AtpPosition *position, AtpDecodePart part);

/* Is what came last, and is not decoded yet, known from another source (recent.h)? */
extern bool atp_decode_is_known(AtpDecoder *decoder, const AtpBatch *batch);

#endif							/* ATP_DECODE_H */
