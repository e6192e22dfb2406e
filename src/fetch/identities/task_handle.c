/*
 * task_handle.c
 *		The fetcher's task that verifies handles (W-20 to W-25): the DID document claims a handle;
 *		does the handle's domain name the account?  Or a session asks which account a domain names.
 *
 * First the TXT records of _atproto.HANDLE are looked up.  If the records name no account,
 * https://HANDLE/.well-known/atproto-did is read.  So TXT records win over the file, and only one
 * answer is needed if records exist.
 */
#include "postgres.h"

#include "config/transaction.h"
#include "core/syntax/did.h"
#include "core/syntax/handle.h"
#include "core/syntax/handle_txt.h"
#include "fetch/engine/task.h"
#include "fetch/engine/fetch.h"
#include "fetch/identities/task_handle.h"
#include "fetch/engine/host.h"
#include "identity/handle_check.h"
#include "identity/identity.h"
#include "lib/ilist.h"
#include "net/dns.h"
#include "net/http_policy.h"
#include "types/types.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#define CHECKS_MAX		16		/* checks at a time: this is the least urgent of all tasks */
#define LOOK_MS			1000	/* between two looks for work */
#define IDLE_LOOK_MS	10000	/* ... if the last look found no work */
#define REDIRECTS_MAX	3
#define SITE_MAX		8		/* checks at a time below the same two labels: names below a domain
								 * belong to a single stranger, as far as we know */
#define SITE_WAIT_MS	10000	/* skipped handles of a full site wait so long, if they fill a whole
								 * read and hide the handles behind them */
#define DUE_MAX			64		/* rows read in a look */
#define PUT_OFF_MS		2000	/* a check that must wait longer for its host is put off, so that
								 * its place is free */

/* W-24: times between two checks, in seconds. */
#define VALID_S			(24 * 3600)
#define INVALID_S		3600
#define INVALID_MAX_S	(7 * 24 * 3600)
#define UNREACHABLE_S	120
#define UNREACHABLE_MAX_S (24 * 3600)

typedef enum Phase
{
	RECORDS,					/* the TXT records are being looked up */
	FILE_WAITS,					/* the host's limits do not allow the request yet */
	FILE_ASKED,
	PUT_OFF,					/* ... until row.next */
	DONE						/* the result is to be written */
} Phase;

typedef struct HandleCheck
{
	dlist_node	node;
	Phase		phase;
	AtpHandleCheck row;
	AtpHandleTxt txt;
	bool		records_failed;
	AtpHttp    *http;
	struct varlena *found;		/* of a look-up: the account that the domain names */
	size_t		did_len;		/* 0: a look-up */
	char		did[ATP_DID_MAX];
	char		handle[ATP_HANDLE_MAX + 1];
	char		error[1000];
} HandleCheck;

static dlist_head checks = DLIST_STATIC_INIT(checks);
static int	nchecks;
static AtpTime looked;
static const char owner;		/* its address identifies our requests */

static char *no_dns;

void
atp_handle_task_init(void)
{
	DefineCustomStringVariable("atproto.handle_no_dns",
							   "Handles below these domains are verified by HTTPS only, without a look-up of TXT records.",
							   "Domains, separated by commas, each with its leading dot.",
							   &no_dns, ".bsky.social", PGC_SIGHUP, 0, NULL, NULL, NULL);
}

/* ------------------------------------------------------------------------
 * The result of a check
 * ------------------------------------------------------------------------
 */

/*
 * min, doubled with each try up to max, plus up to a fifth at random, so that checks do not come
 * together.
 */
static TimestampTz
later_time(TimestampTz now, int min, int max, int tries)
{
	int			s = min;

	for (int i = 1; i < tries && s < max; i++)
		s *= 2;
	s = Min(s, max);
	return now + (s + random() % (s / 5)) * USECS_PER_SEC;
}

