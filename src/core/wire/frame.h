/*
 * frame.h
 *		Event-stream framing, rules E-20 to E-29: a WebSocket message is two DAG-CBOR objects, a header and a
 *		payload.  The payload's meaning is left to repos_message.h and labels_message.h.
 */
#ifndef ATP_FRAME_H
#define ATP_FRAME_H

#include "core/atp.h"

#define ATP_FRAME_MAX	5000000 /* E-11, bytes */

typedef enum AtpFrameKind
{
	ATP_FRAME_MESSAGE,			/* op 1 */
	ATP_FRAME_ERROR,			/* op -1 */
	ATP_FRAME_UNKNOWN			/* any other op: to be ignored (E-22, D14) */
} AtpFrameKind;

typedef struct AtpFrame
{
	AtpFrameKind kind;
	bool		op_negative;	/* op is -1 - op_u ... */
	uint64_t	op_u;			/* ... or op_u */
	AtpSpan		t;				/* type of the message, such as "#commit"; ptr NULL when absent */
	AtpSpan		type;			/* xrpc.v1.cbor: the payload's "$type", of which t is a part; ptr NULL in the first framing */
	AtpBytes	payload;		/* the second object, well-formed */
	size_t		payload_at;		/* the payload's offset in the message */
	AtpSpan		error;			/* ATP_FRAME_ERROR: the error's name */
	AtpSpan		message;		/* ATP_FRAME_ERROR: the error's text; ptr NULL when absent */
} AtpFrame;

/*
 * An error for everything that E-11, E-20, E-21, E-24, E-26 and E-27 call fatal: both objects must be strict
 * DAG-CBOR, and nothing may follow.  The payload of an unknown op is not inspected (E-22).
 */
extern AtpErr atp_frame_parse(const uint8_t *buf, size_t len, AtpFrame *frame, size_t *at);

/*
 * E-61: the framing xrpc.v1.cbor (proposal 0015 of 18 June 2026): one object, {"$type": "message", "payload": {...}} or
 * {"$type": "error", "error": ..., "message": ...}.  The payload's own "$type" gives frame->t, from '#' on.  An unknown
 * "$type" gives ATP_FRAME_UNKNOWN.
 */
extern AtpErr atp_frame_parse_v1(const uint8_t *buf, size_t len, AtpFrame *frame, size_t *at);

/*
 * Is the message of the Lexicon with this NSID?  The "$type" of xrpc.v1.cbor may name another one, such as that of a stream
 * of spaces, with messages of the same names; without an NSID, as in the first framing, the stream's own is meant.
 */
extern bool atp_frame_is_of(const AtpFrame *frame, const char *nsid);

/* The message's type as the server has named it. */
extern AtpSpan atp_frame_type(const AtpFrame *frame);

/* Either framing: a header without "op" begins no frame of the first, and an object with it none of the second. */
extern AtpErr atp_frame_parse_any(const uint8_t *buf, size_t len, AtpFrame *frame, size_t *at);

#endif							/* ATP_FRAME_H */
