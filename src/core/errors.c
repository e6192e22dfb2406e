/*
 * errors.c
 *		The sentence of each error code, from errors.h.
 */
#include "atp.h"

const char *
atp_err_text(AtpErr err)
{
	static const char *const text[ATP_ERR_COUNT] = {
		"no error",
#define ATP_ERROR(code, sentence) sentence,
#include "errors.h"
#undef ATP_ERROR
	};

	if ((unsigned) err >= ATP_ERR_COUNT)
		return "unknown error";
	return text[err];
}
