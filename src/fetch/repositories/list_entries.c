/*
 * list_entries.c
 *		Parses a page of a list: the accounts or hosts that the page names, and
 *		whether the list still names new entries.  Reads and writes no table.
 */
#include "postgres.h"

#include "common/secret_hash.h"
#include "fetch/repositories/list_entries.h"
#include "net/http.h"
#include "port/pg_bitutils.h"
#include "stream/format.h"
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

/* an account that is listed twice counts once, with its newest revision. */
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
		else
		{
			/* an account that is active on any host is active */
			bool		inactive = account->inactive && last->inactive;

			if (account->has_rev && (!last->has_rev || account->rev > last->rev))
				*last = *account;
			last->inactive = inactive;
		}
	}
	listed->n = kept;
}

void
atp_listed_keep(AtpListed *listed, const AtpSettings *settings)
{
	int			kept = 0;

	for (int i = 0; i < listed->n; i++)
		if (atp_wants_did(settings, listed->accounts[i].did))
			listed->accounts[kept++] = listed->accounts[i];
	listed->n = kept;
}

/*
 * Is the entry new for certain?  As in HyperLogLog, each register keeps the longest run of leading
 * zeros of its hashes.  An old entry never lengthens the run; a new entry does, the more rarely the
 * more entries there were.
 */
static bool
is_new(AtpListSeen *seen, const AtpListEntry *entry)
{
	/* secret: with a public hash, accounts could choose names that fill the registers with runs no later name exceeds */
	uint64		hash = atp_secret_hash(entry->name, entry->name_len, 0);
	uint8	   *reg = &seen->registers[hash % ATP_LIST_REGISTERS];

	/* leading zeros above the bits that chose the register, plus one; the OR bounds the result */
	uint8		rank = 64 - pg_leftmost_one_pos64(hash | ATP_LIST_REGISTERS);

	if (rank <= *reg)
		return false;
	*reg = rank;
	return true;
}

static bool
has_status(const AtpListEntry *entry, const char *status)
{
	return entry->status.len == strlen(status) && memcmp(entry->status.text, status, entry->status.len) == 0;
}

static void
add_account(AtpListed *listed, const AtpListEntry *entry)
{
	AtpListedAccount *account;

	/* a deleted account does not come back with the same repository */
	if (!entry->active && has_status(entry, "deleted"))
		return;
	account = atp_listed_add(listed);
	account->did = atp_did_make(entry->name, entry->name_len);
	account->has_rev = entry->has_rev;
	account->rev = entry->rev;
	account->inactive = !entry->active;
}

/* The normalized URL of a host; NULL: policy forbids requests to this host (W-50, W-52). */
static char *
url_with(const char *scheme, const AtpListEntry *entry)
{
	char	   *url = psprintf("%s://%.*s", scheme, (int) entry->name_len, entry->name);

	if (entry->port != 0)
		url = psprintf("%s:%u", url, entry->port);
	return atp_http_refused(url) == NULL ? psprintf("%s://%s", scheme, atp_http_host_of(url)) : NULL;
}

/*
 * hosts that the server says are banned or cannot be reached have no list to read.  False:
 * policy forbids requests to this host.
 */
static bool
add_host(AtpListed *listed, const AtpListEntry *entry)
{
	char	   *url;

	if (!entry->active || has_status(entry, "banned") || has_status(entry, "offline"))
		return true;
	/* plain HTTP only if the settings allow plain HTTP for this host */
	url = url_with("https", entry);
	if (url == NULL && (url = url_with("http", entry)) == NULL)
		return false;
	listed->hosts = lappend(listed->hosts, url);
	return true;
}

char *
atp_listed_read(AtpListed *listed, AtpListKind kind, AtpListSeen *seen, const char *text, size_t n)
{
	AtpListPage *reader = palloc(sizeof(AtpListPage));
	AtpListEntry *entry = palloc(sizeof(AtpListEntry));
	bool		any_new = false;
	size_t		at;
	AtpErr		err = atp_list_open(reader, kind, text, n, &at);
	int64		refused = 0;

	while (err == ATP_OK && (err = atp_list_next(reader, entry, &at)) == ATP_OK)
	{
		if (kind == ATP_LIST_HOSTS && listed->entries == listed->room_for_hosts)
		{
			listed->is_over = true;
			continue;
		}
		listed->entries++;
		any_new |= is_new(seen, entry);
		if (kind == ATP_LIST_REPOS)
			add_account(listed, entry);
		else
			refused += !add_host(listed, entry);
	}
	if (err != ATP_E_JSON_END)
		return psprintf("the page is not valid: %s (byte %zu)", atp_err_text(err), atp_byte_number(at));
	seen->fruitless = any_new ? 0 : seen->fruitless + 1;
	listed->skipped = reader->skipped + refused;
	if (reader->cursor_len > 0)
		listed->cursor = pnstrdup(reader->cursor, reader->cursor_len);
	atp_listed_sort(listed);
	return NULL;
}
