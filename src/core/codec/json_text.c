/*
 * json_text.c
 *		Texts and integers of a JSON message: see json_text.h.
 */
#include "core/codec/field.h"
#include "core/codec/json_text.h"

bool
atp_json_take_text(AtpJsonTexts *texts, const AtpJsonItem *item, AtpSpan *out)
{
	size_t		n;

	if (item->kind != ATP_JSON_TEXT)
		return false;
	*out = item->raw;
	if (!item->escaped)
		return true;
	*out = (AtpSpan) {texts->buf + texts->used, 0};
	if (!atp_json_text(item, texts->buf + texts->used, sizeof(texts->buf) - texts->used, &n))
		return false;
	out->len = n;
	texts->used += n;
	return true;
}

AtpErr
atp_json_integer(AtpSpan number, int64_t *out)
{
	bool		negative = number.ptr[0] == '-';
	bool		fraction = false;
	uint64_t	u = 0;

	for (size_t i = negative; i < number.len; i++)
	{
		unsigned	digit = (unsigned) (number.ptr[i] - '0');

		if (number.ptr[i] == '.')
			fraction = true;
		else if (digit > 9 || (fraction && digit > 0))
			return ATP_E_JSON_NUMBER;
		else if (!fraction)
		{
			if (u > (uint64_t) INT64_MAX / 10)
				return ATP_E_DATA_INTEGER;
			u = u * 10 + digit;
		}
	}
	if (negative && u == 0)
		return ATP_E_JSON_NUMBER;
	if (u > (uint64_t) INT64_MAX + negative)
		return ATP_E_DATA_INTEGER;
	*out = negative ? -1 - (int64_t) (u - 1) : (int64_t) u;
	return ATP_OK;
}

AtpErr
atp_json_seq(const AtpJsonItem *item, int64_t *seq)
{
	int64_t		value;
	AtpErr		err = item->kind == ATP_JSON_NUMBER ? atp_json_integer(item->raw, &value) : ATP_E_JSON_NUMBER;

	if (err == ATP_E_JSON_NUMBER)
		return ATP_E_SEQ_MISSING;
	if (err != ATP_OK || value < 1 || value >= ATP_SEQ_LIMIT)
		return ATP_E_SEQ_RANGE;
	*seq = value;
	return ATP_OK;
}