static void
end_check(HandleCheck *check, AtpHandleState state, const char *error)
{
	AtpHandleCheck *row = &check->row;
	TimestampTz now = atp_time_of_day();
	bool		was_valid = row->state == ATP_HANDLE_VALID;

	check->phase = DONE;
	row->tries = state == ATP_HANDLE_VALID ? 0 : was_valid ? 1 : Min(row->tries + 1, 1000);
	row->error = NULL;
	if (error != NULL)
	{
		strlcpy(check->error, error, sizeof(check->error));
		row->error = check->error;
	}
	switch (state)
	{
		case ATP_HANDLE_VALID:
			row->next = later_time(now, VALID_S, VALID_S, 0);
			break;
		case ATP_HANDLE_INVALID:
			row->next = later_time(now, INVALID_S, INVALID_MAX_S, row->tries);
			break;
		default:
			row->next = later_time(now, UNREACHABLE_S, UNREACHABLE_MAX_S, row->tries);
			/*
			 * a handle that was valid stays valid for as long as a DID document that cannot be read
			 * again (W-30)
			 */
			if (was_valid && row->checked_at <= now && now - row->checked_at < ATP_IDENTITY_DEAD_S * USECS_PER_SEC)
				state = ATP_HANDLE_VALID;
	}
	if (state != ATP_HANDLE_UNREACHABLE && (state != ATP_HANDLE_VALID || error == NULL))
		row->checked_at = now;
	row->state = state;
}

/* The handle's domain names an account: is it this account?  A look-up takes any. */
static void
end_with(HandleCheck *check, const char *did, size_t n, const char *where)
{
	if (check->did_len == 0)
	{
		MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);

		check->found = atp_did_make(did, n);
		MemoryContextSwitchTo(old);
		end_check(check, ATP_HANDLE_VALID, NULL);
	}
	else if (n == check->did_len && memcmp(did, check->did, n) == 0)
		end_check(check, ATP_HANDLE_VALID, NULL);
	else if (check->records_failed)
		end_check(check, ATP_HANDLE_UNREACHABLE, psprintf("%s: another account; its TXT records could not be read", where));
	else
		end_check(check, ATP_HANDLE_INVALID, psprintf("%s: another account", where));
}

/* ------------------------------------------------------------------------
 * The file
 * ------------------------------------------------------------------------
 */
/*
 * The URL of the file.  Errors show this URL, never the URL of a redirect: that is a stranger's
 * text.
 */
static char *
file_url(const HandleCheck *check)
{
	return psprintf("https://%s/.well-known/atproto-did", check->handle);
}

static long
ask_file(HandleCheck *check)
{
	AtpHttpRequest request = {
		.owner = &owner,
		.arg = check,
		.url = file_url(check),
		.redirects = REDIRECTS_MAX,
		.body_max = ATP_HANDLE_FILE_MAX,
		.cut = true
	};
	long		wait_ms = -1;

	check->http = atp_fetch_start(&request, NULL, &wait_ms);
	check->phase = check->http != NULL ? FILE_ASKED : FILE_WAITS;
	if (check->http == NULL && wait_ms > PUT_OFF_MS)
	{
		check->phase = PUT_OFF;
		check->row.next = atp_time_of_day() + (TimestampTz) wait_ms * 1000;
	}
	return wait_ms;
}

/*
 * Would a second request get the same answer?  Then the domain has said that the handle names no
 * account.
 */
static bool
is_final(const AtpHttpAnswer *answer)
{
	switch (answer->outcome)
	{
		case ATP_HTTP_OK:
			return answer->status < 500 && answer->status != 408 && answer->status != 425 && answer->status != 429;
		case ATP_HTTP_POLICY:
		case ATP_HTTP_ADDRESS:
		case ATP_HTTP_REDIRECT:
			return true;
		default:
			return false;
	}
}

static void
file_answered(HandleCheck *check, const AtpHttpAnswer *answer)
{
	bool		ok = answer->outcome == ATP_HTTP_OK && answer->status / 100 == 2;
	AtpSpan		did = ok ? atp_handle_file(answer->body, answer->body_len) : (AtpSpan) {0};

	if (did.ptr != NULL)
		end_with(check, did.ptr, did.len, file_url(check));
	else if (!is_final(answer) || check->records_failed)
		end_check(check, ATP_HANDLE_UNREACHABLE, ok ? "its TXT records could not be read" : answer->error);
	else
		end_check(check, ATP_HANDLE_INVALID, ok ? psprintf("%s: no DID", file_url(check)) : answer->error);
}

