/*
 * datetime.c
 *		Lexicon datetimes to microseconds since the Unix epoch: see datetime.h.
 */
#include "core/lexicon/datetime.h"

#define FIRST_MICROS	INT64_C(-62167219200000000) /* 0000-01-01T00:00:00Z */

/* Reads exactly two digits at s. */
static bool
two_digits(const char *s, int *value)
{
	if (s[0] < '0' || s[0] > '9' || s[1] < '0' || s[1] > '9')
		return false;
	*value = (s[0] - '0') * 10 + (s[1] - '0');
	return true;
}

/* Days from 1970-01-01 in the proleptic Gregorian calendar. */
static int64_t
days_from_civil(int64_t year, int month, int day)
{
	int64_t		era;
	int64_t		year_of_era;
	int64_t		day_of_year;

	year -= month <= 2;
	era = (year >= 0 ? year : year - 399) / 400;
	year_of_era = year - era * 400;
	day_of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
	return era * 146097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719468;
}

static int
days_in_month(int year, int month)
{
	static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};

	if (month == 2 && year % 4 == 0 && (year % 100 != 0 || year % 400 == 0))
		return 29;
	return days[month - 1];
}

AtpErr
atp_datetime_parse(const char *s, size_t n, int64_t *micros, size_t *at)
{
	int			century,
				yy,
				month,
				day,
				hour,
				minute,
				second,
				zone_hour = 0,
				zone_minute = 0;
	int			year;
	int64_t		fraction = 0;
	int64_t		offset = 0;
	size_t		i;

	*at = 0;
	if (n < 20 || n > ATP_DATETIME_MAX)
		return ATP_E_DATETIME;
	if (!two_digits(s, &century) || !two_digits(s + 2, &yy) || s[4] != '-' ||
		!two_digits(s + 5, &month) || s[7] != '-' || !two_digits(s + 8, &day) ||
		s[10] != 'T' || !two_digits(s + 11, &hour) || s[13] != ':' ||
		!two_digits(s + 14, &minute) || s[16] != ':' || !two_digits(s + 17, &second))
		return ATP_E_DATETIME;
	year = century * 100 + yy;
	if (month < 1 || month > 12 || day < 1 || day > days_in_month(year, month) ||
		hour > 23 || minute > 59 || second > 60)
		return ATP_E_DATETIME;
	i = 19;
	if (s[i] == '.')
	{
		int64_t		unit = 100000;
		size_t		first = ++i;

		for (; i < n && s[i] >= '0' && s[i] <= '9'; i++)
		{
			fraction += (s[i] - '0') * unit;
			unit /= 10;
		}
		*at = i;
		if (i == first)
			return ATP_E_DATETIME;
	}
	*at = i;
	if (i < n && s[i] == 'Z')
		i++;
	else if (i + 6 <= n && (s[i] == '+' || s[i] == '-') && s[i + 3] == ':' &&
			 two_digits(s + i + 1, &zone_hour) && two_digits(s + i + 4, &zone_minute) &&
			 zone_hour <= 23 && zone_minute <= 59)
	{
		offset = zone_hour * 3600 + zone_minute * 60;
		if (s[i] == '-')
		{
			if (offset == 0)
				return ATP_E_DATETIME;
			offset = -offset;
		}
		i += 6;
	}
	else
		return ATP_E_DATETIME;
	*at = i;
	if (i != n)
		return ATP_E_DATETIME;
	*micros = ((days_from_civil(year, month, day) * 24 + hour) * 3600 + minute * 60 + second - offset)
		* 1000000 + fraction;
	/* A zone can move the first day of year 0000 back before it. */
	if (*micros < FIRST_MICROS)
		return ATP_E_DATETIME;
	return ATP_OK;
}
