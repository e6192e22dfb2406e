/*
 * frame.h
 *		Event-stream framing, rules E-20 to E-29: a WebSocket message is two
 *		DAG-CBOR objects, a header and a payload.
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
	AtpSpan		t;				/* "#commit"; ptr NULL when absent */
	AtpBytes	payload;		/* the second object, well-formed */
	size_t		payload_at;		/* its offset in the message */
	AtpSpan		error;			/* ATP_FRAME_ERROR: its name */
	AtpSpan		message;		/* ATP_FRAME_ERROR: its text, or absent */
} AtpFrame;

/*
 * Everything that E-11, E-20, E-21, E-24, E-26 and E-27 call fatal is an error here:
 * both objects are strict DAG-CBOR (the payload of an unknown op excepted,
 * E-22: it is not inspected) and nothing follows.
 */
extern AtpErr atp_frame_parse(const uint8_t *buf, size_t len, AtpFrame *frame, size_t *at);

#endif							/* ATP_FRAME_H */
