/*
 * test_record.c
 *		The data model: rules B-20 to B-28.
 */
#include "core/codec/cbor_write.h"
#include "core/packed/packed.h"
#include "hex.h"
#include "protocol/record.h"

#define RAW		"d82a582500015512200000000000000000000000000000000000000000000000000000000000000000"
#define CBOR	"d82a582500017112200000000000000000000000000000000000000000000000000000000000000000"
#define REF		"63726566"
#define SIZE	"6473697a65"
#define BLOB	"65247479706564626c6f62"
#define MIME	"686d696d6554797065"

/* Packing a record finds the same fault. */
static void
check_packing(AtpBytes record, AtpErr expected, size_t expected_at)
{
	uint8_t    *out = malloc(ATP_PACKED_ROOM(record.len));
	size_t		n;
	size_t		at;
	AtpErr		err = atp_packed_store_record(record, out, &n, &at);

	ok(err == expected && (err == ATP_OK || at == expected_at), "packed: %s at %zu", atp_err_text(err), at);
	free(out);
}

static void
check(const char *rule, const char *hex, AtpErr expected, size_t expected_at)
{
	AtpBytes	b = unhex(hex);
	size_t		at = 0;
	AtpErr		err = atp_record_check(b.ptr, b.len, &at);

	ok(err == expected && (err == ATP_OK || at == expected_at),
	   "%s: %s: %s at %zu", rule, show(hex, strlen(hex)), atp_err_text(err), at);
	check_packing(b, expected, expected_at);
	free((void *) b.ptr);
}

static void
vector(char *line, size_t n, void *arg)
{
	bool		valid = strcmp(field(&line), "valid") == 0;
	char	   *hex = field(&line);
	AtpBytes	b;
	size_t		at;

	if (strcmp(hex, "hex") == 0)
		return;
	b = unhex(hex);
	ok((atp_record_check(b.ptr, b.len, &at) == ATP_OK) == valid, "%s: %s",
	   valid ? "valid" : "invalid", line);
	free((void *) b.ptr);
}

/* A record that contains a text of n bytes or a list of n nulls. */
static void
sizes(size_t n, bool list, AtpErr expected)
{
	AtpCborWriter w = {.cap = n + 64};
	char	   *text = calloc(n, 1);
	size_t		at;
	AtpErr		err;

	memset(text, 'x', n);
	w.buf = malloc(w.cap);
	atp_cbor_put_map(&w, 2);
	atp_cbor_put_key(&w, "a");
	if (list)
		atp_cbor_put_array(&w, n);
	else
		atp_cbor_put_text(&w, text, n);
	for (size_t i = 0; list && i < n; i++)
		atp_cbor_put_null(&w);
	atp_cbor_put_key(&w, "$type");
	atp_cbor_put_key(&w, "abc");
	err = atp_record_check(w.buf, w.len, &at);
	ok(err == expected, "B-28: %zu bytes, %s of %zu: %s", w.len, list ? "list" : "text", n,
	   atp_err_text(err));
	free(w.buf);
	free(text);
}

static void
long_key(size_t n, AtpErr expected)
{
	AtpCborWriter w = {.cap = n + 64};
	char	   *key = malloc(n);
	size_t		at;
	AtpErr		err;

	memset(key, 'x', n);
	w.buf = malloc(w.cap);
	atp_cbor_put_map(&w, 2);
	atp_cbor_put_key(&w, "$type");
	atp_cbor_put_key(&w, "abc");
	atp_cbor_put_text(&w, key, n);
	atp_cbor_put_null(&w);
	err = atp_record_check(w.buf, w.len, &at);
	ok(err == expected, "B-24: key of %zu bytes: %s", n, atp_err_text(err));
	free(w.buf);
	free(key);
}

