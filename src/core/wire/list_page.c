/*
 * list_page.c
 *		The pages of lists of repositories and of hosts: see
 *		list_page.h.
 */
#include "core/syntax/chars.h"
#include "core/wire/list_page.h"
#include "core/syntax/tid.h"

AtpErr
atp_list_open(AtpListPage *page, AtpListKind kind, const char *s, size_t n, size_t *at)
{
	page->kind = kind;
	page->started = page->has_list = page->in_list = page->has_cursor = false;
	page->cursor_len = 0;
	page->skipped = 0;
	*at = 0;
	if (n > ATP_LIST_PAGE_MAX)
		return atp_fail(ATP_E_LIST_SIZE, ATP_LIST_PAGE_MAX, at);
	atp_json_init(&page->r, s, n, ATP_JSON_DEPTH_DEFAULT);
	return ATP_OK;
}

/* The members that are read of an entry. */
typedef enum ListField
{
	NAME,
	ACTIVE,
	STATUS,
	REV,
	NFIELDS
} ListField;

static const char *const field_names[][NFIELDS] = {
	[ATP_LIST_REPOS] = {"did", "active", "status", "rev"},
	[ATP_LIST_HOSTS] = {"hostname", "active", "status", "rev"}
};

static bool
read_name(AtpListKind kind, const AtpJsonItem *item, AtpListEntry *entry)
{
	char		text[ATP_HOST_MAX + 6];
	size_t		n;
	size_t		at;

	if (item->kind != ATP_JSON_TEXT)
		return false;
	entry->port = 0;
	if (kind == ATP_LIST_HOSTS)
		return atp_json_text(item, text, sizeof(text), &n) &&
			atp_host_port_parse(text, n, entry->name, &entry->name_len, &entry->port);
	return atp_json_text(item, entry->name, sizeof(entry->name), &entry->name_len) &&
		atp_did_check(entry->name, entry->name_len, &at) == ATP_OK;
}

/*
 * an entry with an invalid name, or with a member twice, is skipped; any other invalid member counts as
 * absent.
 */
static AtpErr
read_list_entry(AtpListPage *page, AtpListEntry *entry, bool *valid, size_t *at)
{
	AtpJsonItem field[NFIELDS];
	bool		repeated;
	AtpErr		err = atp_json_members(&page->r, field_names[page->kind], NFIELDS, field, &repeated, at);

	if (err != ATP_OK)
		return err;
	*valid = !repeated && read_name(page->kind, &field[NAME], entry);
	entry->active = field[ACTIVE].kind != ATP_JSON_FALSE;
	atp_status_text(&field[STATUS], &entry->status);
	entry->has_rev = atp_status_rev(&field[REV], &entry->rev);
	return ATP_OK;
}

/* Reads a member of the page; its key has been read. */
static AtpErr
read_member(AtpListPage *page, const AtpJsonItem *key, size_t *at)
{
	const char *list = page->kind == ATP_LIST_HOSTS ? "hosts" : "repos";
	bool		is_list = atp_json_is(key, list, strlen(list));
	bool		is_cursor = atp_json_is(key, "cursor", strlen("cursor"));
	AtpJsonItem item;
	AtpErr		err;

	if ((is_list && page->has_list) || (is_cursor && page->has_cursor))
		return ATP_E_LIST_TWICE;
	if ((err = atp_json_next(&page->r, &item, at)) != ATP_OK)
		return err;
	if (is_list)
	{
		page->has_list = page->in_list = true;
		return item.kind == ATP_JSON_ARRAY ? ATP_OK : ATP_E_LIST_MEMBER;
	}
	if (is_cursor)
	{
		page->has_cursor = true;
		if (item.kind == ATP_JSON_NULL)
			return ATP_OK;
		if (item.kind != ATP_JSON_TEXT ||
			!atp_json_text(&item, page->cursor, sizeof(page->cursor), &page->cursor_len) ||
			memchr(page->cursor, '\0', page->cursor_len) != NULL)
			return ATP_E_LIST_CURSOR;
		return ATP_OK;
	}
	return atp_json_finish(&page->r, &item, at);
}

/* Reads on between the members of the page, and after the last. */
static AtpErr
next_member(AtpListPage *page, size_t *at)
{
	AtpJsonItem item;
	AtpErr		err = atp_json_next(&page->r, &item, at);

	if (err != ATP_OK)
		return err;
	if (!page->started)
	{
		page->started = true;
		return item.kind == ATP_JSON_OBJECT ? ATP_OK : ATP_E_LIST_MEMBER;
	}
	if (item.kind == ATP_JSON_KEY)
		return read_member(page, &item, at);
	if (!page->has_list)
		return ATP_E_LIST_MEMBER;
	return atp_json_next(&page->r, &item, at);
}

AtpErr
atp_list_next(AtpListPage *page, AtpListEntry *entry, size_t *at)
{
	for (;;)
	{
		AtpJsonItem item;
		bool		valid = false;
		AtpErr		err;

		if (!page->in_list)
		{
			if ((err = next_member(page, at)) != ATP_OK)
				return err;
			continue;
		}
		if ((err = atp_json_next(&page->r, &item, at)) != ATP_OK)
			return err;
		if (item.kind == ATP_JSON_END)
		{
			page->in_list = false;
			continue;
		}
		if (item.kind == ATP_JSON_OBJECT)
			err = read_list_entry(page, entry, &valid, at);
		else
			err = atp_json_finish(&page->r, &item, at);
		if (err != ATP_OK || valid)
			return err;
		page->skipped++;
	}
}
