/*
 * chars_table.c
 *		The table of classes of characters says what lib/classes.c says, which all other harnesses use.
 *
 * proves: atp_char_is
 * sources: core/syntax/chars.c
 * short: --unwind 2
 * long: --unwind 2
 */
#include "core/syntax/chars.h"
#include "lib/proof.h"

extern bool proof_char_is(char c, unsigned classes);

int
main(void)
{
	char		c = (char) any_byte();
	unsigned	classes = any_byte() << 8 | any_byte();

	ASSUME(classes < ATP_C_DELIMITER << 1);
	LAW(atp_char_is(c, classes) == proof_char_is(c, classes));
	if (c == '~')
		REACHED("a character");
	return 0;
}
