/*
 * packed_text.h
 *		Texts of the packed form, of any code.  Private to src/core/packed.
 */
#ifndef ATP_PACKED_TEXT_H
#define ATP_PACKED_TEXT_H

#include "core/packed/packed_form.h"

/* The code and content of a text that has a number or a form, in out; returns the number of bytes.  0: a literal text. */
extern size_t atp_packed_put_text(AtpSpan text, uint8_t edition, uint8_t out[ATP_FORM_MAX]);

/* Does the code stand for a text? */
static inline bool
atp_code_is_text(uint8_t code)
{
	return code <= ATP_CODE_TEXT || (code >= ATP_CODE_SHORT_TEXT && code < ATP_CODE_SMALL);
}

/* The text of a value with the code of a text: in the value, in constant memory, or in buf.  False: the value is damaged. */
extern bool atp_packed_get_text(const AtpPackedValue *value, char buf[ATP_FORM_MAX], AtpSpan *text);

#endif							/* ATP_PACKED_TEXT_H */
