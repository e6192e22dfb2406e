/*
 * json_frame.h
 *		Event-stream framing in JSON (xrpc.v1.json, rules E-60, J-20 to J-23): a text message is one object.
 */
#ifndef ATP_JSON_FRAME_H
#define ATP_JSON_FRAME_H

#include "core/wire/frame.h"
#include "core/codec/json_text.h"

/*
 * J-22: parses {"$type": "message", "payload": {...}} or {"$type": "error", "error": ..., "message": ...}. An
 * unknown "$type" gives ATP_FRAME_UNKNOWN, to be ignored.  frame->payload is the payload's JSON, which is
 * measured, not parsed; frame->t is not set.
 */
extern AtpErr atp_json_frame_parse(const char *s, size_t n, AtpFrame *frame, AtpJsonTexts *texts, size_t *at);

/*
 * The members of the one object that the text must be, as atp_json_outline() gives them.  Absent members are
 * NULL, also after an error.
 */
extern AtpErr atp_json_read_object(AtpBytes text, const char *const *names, unsigned n, AtpJsonItem *values, size_t *at);

/* As atp_json_read_object().  *others: the object may have members with other names. */
extern AtpErr atp_json_read_known(AtpBytes text, const char *const *names, unsigned n, AtpJsonItem *values, bool *others, size_t *at);

/* A message without framing: the whole text is one object, the payload, which is measured, not parsed. */
extern AtpErr atp_json_frame_bare(const char *s, size_t n, AtpFrame *frame, size_t *at);

#endif							/* ATP_JSON_FRAME_H */
