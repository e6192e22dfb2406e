/*
 * json_text.h
 *		Texts and integers of a JSON message, decoded so that the checks of DAG-CBOR messages apply to them.
 */
#ifndef ATP_JSON_TEXT_H
#define ATP_JSON_TEXT_H

#include "core/codec/json.h"

/* Memory for texts with escapes: enough for the longest DID, collection and record key. */
#define ATP_JSON_TEXTS_MAX	8192

typedef struct AtpJsonTexts
{
	size_t		used;
	char		buf[ATP_JSON_TEXTS_MAX];
} AtpJsonTexts;

/*
 * A text: a span of the message, or, if it has escapes, of texts.  False: the item is no text, or texts is
 * full.
 */
extern bool atp_json_take_text(AtpJsonTexts *texts, const AtpJsonItem *item, AtpSpan *out);

/* A signed integer of 64 bits (J-01, J-02). */
extern AtpErr atp_json_integer(AtpSpan number, int64_t *out);

/* E-40.  An invalid seq leaves *seq unchanged. */
extern AtpErr atp_json_seq(const AtpJsonItem *item, int64_t *seq);

#endif							/* ATP_JSON_TEXT_H */
