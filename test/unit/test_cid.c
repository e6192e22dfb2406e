/*
 * test_cid.c
 *		Content identifiers: rules B-40 to B-44, D11.
 */
#include "core/codec/cid.h"
#include "core/codec/varint.h"
#include "hex.h"
#include "sha.h"

#define BLESSED	"bafyreidfayvfuwqa7qlnopdjiqrxzs6blmoeu4rujcjtnci5beludirz2a"

static AtpErr
check_text(const char *s, size_t n, size_t *at)
{
	uint8_t		out[ATP_CID_MAX];
	size_t		on;

	return atp_cid_parse(s, n, out, &on, at);
}

static void
vector_valid(char *line, size_t n, void *arg)
{
	ok(atp_cid_is_syntax(line, n), "D11: %s", show(line, n));
}

static void
vector_invalid(char *line, size_t n, void *arg)
{
	ok(!atp_cid_is_syntax(line, n), "D11: not %s", show(line, n));
}

static void
text(const char *s, AtpErr expected, size_t expected_at)
{
	size_t		n = strlen(s);
	char	   *exact = (char *) copy_of(s, n);
	size_t		at = 0;
	AtpErr		err = check_text(exact, n, &at);

	ok(err == expected && (err == ATP_OK || at == expected_at),
	   "B-40, B-41: %s: %s at %zu", show(s, n), atp_err_text(err), at);
	free(exact);
}

static void
binary(const char *hex, AtpErr expected, size_t expected_at, bool blessed)
{
	AtpBytes	b = unhex(hex);
	AtpCid		cid;
	size_t		at = 0;
	AtpErr		err = atp_cid_check(b.ptr, b.len, &cid, &at);

	ok(err == expected && (err == ATP_OK || at == expected_at),
	   "B-40, B-41: %s: %s at %zu", show(hex, strlen(hex)), atp_err_text(err), at);
	ok(atp_cid_is_blessed(b.ptr, b.len) == blessed, "blessed or not");
	if (err == ATP_OK)
	{
		char		s[ATP_CID_TEXT_MAX];
		uint8_t		out[ATP_CID_MAX];
		size_t		n = atp_cid_format(b.ptr, b.len, s);
		size_t		on;

		ok(atp_cid_parse(s, n, out, &on, &at) == ATP_OK && on == b.len &&
		   memcmp(out, b.ptr, on) == 0, "its text %.*s gives it back", (int) n, s);
	}
	free((void *) b.ptr);
}

/* B-44: the fixture's CID is the CID of the record's bytes; three lines. */
static void
fixture(char *line, size_t n, void *arg)
{
	char	   *cid = field(&line);
	AtpBytes	block;
	uint8_t		out[ATP_CID_BLESSED_LEN];
	char		s[ATP_CID_TEXT_MAX];

	if (strcmp(cid, "cid") == 0)
		return;
	block = unhex(field(&line));
	atp_cid_of(ATP_CID_CODEC_DAG_CBOR, block.ptr, block.len, sha256, NULL, out);
	ok(atp_cid_format(out, sizeof(out), s) == strlen(cid) && memcmp(s, cid, strlen(cid)) == 0,
	   "B-44: CID of a block is %s", cid);
	free((void *) block.ptr);
}

static void
varint(const char *hex, AtpErr expected, uint64_t value)
{
	AtpBytes	b = unhex(hex);
	size_t		pos = 0;
	uint64_t	v = 0;
	AtpErr		err = atp_varint_read(b.ptr, b.len, &pos, &v);

	ok(err == expected && (err != ATP_OK || (v == value && pos == b.len)), "varint %s", hex);
	if (err == ATP_OK)
	{
		uint8_t		out[ATP_VARINT_MAX];

		ok(atp_varint_write(v, out) == b.len && memcmp(out, b.ptr, b.len) == 0,
		   "varint %s is written so", hex);
	}
	free((void *) b.ptr);
}

