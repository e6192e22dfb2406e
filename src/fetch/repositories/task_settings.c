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
#include "fetch/engine/task.h"
#include "fetch/repositories/make_due.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/memutils.h"

#define LOOK_MS		1000	/* between two looks at the file with the authorities */

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
	return atp_run("SELECT FROM atproto.fetch_settings WHERE digest <> $1", ATP_ARGS(digest_arg(digest))) > 0;
}

static bool
settings_wanted(void)
{
	uint8_t		digest[32];

	settings_digest(digest);
	return is_changed(digest);
}

/*
 * A job whose account is not known waits for a new look-up, as a job that doubts the account's
 * document (W-36): otherwise the job would fail once more before the look-up.
 */
static const AtpWaiting kinds[] = {
	ATP_WAITING("atproto.host", "failures > 0 AND backoff_until > now()",
			"backoff_until = NULL, failures = 0, backoffs = 0, reset_backoff = true"),
	ATP_WAITING("atproto.identity", "error IS NOT NULL AND next_try > now()",
			"next_try = now(), tries = 0"),
	ATP_WAITING("atproto.identity", "handle_state = 'unreachable' AND handle_next > now()",
			"handle_next = 'epoch', handle_tries = 0"),
	ATP_WAITING("atproto.identity_request", "next_try > now()", "next_try = 'epoch'"),
	ATP_WAITING("atproto.handle_request", "next_try > now()", "next_try = 'epoch'"),
	ATP_WAITING("atproto.repo_job", "error IS NOT NULL AND state = 'queued' AND tries > 0 AND next_try > now()",
			"next_try = 'epoch', tries = 0, (doubted_at, doubted) ="
			" (SELECT CASE WHEN unknown THEN now() ELSE t.doubted_at END, CASE WHEN unknown THEN '' ELSE t.doubted END"
			"  FROM (SELECT EXISTS (SELECT FROM atproto.identity i WHERE i.did OPERATOR(@.=) t.did AND i.error IS NOT NULL AND i.pds IS NULL)) u (unknown))"),
	ATP_WAITING("atproto.status_request", "error IS NOT NULL AND answered_at IS NULL AND next_try > now()", "next_try = 'epoch'"),
	ATP_WAITING("atproto.enumeration", "finished_at IS NULL AND next_try > now()", "next_try = 'epoch', tries = 0"),
	ATP_WAITING("atproto.zstd_dictionary", "error IS NOT NULL AND url IS NOT NULL AND due_at > now()", "due_at = now()"),
};

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
		atp_make_due(kinds, lengthof(kinds), "making due what failed under earlier settings");
	MemoryContextSwitchTo(cxt);
	take_digest(digest);
	return LOOK_MS;
}

const AtpTask atp_settings_task = {.name = "settings", .wanted = settings_wanted, .step = step_settings, .kinds = 0};
