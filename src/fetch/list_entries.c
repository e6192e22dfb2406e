/*
 * list_entries.c
 *		The accounts that a page of a list names, and whether a list
 *		still names new ones.
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "core/list_page.h"
#include "fetch/list_entries.h"
#include "port/pg_bitutils.h"
#include "types/types.h"

static int
compare_accounts(const void *a, const void *b)
{
	return atp_compare_dids(((const AtpListedAccount *) a)->did, ((const AtpListedAccount *) b)->did);
}

AtpListedAccount *
atp_listed_add(AtpListed *listed)
{
	if (listed->n == listed->room)
	{
		listed->room = Max(2 * listed->room, 1024);
		listed->accounts = listed->accounts == NULL ? palloc(sizeof(AtpListedAccount) * listed->room)
			: repalloc(listed->accounts, sizeof(AtpListedAccount) * listed->room);
	}
	return &listed->accounts[listed->n++];
}

/* one that comes twice counts once, with its newest revision. */
void
atp_listed_sort(AtpListed *listed)
{
	int			kept = 0;

	if (listed->n > 0)
		qsort(listed->accounts, listed->n, sizeof(AtpListedAccount), compare_accounts);
	for (int i = 0; i < listed->n; i++)
	{
		const AtpListedAccount *account = &listed->accounts[i];
		AtpListedAccount *last = kept > 0 ? &listed->accounts[kept - 1] : NULL;

		if (last == NULL || compare_accounts(last, account) != 0)
			listed->accounts[kept++] = *account;
		else if (account->has_rev && (!last->has_rev || account->rev > last->rev))
			*last = *account;
	}
	listed->n = kept;
}

/* A new account lengthens the longest run of zeros of its register, the rarer the more there were. */
static bool
is_new(AtpListSeen *seen, const AtpListEntry *entry)
{
	uint64		hash = hash_bytes_extended((const unsigned char *) entry->name, entry->name_len, 0);
	uint8	   *reg = &seen->registers[hash % ATP_LIST_REGISTERS];
	/* bits above those that chose the register; one is set in any case */
	uint8		rank = 64 - pg_leftmost_one_pos64(hash | ATP_LIST_REGISTERS);

	if (rank <= *reg)
		return false;
	*reg = rank;
	return true;
}

char *
atp_listed_read(AtpListed *listed, AtpListSeen *seen, const char *text, size_t n)
{
	AtpListPage *reader = palloc(sizeof(AtpListPage));
	AtpListEntry *entry = palloc(sizeof(AtpListEntry));
	bool		any_new = false;
	size_t		at;
	AtpErr		err = atp_list_open(reader, ATP_LIST_REPOS, text, n, &at);

	while (err == ATP_OK && (err = atp_list_next(reader, entry, &at)) == ATP_OK)
	{
		AtpListedAccount *account;

		listed->entries++;
		any_new |= is_new(seen, entry);
		/* */
		if (!entry->active)
			continue;
		account = atp_listed_add(listed);
		account->did = atp_did_make(entry->name, entry->name_len);
		account->has_rev = entry->has_rev;
		account->rev = entry->rev;
	}
	if (err != ATP_E_JSON_END)
		return psprintf("the page is not valid: %s (byte %zu)", atp_err_text(err), atp_byte_number(at));
	seen->fruitless = any_new ? 0 : seen->fruitless + 1;
	listed->skipped = reader->skipped;
	if (reader->cursor_len > 0)
		listed->cursor = pnstrdup(reader->cursor, reader->cursor_len);
	atp_listed_sort(listed);
	return NULL;
}
