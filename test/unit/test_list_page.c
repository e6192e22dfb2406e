/*
 * test_list_page.c
 *		Pages of lists, and answers of servers about one repository.
 */
#include "core/wire/list_page.h"
#include "core/syntax/tid.h"
#include "hex.h"
#include "unit.h"

#define A	"did:plc:aaaaaaaaaaaaaaaaaaaaaaaa"
#define B	"did:web:b.example.com"
#define REV	"3jqfcqzm3fo2j"

/*
 * The page's entries as text: for each its name, marks for unusual members, and then its cursor.
 */
static AtpErr
read_page(AtpListKind kind, const char *text, size_t len, char *out, uint64_t *skipped)
{
	static AtpListPage page;
	static AtpListEntry entry;
	char	   *copy = (char *) copy_of(text, len);
	char	   *p = out;
	size_t		at = 0;
	AtpErr		err = atp_list_open(&page, kind, copy, len, &at);

	*out = '\0';
	while (err == ATP_OK && (err = atp_list_next(&page, &entry, &at)) == ATP_OK)
	{
		p += sprintf(p, "%.*s", (int) entry.name_len, entry.name);
		if (entry.port != 0)
			p += sprintf(p, ":%u", entry.port);
		if (!entry.active)
			p += sprintf(p, " inactive");
		if (entry.status.len > 0)
			p += sprintf(p, " %.*s", (int) entry.status.len, entry.status.text);
		if (entry.has_rev)
		{
			char		rev[ATP_TID_TEXT];

			atp_tid_format(entry.rev, rev);
			p += sprintf(p, " %.13s", rev);
		}
		p += sprintf(p, "; ");
	}
	if (err == ATP_E_JSON_END)
		sprintf(p, "%.*s", (int) page.cursor_len, page.cursor);
	*skipped = page.skipped;
	free(copy);
	return err;
}

static void
page(const char *what, AtpListKind kind, const char *text, const char *expected, unsigned expected_skipped)
{
	static char out[65536];
	uint64_t	skipped;
	AtpErr		err = read_page(kind, text, strlen(text), out, &skipped);

	ok(err == ATP_E_JSON_END && strcmp(out, expected) == 0 && skipped == expected_skipped,
	   "%s: %s: %s", what, out, atp_err_text(err));
}

static void
fault(const char *what, const char *text, AtpErr expected)
{
	static char out[65536];
	uint64_t	skipped;
	AtpErr		err = read_page(ATP_LIST_REPOS, text, strlen(text), out, &skipped);

	ok(err == expected, "%s: %s", what, atp_err_text(err));
}

static void
pages(void)
{
	page("listRepos", ATP_LIST_REPOS,
		 "{\"cursor\":\"next\",\"repos\":[{\"did\":\"" A "\",\"head\":\"bafy\",\"rev\":\"" REV "\",\"active\":true},"
		 "{\"did\":\"" B "\",\"head\":\"bafy\",\"rev\":\"" REV "\",\"active\":false,\"status\":\"takendown\"}]}",
		 A " " REV "; " B " inactive takendown " REV "; next", 0);
	page("listReposByCollection", ATP_LIST_REPOS, "{\"repos\":[{\"did\":\"" A "\"}],\"cursor\":\"7\"}", A "; 7", 0);
	page("the last page", ATP_LIST_REPOS, "{\"repos\":[]}", "", 0);
	page("R-61: rev and head are empty", ATP_LIST_REPOS,
		 "{\"repos\":[{\"did\":\"" A "\",\"head\":\"\",\"rev\":\"\"}]}", A "; ", 0);
	page("R-61: they are null, or others", ATP_LIST_REPOS,
		 "{\"repos\":[{\"did\":\"" A "\",\"head\":null,\"rev\":null,\"active\":null,\"status\":null},"
		 "{\"did\":\"" B "\",\"rev\":17,\"active\":\"no\",\"status\":[]}],\"cursor\":null}", A "; " B "; ", 0);
	page("R-61: the same twice", ATP_LIST_REPOS, "{\"repos\":[{\"did\":\"" A "\"},{\"did\":\"" A "\"}]}", A "; " A "; ", 0);
	page("unknown members", ATP_LIST_REPOS,
		 " {\"more\":{\"repos\":[{}]}, \"repos\" : [ {\"x\":[1,{\"did\":\"" B "\"}],\"did\":\"" A "\",\"y\":{}} ] , \"cursors\":\"no\"} ",
		 A "; ", 0);
	page("what is no entry", ATP_LIST_REPOS,
		 "{\"repos\":[1,null,\"" A "\",[{\"did\":\"" A "\"}],{},{\"did\":\"did:plc:\"},{\"did\":5},{\"did\":\"\"},"
		 "{\"did\":\"" A "\",\"did\":\"" B "\"},{\"did\":\"" B "\"}]}", B "; ", 9);
	page("escapes", ATP_LIST_REPOS, "{\"\\u0072epos\":[{\"d\\u0069d\":\"did\\u003aweb:b.example.com\"}],\"cursor\":\"a\\n\\ud83d\\ude00\"}",
		 B "; a\n\xf0\x9f\x98\x80", 0);
	page("a status that is no word", ATP_LIST_REPOS,
		 "{\"repos\":[{\"did\":\"" A "\",\"status\":\"taken down\"},{\"did\":\"" A "\",\"status\":\"\\u0000\"}]}", A "; " A "; ", 0);
	page("listHosts", ATP_LIST_HOSTS,
		 "{\"hosts\":[{\"hostname\":\"PDS.example.com\",\"seq\":5,\"accountCount\":3,\"status\":\"active\"},"
		 "{\"hostname\":\"pds.example.com:8443\"},{\"hostname\":\"10.0.0.1\"},{\"hostname\":\"https://pds.example.com\"},"
		 "{\"hostname\":\"pds.example.com:\"},{\"hostname\":\"pds.example.com:070\"},{\"hostname\":\"a b\"},{\"hostname\":\"\"},"
		 "{\"hostname\":\"pds.example.com:65536\"}],\"cursor\":\"\"}",
		 "pds.example.com active; pds.example.com:8443; ", 7);
}

