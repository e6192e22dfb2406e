/*
 * json_answers.c
 *		Pages of lists, answers about a repository and frames in JSON, with any JSON.
 *
 * proves: atp_list_open atp_list_next read_list_entry read_member next_member read_name atp_status_text atp_status_rev
 *	atp_repo_status_parse atp_repo_refusal read_object atp_json_frame_parse atp_json_frame_bare atp_json_read_object atp_json_read_known
 * sources: core/wire/json_frame.c test/proof/lib/any_json.c
 * short: -DN=3 -DANY_TEXT_MAX=3 --unwind 5 --unwindset atp_json_text.0:4,strlen.0:16,memcmp.0:4,memchr.0:4,atp_repo_refusal.0:6
 * by hand: 18 s
 * long: -DN=8 -DANY_TEXT_MAX=5 --unwind 10 --unwindset atp_json_text.0:6,strlen.0:16,memcmp.0:6,memchr.0:6
 * assumes: JSON's readers do what lib/any_json.c says; DIDs, hosts and TIDs are checked by functions that only read
 */
#include "core/wire/list_page.c"
#include "core/wire/repo_status.c"
#include "core/wire/json_frame.h"
#include "lib/proof.h"

AtpErr
atp_did_check(const char *s, size_t n, size_t *at)
{
	LAW(n == 0 || __CPROVER_r_ok(s, n));
	return any_bool() ? ATP_OK : ATP_E_DID_CHAR;
}

AtpErr
atp_tid_parse(const char *s, size_t n, uint64_t *tid, size_t *at)
{
	LAW(n == 0 || __CPROVER_r_ok(s, n));
	return n == ATP_TID_TEXT && any_bool() ? ATP_OK : ATP_E_TID_CHAR;
}

bool
atp_host_port_parse(const char *s, size_t n, char *out, size_t *len, uint16_t *port)
{
	LAW((n == 0 || __CPROVER_r_ok(s, n)) && __CPROVER_w_ok(out, ATP_HOST_MAX));
	*len = any_size(n < ATP_HOST_MAX ? n : ATP_HOST_MAX);
	return any_bool();
}

bool
atp_json_take_text(AtpJsonTexts *texts, const AtpJsonItem *item, AtpSpan *out)
{
	*out = item->raw;
	return item->kind == ATP_JSON_TEXT && any_bool();
}

/* Any state between two members of a page, or between two entries of its list, or the first state. */
static void
between_members(AtpListPage *page)
{
	if (any_bool())
		return;
	page->started = page->r.started = true;
	page->has_list = any_bool();
	page->in_list = page->has_list && any_bool();
	page->has_cursor = any_bool();
	page->r.depth = page->in_list ? 2 : 1;
	page->r.is_object[0] = true;
	page->r.is_object[1] = false;
}

static void
list(void)
{
	static AtpListPage page;
	static AtpListEntry entry;
	size_t		at;
	AtpErr		err;

	ANY_TEXT(s, n, N);
	err = atp_list_open(&page, any_bool() ? ATP_LIST_REPOS : ATP_LIST_HOSTS, s, n, &at);
	LAW(err == ATP_OK && at == 0);
	between_members(&page);
	err = atp_list_next(&page, &entry, &at);
	LAW_OF_ERRORS(err, at, n);
	LAW(page.r.pos <= n && page.cursor_len <= sizeof(page.cursor));
	LAW(err != ATP_E_JSON_END || (page.has_list && !page.in_list));
	if (err != ATP_OK)
		return;
	LAW(page.in_list && entry.name_len <= sizeof(entry.name) && entry.status.len <= sizeof(entry.status.text));
	for (size_t i = 0; i < ANY_TEXT_MAX; i++)
		LAW(i >= entry.status.len || (entry.status.text[i] > ' ' && entry.status.text[i] <= '~'));
	REACHED("an entry of a list");
}

static void
answers(void)
{
	AtpRepoStatus status;
	AtpFrame	frame;
	static AtpJsonTexts texts;
	size_t		at;
	AtpErr		err;

	ANY_TEXT(s, n, N);
	err = atp_repo_status_parse(s, n, (AtpSpan) {"did", 3}, &status, &at);
	LAW_OF_ERRORS(err, at, n);
	if (err == ATP_OK)
		REACHED("a status");
	LAW(atp_repo_refusal(s, n) <= ATP_REPO_DELETED);
	err = atp_json_frame_parse(s, n, &frame, &texts, &at);
	LAW_OF_ERRORS(err, at, n);
	if (err == ATP_OK && frame.kind == ATP_FRAME_MESSAGE)
	{
		LAW(frame.payload_at <= n && frame.payload.len <= n - frame.payload_at);
		REACHED("a message");
	}
}

int
main(void)
{
	list();
	answers();
	return 0;
}