/* ------------------------------------------------------------------------
 * TXT records
 * ------------------------------------------------------------------------
 */
static void
record_string(void *arg, const char *s, size_t n, bool first)
{
	atp_handle_txt_string(&((HandleCheck *) arg)->txt, s, n, first);
}

static void
records_end(void *arg, AtpDnsOutcome outcome, const char *error)
{
	HandleCheck *check = arg;

	check->records_failed = outcome == ATP_DNS_FAILED;
	/* a callback of c-ares must not raise an ERROR: step_handles() continues the check */
	check->phase = FILE_WAITS;
}

/*
 * W-22: are the TXT records of this handle looked up?  Not if the name would be too long, or below
 * a domain of atproto.handle_no_dns.
 */
static bool
has_records(const char *handle)
{
	size_t		n = strlen(handle);
	const char *next;

	if (strlen(ATP_HANDLE_TXT_PREFIX) + n > ATP_DNS_NAME_MAX)
		return false;
	for (const char *p = no_dns; *p != '\0'; p = next + (*next == ','))
	{
		size_t		len = strcspn(p, ",");

		next = p + len;
		while (len > 0 && *p == ' ')
			p++, len--;
		while (len > 0 && p[len - 1] == ' ')
			len--;
		if (len > 0 && n > len && pg_strncasecmp(handle + n - len, p, len) == 0)
			return false;
	}
	return true;
}

/* The look-up of TXT records has ended.  True: the records decide the check. */
static bool
records_decide(HandleCheck *check)
{
	switch (atp_handle_txt_end(&check->txt))
	{
		case ATP_HANDLE_DID:
			end_with(check, check->txt.did, check->txt.did_len, psprintf("TXT records of %s%s", ATP_HANDLE_TXT_PREFIX, check->handle));
			return true;
		case ATP_HANDLE_SEVERAL:
			end_check(check, ATP_HANDLE_INVALID, psprintf("TXT records of %s%s: several accounts", ATP_HANDLE_TXT_PREFIX, check->handle));
			return true;
		default:
			return false;
	}
}

/* W-25: may this handle be looked up? */
static bool
may_be_asked(const char *handle)
{
	size_t		n = strlen(handle);
	AtpHttpUrl	url;

	if (!atp_handle_tld_allowed(handle, n))
		return false;
	if (n < 5 || strcmp(handle + n - 5, ".test") != 0)
		return true;
	return atp_http_url(psprintf("https://%s", handle), &url) == NULL && url.named;
}

static void
begin_check(const AtpHandleCheck *due)
{
	HandleCheck *check = MemoryContextAllocZero(TopMemoryContext, sizeof(HandleCheck));

	check->row = *due;
	if (due->did != NULL)
	{
		check->row.did = MemoryContextAlloc(TopMemoryContext, VARSIZE_ANY(due->did));
		memcpy(check->row.did, due->did, VARSIZE_ANY(due->did));
		check->did_len = atp_did_copy(due->did, check->did);
	}
	strlcpy(check->handle, due->handle, sizeof(check->handle));
	check->row.handle = check->handle;
	atp_handle_txt_begin(&check->txt);
	dlist_push_tail(&checks, &check->node);
	nchecks++;
	if (!may_be_asked(check->handle))
		end_check(check, ATP_HANDLE_INVALID, "handles of this top-level domain are not looked up");
	else if (has_records(check->handle))
	{
		check->phase = RECORDS;
		atp_dns_txt(psprintf("%s%s", ATP_HANDLE_TXT_PREFIX, check->handle), record_string, records_end, check);
	}
	else
		check->phase = FILE_WAITS;
}

