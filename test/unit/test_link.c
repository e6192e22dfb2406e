/*
 * test_link.c
 *		Links between records: paths, which strangers choose the names of, and targets.
 */
#include "core/link.h"
#include "unit.h"

static AtpSpan
span(const char *s)
{
	return (AtpSpan) {s, strlen(s)};
}

static void
check_path(const AtpLinkPath *path, const char *expected)
{
	ok(path->len == strlen(expected) && memcmp(path->text, expected, path->len) == 0, "path %s", expected);
}

static void
paths(void)
{
	AtpLinkPath path = {.len = 0};
	AtpLinkPath other = {.len = 0};
	char		name[ATP_LINK_PATH_MAX + 1];
	size_t		len;

	atp_link_path_name(&path, span("facets"));
	atp_link_path_element(&path, (AtpSpan) {NULL, 0});
	len = path.len;
	atp_link_path_name(&path, span("features"));
	atp_link_path_element(&path, span("app.bsky.richtext.facet#mention"));
	atp_link_path_name(&path, span("did"));
	check_path(&path, "facets[].features[app.bsky.richtext.facet#mention].did");
	path.len = len;
	atp_link_path_name(&path, span("a.[]%"));
	check_path(&path, "facets[].a%2E%5B%5D%25");
	path.len = 0;
	atp_link_path_name(&path, span(""));
	atp_link_path_name(&path, span(""));
	check_path(&path, "%.%");
	path.len = 0;
	atp_link_path_element(&path, span("a]/b"));
	check_path(&path, "[a%5D%2Fb]");

	/* what is too long is counted and not written */
	memset(name, 'x', sizeof(name));
	atp_link_path_name(&other, (AtpSpan) {name, ATP_LINK_PATH_MAX});
	ok(other.len == ATP_LINK_PATH_MAX, "as long as can be");
	atp_link_path_name(&other, (AtpSpan) {name, sizeof(name)});
	atp_link_path_element(&other, (AtpSpan) {name, sizeof(name)});
	ok(other.len > ATP_LINK_PATH_MAX, "longer");
	other.len = ATP_LINK_PATH_MAX;
	ok(memcmp(other.text, name, ATP_LINK_PATH_MAX) == 0, "and back");
}

static void
targets(void)
{
	static const struct
	{
		const char *text;
		const char *target;		/* NULL: none */
	}			table[] = {
		{"at://did:plc:ewvi7nxzyoun6zhxrhs64oiz/a.b.c/d", "at://did:plc:ewvi7nxzyoun6zhxrhs64oiz/a.b.c/d"},
		{"at://alice.example.com", "at://alice.example.com"},
		{"did:plc:ewvi7nxzyoun6zhxrhs64oiz", "at://did:plc:ewvi7nxzyoun6zhxrhs64oiz"},
		{"did:web:example.com", "at://did:web:example.com"},
		{"did:web:example.com:", NULL},
		{"did:web:example.com/a", NULL},
		{"did:", NULL},
		{"did", NULL},
		{"", NULL},
		{"at://", NULL},
		{"at://did:web:example.com ", NULL},
		{"https://example.com", NULL},
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
	{
		char		buf[ATP_URI_MAX];
		AtpSpan		target;
		bool		is_link = atp_link_target(span(table[i].text), buf, &target);

		ok(is_link == (table[i].target != NULL) && (!is_link || atp_span_is(target, table[i].target)), "target of \"%s\"", table[i].text);
	}
}

/* The longest DID is one whose URI is not too long. */
static void
longest(void)
{
	char		did[ATP_URI_MAX + 1];
	char		buf[ATP_URI_MAX];
	AtpSpan		target;

	memset(did, 'a', sizeof(did));
	memcpy(did, "did:web:", 8);
	for (size_t n = sizeof(did); n > 0; n /= 2)
	{
		bool		is_link = atp_link_target((AtpSpan) {did, n}, buf, &target);

		ok(!is_link || target.len == n + 5, "a DID of %zu bytes", n);
	}
}

int
main(void)
{
	paths();
	targets();
	longest();
	return done_testing();
}
