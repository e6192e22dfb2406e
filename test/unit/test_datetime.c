/*
 * test_datetime.c
 *		Lexicon datetimes: the published vectors, and values.
 */
#include "core/lexicon/datetime.h"
#include "syntax.h"

static AtpErr
check(const char *s, size_t n, size_t *at)
{
	int64_t		micros;

	return atp_datetime_parse(s, n, &micros, at);
}

static void
gives(const char *text, int64_t expected)
{
	int64_t		micros = -1;
	size_t		at;
	AtpErr		err = atp_datetime_parse(text, strlen(text), &micros, &at);

	ok(err == ATP_OK && micros == expected, "%s is %lld", text, (long long) micros);
}

/* The first and the last day of each month, and no day after it: the proof of datetime.c leaves days to this test. */
static void
each_month(void)
{
	static const int lengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
	int64_t		days = -719528;
	unsigned	wrong = 0;

	for (int year = 0; year <= 9999; year++)
	{
		bool		leaps = year % 400 == 0 || (year % 4 == 0 && year % 100 != 0);

		for (int month = 1; month <= 12; month++)
		{
			int			length = lengths[month - 1] + (month == 2 && leaps);

			for (int day = 1; day <= length + 1; day += day == 1 ? length - 1 : 1)
			{
				char		text[64];
				int64_t		micros = 0;
				size_t		at;
				size_t		n = (size_t) snprintf(text, sizeof(text), "%04d-%02d-%02dT00:00:00Z", year, month, day);
				AtpErr		err = atp_datetime_parse(text, n, &micros, &at);

				if (day > length ? err != ATP_E_DATETIME : err != ATP_OK || micros != (days + day - 1) * INT64_C(86400000000))
					wrong++;
			}
			days += length;
		}
	}
	ok(wrong == 0, "the days of 10000 years are numbered");
}

int
main(void)
{
	AtpErr		(*checker) (const char *, size_t, size_t *) = check;
	int			lines;

	check_interop("datetime", check, 35, 45);
	/* right in form, wrong as a date or time */
	lines = each_line(VECTORS "interop/datetime_parse_invalid.txt", expect_invalid, &checker);
	ok(lines > 0, "datetime_parse_invalid.txt has %d lines", lines);

	/* computed with GNU date -u -d TEXT +%s */
	gives("1970-01-01T00:00:00Z", 0);
	gives("2026-11-20T10:36:54.627Z", INT64_C(1795171014627000));
	gives("2000-02-29T23:59:59.999999Z", INT64_C(951868799999999));
	gives("2023-05-22T21:40:19.774+02:30", INT64_C(1684782619774000));
	gives("1970-01-01T00:00:00-01:30", INT64_C(5400000000));
	/* a leap second is the first second of the next day */
	gives("2016-12-31T23:59:60Z", INT64_C(1483228800000000));
	gives("1969-12-31T23:59:59.5Z", -500000);
	gives("0000-01-01T00:00:00Z", INT64_C(-62167219200000000));
	gives("9999-12-31T23:59:59.999999Z", INT64_C(253402300799999999));
	/* digits beyond the sixth are dropped */
	gives("1970-01-01T00:00:00.0000019Z", 1);
	REFUSED("no such day", check, {"2023-02-29T00:00:00Z", ATP_E_DATETIME, 0});
	each_month();
	return done_testing();
}