int
main(void)
{
	static const char digest[] =
		"0000000000000000000000000000000000000000000000000000000000000000";
	char		hex[256];
	char		long_text[ATP_CID_TEXT_MAX + 2];

	each_line(VECTORS "interop/cid_syntax_valid.txt", vector_valid, NULL);
	each_line(VECTORS "interop/cid_syntax_invalid.txt", vector_invalid, NULL);
	each_line(VECTORS "derived/data_model.tsv", fixture, NULL);

	text(BLESSED, ATP_OK, 0);
	text("", ATP_E_EMPTY, 0);
	text("b", ATP_E_VARINT_TRUNCATED, 1);
	text("QmdfTbBqBPQ7VNxZEYEj14VmRuZBkqFbiwReogJgS1zR1n", ATP_E_CID_V0, 0);
	text("zdj7WhuEjrB52m1BisYCtmjH1hSKa7yZ3jEZ9JcXaFRD51wVz", ATP_E_CID_BASE, 0);
	text("BAFYREIDFAYVFUWQA7QLNOPDJIQRXZS6BLMOEU4RUJCJTNCI5BELUDIRZ2A", ATP_E_CID_BASE, 0);
	text("bafyreidfayvfuwqa7qlnopdjiqrxzs6blmoeu4rujcjtnci5beludirz2A", ATP_E_CHAR, 58);
	text("bafyreidfayvfuwqa7qlnopdjiqrxzs6blmoeu4rujcjtnci5beludirz2b", ATP_E_CID_BITS, 58);
	text("bafyreidfayvfuwqa7qlnopdjiqrxzs6blmoeu4rujcjtnci5beludirz2", ATP_E_CID_BITS, 57);
	text("bafyreidfayvfuwqa7qlnopdjiqrxzs6blmoeu4rujcjtnci5beludirz2aa", ATP_E_CID_BITS, 59);
	text("bafyreidfayvfuwqa7qlnopdjiqrxzs6blmoeu4rujcjtnci5beludirz2a=", ATP_E_CHAR, 59);
	text("b" "1", ATP_E_CHAR, 1);
	/* five bytes are eight digits, and nothing is left over */
	text("bafkqaaia", ATP_OK, 0);
	text("bafkqaaiaa", ATP_E_CID_BITS, 9);
	memset(long_text, 'a', sizeof(long_text));
	long_text[0] = 'b';
	long_text[sizeof(long_text) - 1] = '\0';
	text(long_text, ATP_E_TOO_LONG, ATP_CID_TEXT_MAX);

	sprintf(hex, "01711220%s", digest);
	binary(hex, ATP_OK, 0, true);
	sprintf(hex, "01551220%s", digest);
	binary(hex, ATP_OK, 0, true);
	sprintf(hex, "01701220%s", digest);
	binary(hex, ATP_OK, 0, false);
	sprintf(hex, "1220%s", digest);
	binary(hex, ATP_E_CID_V0, 0, false);
	sprintf(hex, "02711220%s", digest);
	binary(hex, ATP_E_CID_VERSION, 0, false);
	sprintf(hex, "01711220%s00", digest);
	binary(hex, ATP_E_CID_TRAILING, 36, false);
	sprintf(hex, "01711220%.62s", digest);
	binary(hex, ATP_E_CID_TRUNCATED, 3, false);
	sprintf(hex, "0171121f%.62s", digest);
	binary(hex, ATP_E_CID_DIGEST, 3, false);
	sprintf(hex, "01711320%s", digest); /* another hash function */
	binary(hex, ATP_OK, 0, false);
	binary("01550000", ATP_OK, 0, false);	/* identity of nothing */
	binary("0155000401020304", ATP_OK, 0, false);
	binary("01f18080800112020102", ATP_E_CID_DIGEST, 7, false);
	binary("0171f112020102", ATP_OK, 0, false);	/* codec and function of two bytes */
	binary("0171008001", ATP_E_TOO_LONG, 3, false);
	binary("0171808000", ATP_E_VARINT_LONG, 2, false);
	binary("01", ATP_E_VARINT_TRUNCATED, 1, false);
	binary("", ATP_E_VARINT_TRUNCATED, 0, false);

	varint("00", ATP_OK, 0);
	varint("7f", ATP_OK, 127);
	varint("8001", ATP_OK, 128);
	varint("ffffffffffffffff7f", ATP_OK, INT64_MAX);
	varint("ffffffffffffffffff01", ATP_E_VARINT_LONG, 0);
	varint("8000", ATP_E_VARINT_LONG, 0);
	varint("80", ATP_E_VARINT_TRUNCATED, 0);
	return done_testing();
}