static void
faults(void)
{
	static char large[ATP_LIST_PAGE_MAX + 2];
	static char cursor[ATP_LIST_CURSOR_MAX + 64];
	static char out[65536];
	uint64_t	skipped;

	fault("nothing", "", ATP_E_JSON_SYNTAX);
	fault("HTML", "<html>", ATP_E_JSON_SYNTAX);
	fault("an array", "[]", ATP_E_LIST_MEMBER);
	fault("no list", "{}", ATP_E_LIST_MEMBER);
	fault("the other list", "{\"hosts\":[]}", ATP_E_LIST_MEMBER);
	fault("an error with status 200", "{\"error\":\"X\",\"message\":\"Y\"}", ATP_E_LIST_MEMBER);
	fault("the list is none", "{\"repos\":{}}", ATP_E_LIST_MEMBER);
	fault("two lists", "{\"repos\":[],\"repos\":[]}", ATP_E_LIST_TWICE);
	fault("two cursors", "{\"cursor\":\"a\",\"repos\":[],\"cursor\":\"a\"}", ATP_E_LIST_TWICE);
	fault("a cursor that is a number", "{\"cursor\":5,\"repos\":[]}", ATP_E_LIST_CURSOR);
	fault("a cursor with U+0000", "{\"cursor\":\"a\\u0000\",\"repos\":[]}", ATP_E_LIST_CURSOR);
	fault("a cursor that is half of a pair", "{\"cursor\":\"\\ud83d\",\"repos\":[]}", ATP_E_LIST_CURSOR);
	fault("cut in an entry", "{\"repos\":[{\"did\":\"" A "\"", ATP_E_JSON_SYNTAX);
	fault("cut after an entry", "{\"repos\":[{\"did\":\"" A "\"}", ATP_E_JSON_SYNTAX);
	fault("cut after the list", "{\"repos\":[{\"did\":\"" A "\"}]", ATP_E_JSON_SYNTAX);
	fault("more after it", "{\"repos\":[]}{", ATP_E_JSON_SYNTAX);
	fault("too deep", "{\"a\":[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[", ATP_E_JSON_DEPTH);

	for (size_t over = 0; over < 2; over++)
	{
		size_t		n = ATP_LIST_PAGE_MAX + over;
		AtpErr		err;

		memset(large, ' ', sizeof(large));
		memcpy(large, "{\"repos\":[]}", 12);
		err = read_page(ATP_LIST_REPOS, large, n, out, &skipped);
		ok(err == (over ? ATP_E_LIST_SIZE : ATP_E_JSON_END), "W-55: a page of %zu bytes: %s", n, atp_err_text(err));

		n = (size_t) sprintf(cursor, "{\"repos\":[],\"cursor\":\"%0*d\"}", (int) (ATP_LIST_CURSOR_MAX + over), 7);
		err = read_page(ATP_LIST_REPOS, cursor, n, out, &skipped);
		ok(err == (over ? ATP_E_LIST_CURSOR : ATP_E_JSON_END), "a cursor of %zu bytes: %s", ATP_LIST_CURSOR_MAX + over, atp_err_text(err));
	}
}

static void
status(const char *text, AtpErr expected, bool active, const char *word, bool has_rev)
{
	AtpRepoStatus s;
	char	   *copy = (char *) copy_of(text, strlen(text));
	char	   *did = (char *) copy_of(A, strlen(A));
	size_t		at;
	AtpErr		err = atp_repo_status_parse(copy, strlen(text), (AtpSpan) {did, strlen(A)}, &s, &at);

	ok(err == expected && (err != ATP_OK || (s.active == active && s.has_rev == has_rev && s.status.len == strlen(word) &&
											 memcmp(s.status.text, word, s.status.len) == 0)),
	   "R-12: %s: %s", text, atp_err_text(err));
	free(copy);
	free(did);
}

static void
refusal(const char *text, AtpRepoRefusal expected)
{
	char	   *copy = (char *) copy_of(text, strlen(text));

	ok(atp_repo_refusal(copy, strlen(text)) == expected, "R-12: %s", text);
	free(copy);
}

