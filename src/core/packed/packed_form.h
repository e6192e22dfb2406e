/*
 * packed_form.h
 *		Texts of a fixed form, which the packed form holds as the bytes that the text spells: CIDs, did:plc, at:// URIs, times.
 *		Private to src/core/packed.
 *
 * Invariant: a text that a form takes comes back with exactly the same characters.
 */
#ifndef ATP_PACKED_FORM_H
#define ATP_PACKED_FORM_H

#include "core/packed/packed_code.h"

#define ATP_FORM_MAX		448 /* bytes of the code and content of a text */
#define ATP_CID_CHARS		59	/* of the text of a CID with SHA-256 */
#define ATP_TIME_CHARS		32	/* of the longest time */

/*
 * The code and content of a text of the form, in out; returns the number of bytes.  0: the text has another form,
 * and out may be changed.
 */
extern size_t atp_form_put_cid(AtpSpan text, uint8_t out[ATP_FORM_MAX]);
extern size_t atp_form_put_plc(AtpSpan text, uint8_t out[ATP_FORM_MAX]);
extern size_t atp_form_put_uri(AtpSpan text, uint8_t edition, uint8_t out[ATP_FORM_MAX]);
extern size_t atp_form_put_time(AtpSpan text, uint8_t out[ATP_FORM_MAX]);

/* The text of a value with a code of the form; returns the length of the text.  0: the value is damaged. */
extern size_t atp_form_cid_text(const AtpPackedValue *value, char *out);
extern size_t atp_form_plc_text(const AtpPackedValue *value, char *out);
extern size_t atp_form_uri_text(const AtpPackedValue *value, char *out);
extern size_t atp_form_time_text(const AtpPackedValue *value, char *out);

static inline bool
atp_code_is_time(uint8_t code)
{
	return code >= ATP_CODE_MILLIS && code <= ATP_CODE_MILLIS_ZERO;
}

#endif							/* ATP_PACKED_FORM_H */
