/*
 * test_base32.c
 *		Eight characters of base32 at once: each byte at each place, in both alphabets.
 */
#include "core/syntax/base32.h"
#include "unit.h"

static const char sortable[] = "234567abcdefghijklmnopqrstuvwxyz";
static const char rfc4648[] = "abcdefghijklmnopqrstuvwxyz234567";

/* The value of a byte in the alphabet; 32 if the alphabet does not have the byte. */
static unsigned
value_of(const char *digits, int byte)
{
	const char *place = byte != '\0' ? strchr(digits, byte) : NULL;

	return place != NULL ? (unsigned) (place - digits) : 32;
}

/* The seven places beside the altered one have the ends or the middle of the letters, or the ends of the digits. */
static void
test_alphabet(const char *digits, AtpBase32 alphabet)
{
	static const char beside[] = "azm27";
	unsigned	wrong = 0;

	for (int place = 0; place < 8; place++)
		for (int byte = 0; byte < 256; byte++)
			for (size_t other = 0; other < sizeof(beside) - 1; other++)
			{
				char		text[8];
				uint64_t	expected = 0;
				uint64_t	bits;
				bool		valid;

				memset(text, beside[other], sizeof(text));
				text[place] = (char) byte;
				for (int i = 0; i < 8; i++)
					expected = expected << 5 | (value_of(digits, (uint8_t) text[i]) & 31);
				valid = atp_base32_eight(text, alphabet, &bits);
				if (valid != (value_of(digits, byte) < 32) || (valid && bits != expected))
					wrong++;
			}
	ok(wrong == 0, "%u of 10240 texts are read otherwise with the alphabet %s", wrong, digits);
}

int
main(void)
{
	uint8_t		bytes[8];
	uint64_t	bits;

	test_alphabet(sortable, ATP_BASE32_SORTABLE);
	test_alphabet(rfc4648, ATP_BASE32_RFC4648);
	ok(!atp_base32_eight("\xe1\xe1\xe1\xe1\xe1\xe1\xe1\xe1", ATP_BASE32_SORTABLE, &bits), "letters with the top bit are no letters");
	atp_put_be64(bytes, UINT64_C(0x0123456789abcdef));
	ok(memcmp(bytes, "\x01\x23\x45\x67\x89\xab\xcd\xef", 8) == 0 && atp_get_be64(bytes) == UINT64_C(0x0123456789abcdef), "eight bytes");
	atp_put_be40(bytes, UINT64_C(0xfedcba9876));
	ok(memcmp(bytes, "\xfe\xdc\xba\x98\x76\xab\xcd\xef", 8) == 0, "five bytes, and no byte behind");
	return done_testing();
}
