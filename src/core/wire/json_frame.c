/*
 * json_frame.c
 *		Event-stream framing in JSON: see json_frame.h.
 */
#include "core/wire/json_frame.h"

AtpErr
atp_json_read_object(AtpBytes text, const char *const *names, unsigned n, AtpJsonItem *values, size_t *at)
{
	bool		unused;

	return atp_json_read_known(text, names, n, values, &unused, at);
}

AtpErr
atp_json_read_known(AtpBytes text, const char *const *names, unsigned n, AtpJsonItem *values, bool *others, size_t *at)
{
	AtpJsonReader r;
	AtpJsonItem item;
	bool		repeated;
	AtpErr		err;

	*others = true;
	for (unsigned i = 0; i < n; i++)
		values[i] = (AtpJsonItem) {.kind = ATP_JSON_NULL};
	atp_json_init(&r, (const char *) text.ptr, text.len, ATP_JSON_DEPTH_DEFAULT);
	if ((err = atp_json_next(&r, &item, at)) != ATP_OK)
		return err;
	*at = 0;
	if (item.kind != ATP_JSON_OBJECT)
		return ATP_E_JSON_OBJECT;
	if ((err = atp_json_outline(&r, names, n, values, &repeated, at)) != ATP_OK)
		return err;
	if ((err = atp_json_next(&r, &item, at)) != ATP_E_JSON_END)
		return err;
	*others = r.others;
	return repeated ? ATP_E_JSON_TWICE : ATP_OK;
}

/* An error here, in the object or in these members, is fatal to the connection (J-20). */
static AtpErr
begin_object(const char *s, size_t n, const char *const *names, unsigned nnames, AtpJsonItem *values, AtpFrame *frame, size_t *at)
{
	*frame = (AtpFrame) {.kind = ATP_FRAME_UNKNOWN};
	*at = ATP_FRAME_MAX;
	if (n > ATP_FRAME_MAX)
		return ATP_E_FRAME_SIZE;
	return atp_json_read_object((AtpBytes) {(const uint8_t *) s, n}, names, nnames, values, at);
}

AtpErr
atp_json_frame_bare(const char *s, size_t n, AtpFrame *frame, size_t *at)
{
	AtpErr		err = begin_object(s, n, NULL, 0, NULL, frame, at);

	frame->kind = ATP_FRAME_MESSAGE;
	frame->payload = (AtpBytes) {(const uint8_t *) s, n};
	return err;
}

AtpErr
atp_json_frame_parse(const char *s, size_t n, AtpFrame *frame, AtpJsonTexts *texts, size_t *at)
{
	static const char *const names[] = {"$type", "payload", "error", "message"};
	enum
	{
		TYPE, PAYLOAD, ERROR, MESSAGE, NAMES
	};
	AtpJsonItem values[NAMES];
	AtpErr		err;

	texts->used = 0;
	if ((err = begin_object(s, n, names, NAMES, values, frame, at)) != ATP_OK)
		return err;
	*at = 0;
	if (values[TYPE].kind != ATP_JSON_TEXT)
		return ATP_E_JSON_FRAME;
	if (atp_json_is(&values[TYPE], "message", strlen("message")))
	{
		if (values[PAYLOAD].kind != ATP_JSON_OBJECT)
			return ATP_E_FRAME_PAYLOAD;
		frame->kind = ATP_FRAME_MESSAGE;
		frame->payload = (AtpBytes) {(const uint8_t *) values[PAYLOAD].raw.ptr, values[PAYLOAD].raw.len};
		frame->payload_at = values[PAYLOAD].raw.ptr - s;
	}
	else if (atp_json_is(&values[TYPE], "error", strlen("error")))
	{
		frame->kind = ATP_FRAME_ERROR;
		if (!atp_json_take_text(texts, &values[ERROR], &frame->error))
			return ATP_E_FRAME_ERROR;
		if (!atp_json_take_text(texts, &values[MESSAGE], &frame->message))
			frame->message = (AtpSpan) {NULL, 0};
	}
	return ATP_OK;
}
