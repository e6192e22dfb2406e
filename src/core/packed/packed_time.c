/*
 * packed_time.c
 *		Times in the packed form: times since 1970, in the spellings of most programs of the network.
 *
 * A time is stored only if putting the time as text gives back exactly the text: every text of another spelling stays a text.
 */
#include "core/lexicon/datetime.h"
#include "core/packed/packed_form.h"

#define SECOND_CHARS	19		/* 2026-01-31T12:00:00 */
#define DAY				86400

typedef struct TimeForm
{
	uint8_t		code;
	uint8_t		digits;			/* of the fraction */
	uint8_t		chars;
	const char *zone;
} TimeForm;

static const TimeForm forms[] = {
	{ATP_CODE_MILLIS, 3, 24, "Z"},
	{ATP_CODE_SECONDS, 0, 20, "Z"},
	{ATP_CODE_MICROS, 6, 27, "Z"},
	{ATP_CODE_MICROS_ZERO, 6, 32, "+00:00"},
	{ATP_CODE_MILLIS_ZERO, 3, 29, "+00:00"},
};

#define NFORMS	(sizeof(forms) / sizeof(forms[0]))

static void
put_two(char *out, unsigned n)
{
	out[0] = (char) ('0' + n / 10);
	out[1] = (char) ('0' + n % 10);
}

/* The date of a day since 1970, in the proleptic Gregorian calendar: years of 365.2425 days that begin in March. */
static void
put_date(char *out, unsigned days)
{
	unsigned	since_0 = days + 719468;	/* since March 1 of the year 0 */
	unsigned	era = since_0 / 146097;
	unsigned	of_era = since_0 % 146097;
	unsigned	year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
	unsigned	of_year = of_era - (365 * year + year / 4 - year / 100);
	unsigned	month = (5 * of_year + 2) / 153;
	unsigned	day = of_year - (153 * month + 2) / 5 + 1;

	month = month < 10 ? month + 3 : month - 9;
	year += 400 * era + (month <= 2);
	put_two(out, year / 100 % 100);
	put_two(out + 2, year % 100);
	out[4] = '-';
	put_two(out + 5, month);
	out[7] = '-';
	put_two(out + 8, day);
}

static void
put_second(char *out, uint64_t seconds)
{
	unsigned	of_day = (unsigned) (seconds % DAY);

	put_date(out, (unsigned) (seconds / DAY));
	out[10] = 'T';
	put_two(out + 11, of_day / 3600);
	out[13] = ':';
	put_two(out + 14, of_day / 60 % 60);
	out[16] = ':';
	put_two(out + 17, of_day % 60);
}

/* The divisors are constants, so that the compiler multiplies instead: dividing took most of the time of reading a field. */
static size_t
put_time(const TimeForm *form, uint64_t time, char *out)
{
	size_t		n = SECOND_CHARS;
	size_t		zone = strlen(form->zone);

	if (form->digits == 0)
		put_second(out, time);
	else if (form->digits == 3)
	{
		unsigned	millis = (unsigned) (time % 1000);

		put_second(out, time / 1000);
		out[n++] = '.';
		out[n++] = (char) ('0' + millis / 100);
		put_two(out + n, millis % 100);
		n += 2;
	}
	else
	{
		unsigned	micros = (unsigned) (time % 1000000);

		put_second(out, time / 1000000);
		out[n++] = '.';
		put_two(out + n, micros / 10000);
		put_two(out + n + 2, micros / 100 % 100);
		put_two(out + n + 4, micros % 100);
		n += 6;
	}
	memcpy(out + n, form->zone, zone);
	return n + zone;
}

/* The number of the form of texts of this length; or the number of all forms. */
static size_t
form_of_length(size_t n)
{
	size_t		i = 0;

	while (i < NFORMS && forms[i].chars != n)
		i++;
	return i;
}

/*
 * Does putting the time give back this valid datetime?  The datetime has the length of the form, so that the zone of the form at the end
 * leaves exactly the digits of the form.  A leap second is the second after it.
 */
static bool
is_spelled_so(AtpSpan text, const TimeForm *form)
{
	size_t		zone = strlen(form->zone);

	return text.ptr[SECOND_CHARS - 2] < '6' && memcmp(text.ptr + text.len - zone, form->zone, zone) == 0;
}

size_t
atp_form_put_time(AtpSpan text, uint8_t out[ATP_FORM_MAX])
{
	size_t		number = form_of_length(text.len);
	const TimeForm *form = &forms[number];
	uint64_t	time;
	int64_t		micros;
	size_t		size;
	size_t		at;

	if (number == NFORMS || text.ptr[4] != '-' || !is_spelled_so(text, form) ||
		atp_datetime_parse(text.ptr, text.len, &micros, &at) != ATP_OK || micros < 0)
		return 0;
	size = atp_packed_fixed_size(form->code);
	time = (uint64_t) micros / (form->digits == 0 ? 1000000 : form->digits == 3 ? 1000 : 1);
	if (time >> (8 * size) != 0)
		return 0;
	out[0] = form->code;
	for (size_t k = 0; k < size; k++)
		out[1 + k] = (uint8_t) (time >> (8 * (size - 1 - k)));
	return 1 + size;
}

size_t
atp_form_time_text(const AtpPackedValue *value, char *out)
{
	uint64_t	time = 0;

	for (size_t i = 0; i < value->content.len; i++)
		time = time << 8 | value->content.ptr[i];
	return put_time(&forms[value->code - ATP_CODE_MILLIS], time, out);
}
