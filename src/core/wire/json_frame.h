/*
 * json_frame.h
 *		Event-stream framing in JSON (xrpc.v1.json, rules E-60, J-20 to J-23): a text message is one object.
 */
#ifndef ATP_JSON_FRAME_H
#define ATP_JSON_FRAME_H

#include "core/wire/frame.h"
#include "core/codec/json_text.h"

/*
 * {"$type": "message", "payload": {...}}, or {"$type": "error", "error": ..., "message": ...}; a "$type" that
 * is unknown is to be ignored.  frame->payload is the payload's JSON: measured, not read, and frame->t is not set.
 */
extern AtpErr atp_json_frame_parse(const char *s, size_t n, AtpFrame *frame, AtpJsonTexts *texts, size_t *at);

/*
 * The members of an object that is the whole text, as atp_json_outline() has them; those that are
 * absent are NULL, also after an error.
 */
extern AtpErr atp_json_read_object(AtpBytes text, const char *const *names, unsigned n, AtpJsonItem *values, size_t *at);

/* A message without framing: the whole text is one object, likewise. */
extern AtpErr atp_json_frame_bare(const char *s, size_t n, AtpFrame *frame, size_t *at);

#endif							/* ATP_JSON_FRAME_H */