int
main(void)
{
	each_line(VECTORS "derived/records.tsv", vector, NULL);
#define ABC	"6524747970656361" "6263"
	check("B-22", "a1" ABC, ATP_OK, 0);
	check("B-22", "a0", ATP_E_RECORD_TYPE, 0);
	check("B-22", "a1616100", ATP_E_RECORD_TYPE, 0);
	check("B-22", "80", ATP_E_RECORD_MAP, 0);
	check("B-22", "81a1" ABC, ATP_E_RECORD_MAP, 0);
	check("B-22", "f6", ATP_E_RECORD_MAP, 0);
	check("B-22", "", ATP_E_CBOR_TRUNCATED, 0);
	check("B-22", "a165247479706560", ATP_E_DATA_TYPE, 7);
	check("B-22", "a1652474797065f6", ATP_E_DATA_TYPE, 7);
	check("B-22", "a1652474797065a0", ATP_E_DATA_TYPE, 7);
	check("B-22", "a26161a165247479706500" ABC, ATP_E_DATA_TYPE, 10);
	check("B-22", "a16161a1" ABC, ATP_E_RECORD_TYPE, 0);
	check("B-09", "a1" ABC "00", ATP_E_CBOR_TRAILING, 11);
	check("B-20", "a261611b7fffffffffffffff" ABC, ATP_OK, 0);
	check("B-20", "a261613b7fffffffffffffff" ABC, ATP_OK, 0);
	check("B-20, D21", "a261611b8000000000000000" ABC, ATP_E_DATA_INTEGER, 3);
	check("B-20", "a261613b8000000000000000" ABC, ATP_E_DATA_INTEGER, 3);
	check("B-21, D21", "a26161fb3ff8000000000000" ABC, ATP_E_DATA_FLOAT, 3);
	check("B-21", "a2616181fb0000000000000000" ABC, ATP_E_DATA_FLOAT, 4);
	check("B-21", "a36161610061" "62fb3ff8000000000000" ABC, ATP_E_DATA_FLOAT, 7);	/* behind U+0000, which jsonb cannot hold */
	check("B-23", "a26161f6" ABC, ATP_OK, 0);
	check("B-24", "a26000" ABC, ATP_OK, 0);
	check("B-24", "a265246c696e6b00" ABC, ATP_OK, 0);
	check("B-26", "a26162a4" REF RAW SIZE "1a000f4240" BLOB MIME "6161" ABC, ATP_OK, 0);
	check("B-26", "a26162a3" REF RAW SIZE "00" BLOB ABC, ATP_E_BLOB_MIME, 3);
	check("B-26", "a26162a4" REF RAW SIZE "00" BLOB MIME "60" ABC, ATP_E_BLOB_MIME, 3);
	check("B-26", "a26162a4" REF RAW SIZE "20" BLOB MIME "6161" ABC, ATP_E_BLOB_SIZE, 3);
	check("B-26", "a26162a3" REF RAW BLOB MIME "6161" ABC, ATP_E_BLOB_SIZE, 3);
	check("B-26, B-43", "a26162a4" REF CBOR SIZE "00" BLOB MIME "6161" ABC, ATP_E_BLOB_REF, 3);
	check("B-26", "a26162a4" REF "6161" SIZE "00" BLOB MIME "6161" ABC, ATP_E_BLOB_REF, 3);
	check("B-26", "a26162a1" BLOB ABC, ATP_E_BLOB_REF, 3);
	check("B-26", "a2616281a1" BLOB ABC, ATP_E_BLOB_REF, 4);
	check("B-26", "a26162a26363696461616" "86d696d65547970656161" ABC, ATP_OK, 0);	/* legacy */
	check("D24", "a26162a4" REF RAW SIZE "00" BLOB MIME "6161" ABC, ATP_OK, 0);
	/* members after a nested container belong to the outer map again */
	check("B-26", "a26162a5616180" REF RAW SIZE "00" BLOB MIME "6161" ABC, ATP_OK, 0);
	check("B-26", "a26162a5" REF RAW SIZE "00" BLOB "66616263646566a0" MIME "6161" ABC, ATP_OK, 0);
	/* B-28, D22: 1,000,000 bytes in all, and as many members */
	sizes(999982, false, ATP_OK);
	sizes(999983, false, ATP_E_RECORD_SIZE);
	sizes(131072, true, ATP_OK);
	sizes(131073, true, ATP_E_DATA_COUNT);
	long_key(8192, ATP_OK);
	long_key(8193, ATP_E_DATA_KEY_LONG);
	return done_testing();
}
