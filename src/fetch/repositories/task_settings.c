/*
 * task_settings.c
 *		The fetcher's task that makes due at once what failed under earlier settings: after a
 *		change of atproto.fetch_allow, for example, nobody wants to wait for the next try.
 *
 * atproto.fetch_settings has a digest of the settings under which the fetcher worked last, so that
 * a change is noticed also if no fetcher runs: then the manager starts one.  Hosts that answered
 * 429 or 503 are not asked sooner: a setting of ours does not change what they want.
 */
#include "postgres.h"

#include <sys/stat.h>

#include "common/sha256.h"
#include "config/extension.h"
#include "config/spi.h"
#include "config/transaction.h"
#include "config/wake.h"
#include "fetch/engine/task.h"
#include "identity/identity.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/memutils.h"

#define LOOK_MS		1000	/* between two looks at the file with the authorities */
#define SOME		"1000"	/* rows in a transaction */

static const char *const settings[] = {
	"atproto.fetch_allow", "atproto.fetch_any_port", "atproto.fetch_ca_file", "atproto.fetch_proxy", "atproto.name_servers", "atproto.plc_url"
};

static uint8_t known[32];		/* digest of the settings whose failures were made due */
static char *known_text = NULL;	/* the same settings, without the file with the authorities; NULL: before the first look */
static AtpTime looked;

/* The caller frees the text. */
static StringInfoData
settings_text(void)
{
	StringInfoData text;

	initStringInfo(&text);
	for (int i = 0; i < lengthof(settings); i++)
	{
		const char *value = GetConfigOption(settings[i], true, false);

		appendStringInfo(&text, "%s\n", value != NULL ? value : "");
	}
	return text;
}

/*
 * The digest has also size and time of the file with the authorities, which may be replaced while
 * its name stays.  A digest, because the proxy's URL may have a password.
 */
static void
settings_digest(uint8_t digest[32])
{
	const char *ca_file = GetConfigOption("atproto.fetch_ca_file", true, false);
	struct stat st = {0};
	StringInfoData text = settings_text();

	if (ca_file != NULL && ca_file[0] != '\0' && stat(ca_file, &st) == 0)
		appendStringInfo(&text, "%lld %lld", (long long) st.st_mtime, (long long) st.st_size);
	atp_sha256(NULL, (const uint8_t *) text.data, text.len, digest);
	pfree(text.data);
}

static AtpArg
digest_arg(const uint8_t digest[32])
{
	return (AtpArg) {PointerGetDatum(cstring_to_text_with_len((const char *) digest, 32)), BYTEAOID, false};
}

/* Does the table have a different digest?  Without a row no fetcher has run, and nothing has failed. */
static bool
is_changed(const uint8_t digest[32])
{
	AtpResult	found = atp_query("SELECT FROM atproto.fetch_settings WHERE digest <> $1", ATP_ARGS(digest_arg(digest)));

	atp_result_free(found);
	return found.n > 0;
}

static bool
settings_wanted(void)
{
	uint8_t		digest[32];

	settings_digest(digest);
	return is_changed(digest);
}

#define FREE_ROWS(table, condition) \
	" WHERE ctid = ANY (ARRAY (SELECT ctid FROM " table " WHERE " condition " LIMIT " SOME " FOR UPDATE SKIP LOCKED))"

/*
 * Each statement makes some rows due, and does nothing with rows that are due.  Rows that sessions
 * have locked stay as they are.
 *
 * A job whose account is not known waits for a new look-up, as a job that doubts the account's
 * document (W-36): otherwise the job would fail once more before the look-up.
 */
