/*
 * fuzz_dns_txt.c
 *		Answers of name servers: what is handed over lies in the answer, as many records as are counted;
 *		an answer that cannot be read hands over nothing; and the case of the name does not matter (W-20).
 *
 * Input: an answer to a question for the name "_atproto.a.example.com".
 */
#include "core/wire/dns_txt.h"
#include "syntax_fuzz.h"

typedef struct Taken
{
	const uint8_t *message;
	size_t		n;
	unsigned	records;
	size_t		bytes;
} Taken;

static void
take(void *arg, const char *s, size_t n, bool first)
{
	Taken	   *taken = arg;

	CHECK((const uint8_t *) s >= taken->message && (const uint8_t *) s + n <= taken->message + taken->n && n <= 255);
	CHECK(first || taken->records > 0);
	taken->records += first;
	taken->bytes += n;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	Taken		taken = {data, size, 0, 0};
	Taken		again = {data, size, 0, 0};
	unsigned	records;
	unsigned	count;
	bool		read = atp_dns_txt_read(data, size, "_atproto.a.example.com", take, &taken, &records);

	CHECK(read ? records == taken.records : taken.records == 0);
	CHECK(atp_dns_txt_read(data, size, "_ATPROTO.a.Example.COM", take, &again, &count) == read);
	CHECK(count == records && again.records == taken.records && again.bytes == taken.bytes);
	/* without its last byte the answer has no further record */
	if (size > 0 && atp_dns_txt_read(data, size - 1, "_atproto.a.example.com", NULL, NULL, &count))
		CHECK(read && count == records);
	return 0;
}
