/*
 * test_markup.c
 *		The text of pages of HTML, cut anywhere.
 */
#include "core/syntax/markup.h"
#include "unit.h"

static void
gives(const char *page, const char *text)
{
	size_t		n = strlen(page);
	char	   *copy = malloc(n + 1);
	size_t		len;

	memcpy(copy, page, n + 1);
	len = atp_strip_markup(copy, n);
	ok(len == strlen(text) && memcmp(copy, text, len) == 0, "%s gives %s", page, text);
	free(copy);
}

int
main(void)
{
	static const char page[] = "\r\n<!DOCTYPE html>\n<html><head><title>502 Bad Gateway</title>\n<STYLE type=x>b > a { }</STYLE><script>if (a < b) \"</scrip\"</script></head>"
		"<body>\n<center><h1>502  Bad\tGateway</h1></center><!-- a > b --><hr>nginx/1.2</body></html>";

	gives(page, "502 Bad Gateway 502 Bad Gateway nginx/1.2");
	gives("<p>a<b>b</b>", "a b");
	gives("<html></html>", "");
	gives("<", "");
	gives("<p", "");
	gives("<script>x", "");
	gives("<style>x</style", "");
	gives("<!-- x", "");
	gives("<p>a < b", "a");
	/* a body that does not begin with "<" keeps its markup */
	gives("", "");
	gives(" \n ", " \n ");
	gives("{\"error\": \"<b>\"}", "{\"error\": \"<b>\"}");
	gives("no  page <p>", "no  page <p>");
	for (size_t n = 0; n < sizeof(page); n++)
	{
		char	   *copy = malloc(n + 1);

		memcpy(copy, page, n);
		if (atp_strip_markup(copy, n) > n)
			ok(false, "%zu bytes", n);
		free(copy);
	}
	ok(true, "cut anywhere");
	return done_testing();
}
