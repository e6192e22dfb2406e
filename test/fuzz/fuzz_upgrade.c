/*
 * fuzz_upgrade.c
 *		The HTTP answer to an upgrade request, and datetimes.
 */
#include "core/datetime.h"
#include "core/upgrade.h"
#include "syntax_fuzz.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *s = (const char *) data;
	AtpUpgrade	up;
	AtpUpgrade	part;
	uint32_t	seconds;
	int64_t		micros;
	size_t		at;
	AtpErr		err = atp_upgrade_parse(s, size, &up, &at);

	CHECK(at <= size);
	if (err == ATP_OK)
	{
		CHECK(up.head_len <= size && up.status <= 999 && (up.status == 101 || up.status >= 200));
		/* the head is complete at its end, and not before */
		CHECK(atp_upgrade_parse(s, up.head_len, &part, &at) == ATP_OK);
		CHECK(part.status == up.status && part.head_len == up.head_len);
		CHECK(atp_upgrade_parse(s, up.head_len - 1, &part, &at) == ATP_E_HTTP_MORE);
		if (up.retry_after.ptr != NULL)
			(void) atp_retry_after_seconds(up.retry_after, &seconds);
	}
	if (atp_datetime_parse(s, size, &micros, &at) == ATP_OK)
		/* years 0000 to 9999, a day more for zones and leap seconds */
		CHECK(micros >= INT64_C(-62167219200000000) && micros < INT64_C(253402387200000000));
	return 0;
}
