/*
 * fuzz_handle_txt.c
 *		The account that a handle's domain names, compared with the rule spelt out over whole records.
 *
 * Input: strings, each ended by a line feed; a string that begins with '+' continues the record before it.
 */
#include "core/syntax/handle_txt.h"
#include "syntax_fuzz.h"

/* The result for the records read so far, by W-20. */
typedef struct Said
{
	AtpHandleFound found;
	AtpSpan		did;
} Said;

static void
record_is(Said *said, const char *s, size_t n)
{
	size_t		at;

	if (n < 4 || memcmp(s, "did=", 4) != 0 || atp_did_check(s + 4, n - 4, &at) != ATP_OK)
		return;
	if (said->found == ATP_HANDLE_NONE)
		*said = (Said) {ATP_HANDLE_DID, {s + 4, n - 4}};
	else if (said->did.len != n - 4 || memcmp(said->did.ptr, s + 4, n - 4) != 0)
		said->found = ATP_HANDLE_SEVERAL;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static AtpHandleTxt txt;
	const char *s = (const char *) data;
	const char *end = s + size;
	char	   *records = malloc(size + 1);
	size_t		begin = 0,
				len = 0;
	Said		said = {0};
	AtpSpan		file = atp_handle_file(s, size);

	CHECK(file.ptr == NULL || (file.ptr >= s && file.ptr + file.len <= end && file.len <= ATP_HANDLE_FILE_MAX));

	atp_handle_txt_begin(&txt);
	while (s < end)
	{
		const char *lf = memchr(s, '\n', end - s);
		const char *stop = lf != NULL ? lf : end;
		bool		first = *s != '+';

		if (!first)
			s++;
		atp_handle_txt_string(&txt, s, stop - s, first);
		if (first)
		{
			record_is(&said, records + begin, len - begin);
			begin = len;
		}
		memcpy(records + len, s, stop - s);
		len += stop - s;
		s = lf != NULL ? lf + 1 : end;
	}
	record_is(&said, records + begin, len - begin);
	CHECK(atp_handle_txt_end(&txt) == said.found);
	if (said.found == ATP_HANDLE_DID)
		CHECK(txt.did_len == said.did.len && memcmp(txt.did, said.did.ptr, txt.did_len) == 0);
	free(records);
	return 0;
}
