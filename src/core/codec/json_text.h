/*
 * json_text.h
 *		Values of a JSON message that are checked as they are: texts without regard to their escapes,
 *		and integers.
 */
#ifndef ATP_JSON_TEXT_H
#define ATP_JSON_TEXT_H

#include "core/codec/json.h"

/* Memory for texts with escapes: the longest DID, collection and record key, and more. */
#define ATP_JSON_TEXTS_MAX	8192

typedef struct AtpJsonTexts
{
	size_t		used;
	char		buf[ATP_JSON_TEXTS_MAX];
} AtpJsonTexts;

/* A text: a span of the message, or, decoded, of the memory.  False: it is no text, or there is no room for it. */
extern bool atp_json_take_text(AtpJsonTexts *texts, const AtpJsonItem *item, AtpSpan *out);

/* A number that is an integer of 64 bits (J-01, J-02). */
extern AtpErr atp_json_integer(AtpSpan number, int64_t *out);

/* E-40.  A seq that is wrong leaves *seq alone. */
extern AtpErr atp_json_seq(const AtpJsonItem *item, int64_t *seq);

#endif							/* ATP_JSON_TEXT_H */
