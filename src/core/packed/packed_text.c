/*
 * packed_text.c
 *		Texts of the packed form: texts with a number, texts of a fixed form, and literal texts.
 */
#include "core/packed/packed_table.h"
#include "core/packed/packed_text.h"

/* No text with a number has a form, so that the order of the attempts changes nothing: the forms refuse most texts by their length. */
size_t
atp_packed_put_text(AtpSpan text, uint8_t edition, uint8_t out[ATP_FORM_MAX])
{
	uint16_t	number;
	size_t		n;

	if ((n = atp_form_put_cid(text, out)) > 0 || (n = atp_form_put_plc(text, out)) > 0 ||
		(n = atp_form_put_uri(text, edition, out)) > 0 || (n = atp_form_put_time(text, out)) > 0)
		return n;
	number = atp_packed_find_text(text, edition);
	if (number < ATP_PACKED_ONE_BYTE)
	{
		out[0] = (uint8_t) number;
		return 1;
	}
	if (number == ATP_PACKED_NONE)
		return 0;
	out[0] = ATP_CODE_LISTED;
	out[1] = (uint8_t) (number - ATP_PACKED_ONE_BYTE);
	return 2;
}

static bool
get_listed(unsigned number, AtpSpan *text)
{
	*text = atp_packed_text((uint16_t) number);
	return text->ptr != NULL;
}

bool
atp_packed_get_text(const AtpPackedValue *value, char buf[ATP_FORM_MAX], AtpSpan *text)
{
	AtpBytes	body = value->content;

	if (value->code < ATP_PACKED_ONE_BYTE)
		return get_listed(value->code, text);
	if (value->code == ATP_CODE_LISTED)
		return get_listed(ATP_PACKED_ONE_BYTE + body.ptr[0], text);
	if (value->code == ATP_CODE_TEXT || value->code >= ATP_CODE_SHORT_TEXT)
	{
		if (value->code == ATP_CODE_TEXT)
			body = atp_packed_body(body);
		*text = (AtpSpan) {(const char *) body.ptr, body.len};
		return true;
	}
	text->ptr = buf;
	if (atp_code_is_time(value->code))
		text->len = atp_form_time_text(value, buf);
	else if (value->code == ATP_CODE_PLC)
		text->len = atp_form_plc_text(value, buf);
	else if (value->code == ATP_CODE_URI || value->code == ATP_CODE_URI_PARTS)
		text->len = atp_form_uri_text(value, buf);
	else
		text->len = atp_form_cid_text(value, buf);
	return text->len > 0;
}
