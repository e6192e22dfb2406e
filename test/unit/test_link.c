/*
 * test_link.c
 *		Links between records: paths, which strangers choose the names of, and targets.
 */
#include "core/repo/link.h"
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

	/* a path that is too long is counted and not written */
	memset(name, 'x', sizeof(name));
	atp_link_path_name(&other, (AtpSpan) {name, ATP_LINK_PATH_MAX});
	ok(other.len == ATP_LINK_PATH_MAX, "as long as can be");
	atp_link_path_name(&other, (AtpSpan) {name, sizeof(name)});
	atp_link_path_element(&other, (AtpSpan) {name, sizeof(name)});
	ok(other.len > ATP_LINK_PATH_MAX, "longer");
	other.len = ATP_LINK_PATH_MAX;
	ok(memcmp(other.text, name, ATP_LINK_PATH_MAX) == 0, "and back");
}

/* Checks the names of a path, each in <>, up to the first invalid name. */
static void
check_names(const char *text, const char *expected)
{
	AtpSpan		path = span(text);
	AtpSpan		name;
	char		buf[64];
	char		names[64];
	size_t		n = 0;

	while (path.ptr != NULL)
	{
		if (!atp_link_path_take(&path, buf, &name))
		{
			names[n++] = '!';
			break;
		}
		names[n++] = '<';
		memcpy(names + n, name.ptr, name.len);
		n += name.len;
		names[n++] = '>';
	}
	ok(n == strlen(expected) && memcmp(names, expected, n) == 0, "names of %s", text);
}

static void
names(void)
{
	check_names("a", "<a>");
	check_names("reply.root.uri", "<reply><root><uri>");
	check_names("$type.a-b_c", "<$type><a-b_c>");
	check_names("a%2Eb.%5b%5D", "<a.b><[]>");
	check_names("%", "<>");
	check_names("%.%.a", "<><><a>");
	check_names("a b.\xc3\xa9", "<a b><\xc3\xa9>");
	check_names("", "!");
	check_names(".", "!");
	check_names("a.", "<a>!");
	check_names("a..b", "<a>!");
	check_names("facets[].features", "!");
	check_names("a.b[x]", "<a>!");
	check_names("a]", "!");
	check_names("%%", "!");
	check_names("%2", "!");
	check_names("%2.a", "!");
	check_names("%2G", "!");
	check_names("a%", "!");
	check_names("%a", "!");
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
		AtpUri		uri;
		bool		is_link = atp_link_target(span(table[i].text), buf, &target, &uri);

		ok(is_link == (table[i].target != NULL) && (!is_link || atp_span_is(target, table[i].target)), "target of \"%s\"", table[i].text);
	}
}

/* The longest DID whose URI is still within the limit. */
static void
longest(void)
{
	char		did[ATP_URI_MAX + 1];
	char		buf[ATP_URI_MAX];
	AtpSpan		target;
	AtpUri		uri;

	memset(did, 'a', sizeof(did));
	memcpy(did, "did:web:", 8);
	for (size_t n = sizeof(did); n > 0; n /= 2)
	{
		bool		is_link = atp_link_target((AtpSpan) {did, n}, buf, &target, &uri);

		ok(!is_link || target.len == n + 5, "a DID of %zu bytes", n);
	}
}

/* Notes each link that the walk finds as "path target\n". */
static void
note(AtpLinkWalk *walk, AtpSpan target, const AtpUri *uri)
{
	char	   *notes = walk->arg;

	ok(uri->authority.len > 0, "with its parts");
	snprintf(notes + strlen(notes), 1024 - strlen(notes), "%.*s %.*s\n", (int) walk->path.len, walk->path.text,
			 (int) target.len, target.ptr);
}

#define TYPES	8

static AtpErr
walk_all(AtpLinkWalk *walk, const void *record, size_t n)
{
	AtpLinkType types[TYPES];
	size_t		count;
	size_t		at;
	AtpErr		err = atp_link_types(record, n, types, TYPES, NULL, &count, &at);

	if (err == ATP_OK && count <= TYPES)
		atp_link_walk_items(walk, record, n, types);
	return err;
}

#define DID		"\x6b" "did:web:a.b"
#define TYPED(members)	"\xa2" members "\x65$type\x63x#y"

static void
walks(void)
{
	/* A text under a member name of the data model is no link; a text in an array under such a name is. */
	static const char record[] =
		"\xa4" "\x61" "f\x83" TYPED("\x61" "d" DID) "\xa1\x61" "d" DID "\x68" "at://h.x"
		"\x61" "g" DID
		"\x63" "did\xa1\x65$link" DID
		"\x65$type\x81" DID;
	/* the type of the element after an empty container, and a "$type" that is not a text */
	static const char arrays[] =
		"\x84\x80" "\xa0" "\xa1\x65$type\x80" "\x82" "\xa1\x65$type\x61" "a" DID;
	static const char types[] = "\x82" TYPED("\x61" "d" DID) "\xa2\x61" "d" DID "\x65$type\x61z";
	static const char many[] = "\x89" "\xa0\xa0\xa0\xa0\xa0\xa0\xa0\xa0" "\xa1\x65$type\x61" "b";
	char		notes[1024] = "";
	AtpLinkWalk walk;

	atp_link_walk_begin(&walk, note, notes);
	ok(walk_all(&walk, record, sizeof(record) - 1) == ATP_OK, "a record");
	ok(strcmp(notes, "f[x#y].d at://did:web:a.b\nf[].d at://did:web:a.b\nf[] at://h.x\n"
			  "g at://did:web:a.b\n$type[] at://did:web:a.b\n") == 0, "its links: %s", notes);
	*notes = '\0';
	atp_link_walk_begin(&walk, note, notes);
	ok(walk_all(&walk, arrays, sizeof(arrays) - 1) == ATP_OK, "an array");
	ok(strcmp(notes, "[][] at://did:web:a.b\n") == 0, "its link: %s", notes);
	*notes = '\0';
	atp_link_walk_begin(&walk, note, notes);
	ok(walk_all(&walk, types, sizeof(types) - 1) == ATP_OK &&
	   strcmp(notes, "[x#y].d at://did:web:a.b\n[z].d at://did:web:a.b\n") == 0, "each element has its own type: %s", notes);
	*notes = '\0';
	ok(walk_all(&walk, many, sizeof(many) - 1) == ATP_OK && *notes == '\0', "more types than there is room for are counted");
	for (size_t n = 0; n < sizeof(record) - 1; n++)
	{
		atp_link_walk_begin(&walk, note, notes);
		ok(walk_all(&walk, record, n) != ATP_OK, "%zu bytes of it", n);
		*notes = '\0';
	}
	atp_link_walk_begin(&walk, note, notes);
	walk.path.len = ATP_LINK_PATH_MAX;
	ok(walk_all(&walk, record, sizeof(record) - 1) == ATP_OK && *notes == '\0' &&
	   walk.deeper == 5, "paths that are too long");
}

int
main(void)
{
	walks();
	paths();
	names();
	targets();
	longest();
	return done_testing();
}