#define HEAD "bafyreiclp443lavogvhj3d2ob2cxbfuscni2k5jk7bebjzg7khl3esabwq"

static void
latest(const char *text, AtpErr expected)
{
	char	   *copy = (char *) copy_of(text, strlen(text));
	uint8_t		cid[ATP_CID_BLESSED_LEN];
	uint64_t	rev;
	size_t		at;

	ok(atp_latest_commit_parse(copy, strlen(text), cid, &rev, &at) == expected && at <= strlen(text), "P-04: %s", text);
	free(copy);
}

static void
latest_commits(void)
{
	latest("{\"cid\":\"" HEAD "\",\"rev\":\"" REV "\"}", ATP_OK);
	latest("{\"rev\":\"" REV "\"}", ATP_E_STATUS_MEMBER);
	latest("{\"cid\":\"" HEAD "\",\"rev\":1}", ATP_E_STATUS_MEMBER);
	latest("{\"cid\":\"bafkreiclp443lavogvhj3d2ob2cxbfuscni2k5jk7bebjzg7khl3esabwq\",\"rev\":\"" REV "\"}", ATP_E_COMMIT_ROOT);
	latest("[]", ATP_E_STATUS_MEMBER);
	latest("", ATP_E_JSON_SYNTAX);
	ok(atp_answer_error_is("{\"error\":\"RecordNotFound\"}", 26, "RecordNotFound"), "P-02: RecordNotFound");
	ok(!atp_answer_error_is("{\"message\":\"RecordNotFound\"}", 28, "RecordNotFound"), "P-02: RecordNotFound in the message");
}

static void
statuses(void)
{
	static char large[ATP_ANSWER_MAX + 1];

	status("{\"did\":\"" A "\",\"active\":true,\"rev\":\"" REV "\"}", ATP_OK, true, "", true);
	status("{\"did\":\"" A "\",\"active\":false,\"status\":\"deactivated\"}", ATP_OK, false, "deactivated", false);
	status("{\"did\":\"" A "\",\"active\":false,\"status\":\"" A A A "\"}", ATP_OK, false, "", false);
	status("{\"did\":\"" B "\",\"active\":true}", ATP_E_STATUS_DID, false, "", false);
	status("{\"did\":\"" A "x\",\"active\":true}", ATP_E_STATUS_DID, false, "", false);
	status("{\"active\":true}", ATP_E_STATUS_DID, false, "", false);
	status("{\"did\":\"" A "\"}", ATP_E_STATUS_MEMBER, false, "", false);
	status("{\"did\":\"" A "\",\"active\":\"true\"}", ATP_E_STATUS_MEMBER, false, "", false);
	status("{\"did\":\"" A "\",\"active\":false,\"active\":true}", ATP_E_STATUS_MEMBER, false, "", false);
	status("[]", ATP_E_STATUS_MEMBER, false, "", false);
	status("{\"did\":\"" A "\",\"active\":true}x", ATP_E_JSON_SYNTAX, false, "", false);
	memset(large, ' ', sizeof(large));
	{
		AtpRepoStatus s;
		size_t		at;

		ok(atp_repo_status_parse(large, sizeof(large), (AtpSpan) {A, strlen(A)}, &s, &at) == ATP_E_STATUS_SIZE,
		   "an answer of 65,537 bytes");
	}

	refusal("{\"error\":\"RepoNotFound\",\"message\":\"Could not find repo\"}", ATP_REPO_NOT_FOUND);
	refusal("{\"message\":\"x\",\"error\":\"RepoTakendown\"}", ATP_REPO_TAKENDOWN);
	refusal("{\"error\":\"RepoSuspended\"}", ATP_REPO_SUSPENDED);
	refusal("{\"error\":\"RepoDeactivated\"}", ATP_REPO_DEACTIVATED);
	refusal("{\"error\":\"RepoDeleted\"}", ATP_REPO_DELETED);
	refusal("{\"error\":\"RepoNotFounds\"}", ATP_REPO_REFUSED);
	refusal("{\"error\":\"InvalidRequest\",\"message\":\"RepoNotFound\"}", ATP_REPO_REFUSED);
	refusal("{\"error\":\"RepoNotFound\",\"error\":\"RepoDeleted\"}", ATP_REPO_REFUSED);
	refusal("{\"error\":\"RepoNotFound\"", ATP_REPO_REFUSED);
	refusal("<html>RepoNotFound</html>", ATP_REPO_REFUSED);
	refusal("", ATP_REPO_REFUSED);
	ok(strcmp(atp_repo_refusal_status(ATP_REPO_DELETED), "deleted") == 0 && atp_repo_refusal_status(ATP_REPO_NOT_FOUND) == NULL &&
	   atp_repo_refusal_status(ATP_REPO_REFUSED) == NULL, "R-13: which refusals are of accounts that are not active");
}

int
main(void)
{
	pages();
	faults();
	statuses();
	latest_commits();
	return done_testing();
}
