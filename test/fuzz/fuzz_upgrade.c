/*
 * fuzz_upgrade.c
 *		Heads of HTTP responses, and datetimes.
 */
#include "core/lexicon/datetime.h"
#include "core/wire/http_head.h"
#include "syntax_fuzz.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *s = (const char *) data;
	AtpHttpHead head;
	AtpHttpHead part;
	AtpSpan		value;
	uint32_t	seconds;
	int64_t		micros;
	size_t		at;
	AtpErr		err = atp_http_head_parse(s, size, &head, &at);

	CHECK(at <= size);
	if (err == ATP_OK)
	{
		CHECK(head.len <= size && head.status <= 999 && (head.status == 101 || head.status >= 200));
		/* the head is complete exactly at its end */
		CHECK(atp_http_head_parse(s, head.len, &part, &at) == ATP_OK);
		CHECK(part.status == head.status && part.len == head.len);
		CHECK(atp_http_head_parse(s, head.len - 1, &part, &at) == ATP_E_HTTP_MORE);
		value = atp_http_header(&head, "retry-after");
		if (value.ptr != NULL)
			(void) atp_retry_after_seconds(value, &seconds);
		CHECK(value.ptr == NULL || (value.ptr >= head.headers.ptr &&
									value.ptr + value.len <= head.headers.ptr + head.headers.len));
		(void) atp_http_is_websocket(&head, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=", "xrpc.v1.json");
	}
	if (atp_datetime_parse(s, size, &micros, &at) == ATP_OK)
		/* years 0000 to 9999, a day more for zones and leap seconds */
		CHECK(micros >= INT64_C(-62167219200000000) && micros < INT64_C(253402387200000000));
	return 0;
}
