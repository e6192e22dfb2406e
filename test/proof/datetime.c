/*
 * datetime.c
 *		Datetimes of Lexicons: the form of what is accepted, and its value on one day.  unit/test_datetime tries all days.
 *
 * proves: atp_datetime_parse
 * replaces: days_from_civil:any_day
 * short: -DN=25 --unwind 26
 * long: -DN=30 --unwind 31
 * assumes: days_from_civil() gives a number between the first and the last day of the years 0 to 9999
 */
#include "core/lexicon/datetime.c"
#include "lib/proof.h"

static int64_t day_number;		/* what any_day() gives */

int64_t
any_day(int64_t year, int month, int day)
{
	return day_number;
}

/* The number that digits spell. */
static int
number_of(const char *s, int digits)
{
	int			v = 0;

	for (int i = 0; i < digits; i++)
	{
		LAW(s[i] >= '0' && s[i] <= '9');
		v = v * 10 + (s[i] - '0');
	}
	return v;
}

static int
month_length(int year, int month)
{
	if (month == 2)
		return (year % 4 != 0 || (year % 100 == 0 && year % 400 != 0)) ? 28 : 29;
	return month == 4 || month == 6 || month == 9 || month == 11 ? 30 : 31;
}

/* By RFC 3339 and the specification of Lexicons. */
static void
form(void)
{
	int64_t		micros;
	size_t		at;
	size_t		i = 19;
	AtpErr		err;

	ANY_TEXT(s, n, N);
	day_number = (int64_t) any_u64();
	ASSUME(day_number >= -719528 && day_number <= 2932896);
	err = atp_datetime_parse(s, n, &micros, &at);
	LAW_OF_ERRORS(err, at, n);
	if (err != ATP_OK)
		return;
	LAW(n >= 20 && s[4] == '-' && s[7] == '-' && s[10] == 'T' && s[13] == ':' && s[16] == ':');
	LAW(number_of(s + 5, 2) >= 1 && number_of(s + 5, 2) <= 12);
	LAW(number_of(s + 8, 2) >= 1 && number_of(s + 8, 2) <= month_length(number_of(s, 4), number_of(s + 5, 2)));
	LAW(number_of(s + 11, 2) < 24 && number_of(s + 14, 2) < 60 && number_of(s + 17, 2) <= 60);
	if (s[i] == '.')
		for (i++; s[i] >= '0' && s[i] <= '9'; i++)
			;
	LAW(i != 20);
	if (s[i] == 'Z')
		LAW(i + 1 == n);
	else
	{
		LAW((s[i] == '+' || s[i] == '-') && s[i + 3] == ':' && i + 6 == n);
		LAW(number_of(s + i + 1, 2) < 24 && number_of(s + i + 4, 2) < 60);
	}
	if (n == N && s[N - 1] != 'Z')
		REACHED("a datetime with a zone");
}

/* The same text with Z, and with zones: east of Greenwich the same reading of a clock is earlier. */
static void
zone(void)
{
	char		s[25] = "1970-01-01T00:00:00+00:00";
	int64_t		micros;
	size_t		at;

	for (int i = 19; i < 25; i++)
		s[i] = (char) any_byte();
	day_number = 0;
	if (atp_datetime_parse(s, sizeof(s), &micros, &at) != ATP_OK || s[19] == '.')
		return;
	LAW(micros == (number_of(s + 20, 2) * 60 + number_of(s + 23, 2)) * (s[19] == '-' ? INT64_C(60000000) : INT64_C(-60000000)));
	REACHED("the value of a zone");
}

int
main(void)
{
	form();
	zone();
	return 0;
}
