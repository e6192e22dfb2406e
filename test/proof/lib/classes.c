/*
 * classes.c
 *		The classes of characters as a formula.  `run` replaces the calls of atp_char_is() by it, since each look into
 *		the table of 256 entries costs the solver thousands of clauses; chars_table.c proves that both say the same.
 */
#include "core/syntax/chars.h"

bool
proof_char_is(char c, unsigned classes)
{
	bool		lower = c >= 'a' && c <= 'z';
	bool		upper = c >= 'A' && c <= 'Z';
	bool		digit = c >= '0' && c <= '9';
	bool		hex = digit || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
	bool		label = lower || upper || digit || c == '-';
	bool		unreserved = label || c == '.' || c == '_' || c == '~';
	bool		authority = unreserved || c == ':';
	bool		pchar = authority || c == '!' || c == '$' || (c >= '&' && c <= ',') || c == ';' || c == '=' || c == '@';
	bool		query = pchar || c == '/' || c == '?';

	return ((classes & ATP_C_LOWER) != 0 && lower) || ((classes & ATP_C_UPPER) != 0 && upper) ||
		((classes & ATP_C_DIGIT) != 0 && digit) || ((classes & ATP_C_HEX) != 0 && hex) ||
		((classes & ATP_C_LABEL) != 0 && label) || ((classes & ATP_C_UNRESERVED) != 0 && unreserved) ||
		((classes & (ATP_C_AUTHORITY | ATP_C_RKEY)) != 0 && authority) || ((classes & ATP_C_PCHAR) != 0 && pchar) ||
		((classes & ATP_C_QUERY) != 0 && query) || ((classes & ATP_C_DID) != 0 && authority && c != '~') ||
		((classes & ATP_C_DELIMITER) != 0 && (c == '/' || c == '?' || c == '#'));
}