/* False: a session has locked the account's row, so the check is written later. */
static bool
write_check(HandleCheck *check)
{
	bool		is_free = true;

	atp_begin("writing what became of a handle");
	if (check->row.did != NULL)
		atp_identities_try_lock(&check->row.did, 1, &is_free);
	if (is_free && check->phase == PUT_OFF)
		atp_handle_put_off(&check->row, check->row.next);
	else if (is_free && check->row.did == NULL)
		atp_handle_lookup_write(&check->row, check->found);
	else if (is_free)
		atp_handle_write(&check->row);
	atp_commit();
	if (!is_free)
		return false;
	dlist_delete(&check->node);
	nchecks--;
	if (check->row.did != NULL)
		pfree(check->row.did);
	if (check->found != NULL)
		pfree(check->found);
	pfree(check);
	return true;
}

/* ------------------------------------------------------------------------
 * The task
 * ------------------------------------------------------------------------
 */
static bool
is_running(const AtpHandleCheck *due)
{
	dlist_iter	i;

	dlist_foreach(i, &checks)
	{
		const AtpHandleCheck *other = &dlist_container(HandleCheck, node, i.cur)->row;

		if (due->did == NULL ? other->did == NULL && strcmp(due->handle, other->handle) == 0
			: other->did != NULL && atp_compare_dids(due->did, other->did) == 0)
			return true;
	}
	return false;
}

static bool
site_is_full(const char *handle)
{
	dlist_iter	i;
	int			n = 0;

	dlist_foreach(i, &checks)
		n += strcmp(atp_host_suffix(dlist_container(HandleCheck, node, i.cur)->handle), atp_host_suffix(handle)) == 0;
	return n >= SITE_MAX;
}

/*
 * Begin checks that are due.  Returns milliseconds until the next look; -1: when a session wakes
 * the fetcher.
 */
static long
begin_due_checks(AtpTime now)
{
	AtpHandleCheck *due = palloc(sizeof(AtpHandleCheck) * 2 * DUE_MAX);
	bool		all;
	int			n;
	int			nskipped = 0;

	atp_begin("looking for handles to verify");
	/* a session waits for the answer of a look-up */
	n = atp_handle_lookups_due(atp_time_of_day(), DUE_MAX, due);
	n += atp_handles_due(atp_time_of_day(), DUE_MAX, due + n, &all);
	for (int i = 0; i < n && nchecks < CHECKS_MAX; i++)
	{
		if (is_running(&due[i]))
			continue;
		if (site_is_full(due[i].handle))
			due[nskipped++] = due[i];
		else
			begin_check(&due[i]);
	}
	for (int i = 0; n >= DUE_MAX && nchecks < CHECKS_MAX && i < nskipped; i++)
	{
		bool		is_free = true;

		if (due[i].did != NULL)
			atp_identities_try_lock(&due[i].did, 1, &is_free);
		if (is_free)
			atp_handle_put_off(&due[i], atp_time_of_day() + SITE_WAIT_MS * INT64CONST(1000));
	}
	atp_commit();
	looked = now;
	return n > 0 ? LOOK_MS : all ? IDLE_LOOK_MS : -1;
}

static long
step_handles(AtpTime now)
{
	dlist_mutable_iter i;
	AtpHttp    *http;
	long		timeout = -1;

	atp_dns_pump(now);
	while ((http = atp_fetch_next(&owner)) != NULL)
	{
		file_answered(atp_http_arg(http), atp_http_answer(http));
		atp_fetch_free(http);
	}
	if (nchecks < CHECKS_MAX)
	{
		long		left = atp_remaining(now, looked, LOOK_MS);

		timeout = atp_earlier(timeout, left == 0 ? begin_due_checks(now) : left);
	}
	dlist_foreach_modify(i, &checks)
	{
		HandleCheck *check = dlist_container(HandleCheck, node, i.cur);

		if (check->phase == FILE_WAITS && !records_decide(check))
			timeout = atp_earlier(timeout, ask_file(check));
		if ((check->phase == DONE || check->phase == PUT_OFF) && !write_check(check))
			timeout = atp_earlier(timeout, LOOK_MS);
	}
	return atp_earlier(timeout, atp_dns_timeout(now));
}

const AtpTask atp_handle_task = {"handle", atp_handles_are_wanted, atp_dns_begin, step_handles, .kinds = 1};