static const char *const statements[] = {
	"UPDATE atproto.host SET backoff_until = NULL, failures = 0, backoffs = 0, reset_backoff = true"
	FREE_ROWS("atproto.host", "failures > 0 AND backoff_until > now()"),
	"UPDATE atproto.identity SET next_try = now(), tries = 0"
	FREE_ROWS("atproto.identity", "error IS NOT NULL AND next_try > now()"),
	"UPDATE atproto.identity SET handle_next = 'epoch', handle_tries = 0"
	FREE_ROWS("atproto.identity", "handle_state = 'unreachable' AND handle_next > now()"),
	"UPDATE atproto.identity_request SET next_try = 'epoch'"
	FREE_ROWS("atproto.identity_request", "next_try > now()"),
	"UPDATE atproto.handle_request SET next_try = 'epoch'"
	FREE_ROWS("atproto.handle_request", "next_try > now()"),
	"UPDATE atproto.repo_job j SET next_try = 'epoch', tries = 0,"
	" doubted_at = CASE WHEN u.unknown THEN now() ELSE j.doubted_at END, doubted = CASE WHEN u.unknown THEN '' ELSE j.doubted END"
	" FROM (SELECT o.ctid AS place, EXISTS (SELECT FROM atproto.identity i WHERE i.did OPERATOR(@.=) o.did AND i.error IS NOT NULL AND i.pds IS NULL) AS unknown"
	"  FROM atproto.repo_job o WHERE o.error IS NOT NULL AND o.state = 'queued' AND o.tries > 0 AND o.next_try > now() LIMIT " SOME " FOR UPDATE OF o SKIP LOCKED) u"
	" WHERE j.ctid = u.place",
	"UPDATE atproto.status_request SET next_try = 'epoch'"
	FREE_ROWS("atproto.status_request", "error IS NOT NULL AND answered_at IS NULL AND next_try > now()"),
	"UPDATE atproto.enumeration SET next_try = 'epoch', tries = 0"
	FREE_ROWS("atproto.enumeration", "finished_at IS NULL AND next_try > now()"),
	"UPDATE atproto.zstd_dictionary SET due_at = now()"
	FREE_ROWS("atproto.zstd_dictionary", "error IS NOT NULL AND url IS NOT NULL AND due_at > now()"),
};

/*
 * One transaction for each statement: transactions that lock rows of several of these tables do so
 * in different orders.
 */
static void
make_all_due(void)
{
	for (int i = 0; i < lengthof(statements); i++)
	{
		uint64		n;

		do
		{
			atp_begin("making due what failed under earlier settings");
			n = atp_run(atp_identity_sql(statements[i]), ATP_NO_ARGS);
			atp_wake_fetcher();
			atp_commit();
			CHECK_FOR_INTERRUPTS();
		} while (n >= (uint64) atoi(SOME));
	}
}

static void
take_digest(const uint8_t digest[32])
{
	atp_begin("noting the settings");
	atp_run("INSERT INTO atproto.fetch_settings (digest) VALUES ($1)"
			" ON CONFLICT (one) DO UPDATE SET digest = excluded.digest, since = now() WHERE fetch_settings.digest <> excluded.digest",
			ATP_ARGS(digest_arg(digest)));
	atp_commit();
	memcpy(known, digest, sizeof(known));
}

/* Have the settings changed since the last call?  Looks at the file now and then only. */
static bool
may_have_changed(AtpTime now, uint8_t digest[32])
{
	StringInfoData text = settings_text();
	bool		same = known_text != NULL && strcmp(text.data, known_text) == 0;

	if (same && atp_remaining(now, looked, LOOK_MS) > 0)
	{
		pfree(text.data);
		return false;
	}
	looked = now;
	if (!same)
	{
		if (known_text != NULL)
			pfree(known_text);
		known_text = MemoryContextStrdup(TopMemoryContext, text.data);
	}
	pfree(text.data);
	settings_digest(digest);
	return !same || memcmp(digest, known, sizeof(known)) != 0;
}

static long
step_settings(AtpTime now)
{
	MemoryContext cxt = CurrentMemoryContext;
	uint8_t		digest[32];
	bool		changed;

	if (!may_have_changed(now, digest))
		return atp_remaining(now, looked, LOOK_MS);
	atp_begin("looking at the settings");
	changed = is_changed(digest);
	atp_commit();
	if (changed)
		make_all_due();
	MemoryContextSwitchTo(cxt);
	take_digest(digest);
	return LOOK_MS;
}

const AtpTask atp_settings_task = {.name = "settings", .wanted = settings_wanted, .step = step_settings, .kinds = 0};
