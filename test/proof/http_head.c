/*
 * http_head.c
 *		The parts of a head of an HTTP response: a line, a word of a header, the status line, and the seconds to wait.
 *
 * proves: next_line trim_span equals_nocase has_token parse_status_line atp_retry_after_seconds
 * sources: core/syntax/chars.c
 * short: -DN=6 --unwind 7 --unwindset status_line.0:15,memcpy.0:13,memcmp.0:8,atp_retry_after_seconds.0:10,strlen.0:4
 * long: -DN=10 --unwind 11 --unwindset status_line.0:15,memcpy.0:13,memcmp.0:8
 */
#include "core/wire/http_head.c"
#include "lib/grammar.h"

static void
line(void)
{
	const char *next = NULL;
	AtpSpan		line;
	AtpSpan		inner;

	ANY_TEXT(s, n, N);
	line = next_line(s, s + n, &next);
	if (line.ptr == NULL)
	{
		for (size_t i = 0; i < n; i++)
			LAW(s[i] != '\n');
		return;
	}
	LAW(line.ptr == s && next > s && next <= s + n && next[-1] == '\n');
	LAW(line.len == (size_t) (next - s) - 1 || (line.len + 2 == (size_t) (next - s) && next[-2] == '\r'));
	for (size_t i = 0; i < line.len; i++)
		LAW(s[i] != '\n');
	inner = trim_span(line.ptr, line.ptr + line.len);
	LAW(inner.ptr >= line.ptr && inner.ptr + inner.len <= line.ptr + line.len);
	LAW(inner.len == 0 || (inner.ptr[0] != ' ' && inner.ptr[0] != '\t' && inner.ptr[inner.len - 1] != ' '));
	if (line.len == N - 2 && inner.len == 1)
		REACHED("a line with blanks");
}

/* A word is found where it stands between commas and blanks, and nowhere else. */
static void
token(void)
{
	bool		found = false;

	ANY_TEXT(s, n, N - 2);
	for (size_t i = 0; i + 2 <= n; i++)
	{
		size_t		before = i;
		size_t		after = i + 2;

		if ((s[i] | 0x20) != 'u' || (s[i + 1] | 0x20) != 'p')
			continue;
		while (before > 0 && (s[before - 1] == ' ' || s[before - 1] == '\t'))
			before--;
		while (after < n && (s[after] == ' ' || s[after] == '\t' || s[after] == '\r'))
			after++;
		found |= (before == 0 || s[before - 1] == ',') && (after == n || s[after] == ',');
	}
	LAW(has_token((AtpSpan) {s, n}, "up") == found);
	if (found && n == N - 2 && s[0] == ',')
		REACHED("a token after a comma");
}

static void
status_line(void)
{
	AtpHttpHead head;
	char		s[14] = "HTTP/1.";
	size_t		n = any_size(sizeof(s));
	size_t		at;
	AtpErr		err;

	for (size_t i = any_size(7); i < sizeof(s); i++)
		s[i] = (char) any_byte();
	err = parse_status_line((AtpSpan) {s, n}, &head, &at);
	LAW(err == ATP_OK || err == ATP_E_HTTP_STATUS);
	LAW(at <= n);
	if (err != ATP_OK)
		return;
	LAW(n >= 12 && s[8] == ' ' && head.status >= 100 && head.status <= 999);
	LAW(head.status == (s[9] - '0') * 100 + (s[10] - '0') * 10 + (s[11] - '0') && s[10] >= '0' && s[11] <= '9');
	LAW(head.reason.ptr >= s + 12 && head.reason.ptr + head.reason.len <= s + n);
	REACHED("a status line");
}

/* Six digits, and any text behind them: nine digits fit, ten do not. */
static void
retry_after(void)
{
	char		s[10] = "999999";
	size_t		n = 6 + any_size(4);
	uint32_t	seconds = 0;
	uint32_t	number = 999999;
	bool		digits = n < 10;

	for (size_t i = 6; i < 10; i++)
	{
		s[i] = (char) any_byte();
		digits = digits && (i >= n || grammar_digit(s[i]));
		if (i < n && i < 9 && digits)
			number = 10 * number + (uint32_t) (s[i] - '0');
	}
	LAW(atp_retry_after_seconds((AtpSpan) {s, n}, &seconds) == digits);
	LAW(!digits || seconds == number);
	if (seconds == 999999999)
		REACHED("the longest wait");
}

int
main(void)
{
	line();
	token();
	status_line();
	retry_after();
	return 0;
}
