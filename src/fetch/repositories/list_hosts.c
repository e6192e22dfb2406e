/*
 * list_hosts.c
 *		Rows of hosts' lists, and the check of the entries of such lists.
 *
 * A host gets a row of atproto.enumeration as soon as listHosts names the host.  Strangers choose
 * the names: only the first atproto.fetch_hosts entries of a list count, and net/http_policy.h
 * decides which hosts are asked.
 */
#include "postgres.h"

#include "common/clock.h"
#include "config/extension.h"
#include "config/spi.h"
#include "fetch/repositories/list_hosts.h"
#include "identity/identity.h"
#include "types/types.h"
#include "utils/builtins.h"
#include "utils/guc.h"

static int	fetch_hosts;

void
atp_list_hosts_init(void)
{
	DefineCustomIntVariable("atproto.fetch_hosts",
							"Number of entries of a list of hosts that count.",
							NULL, &fetch_hosts, 10000, 1, 1000000,
							PGC_SIGHUP, 0, NULL, NULL, NULL);
}

int64
atp_list_hosts_room(const AtpListing *listing)
{
	AtpResult	row = atp_query("SELECT seen FROM atproto.enumeration WHERE subscription = $1 AND source = $2",
								ATP_ARGS(atp_text_arg(listing->subscription), atp_text_arg(listing->source)));
	int64		seen = atp_get_int8(atp_result_row(row, 0), "seen");

	atp_result_free(row);
	return Max(fetch_hosts - seen, 0);
}

int64
atp_list_hosts_add(const AtpListing *listing, const List *urls)
{
	Datum	   *sources = palloc(sizeof(Datum) * Max(list_length(urls), 1));
	AtpArg		name = atp_text_arg(listing->subscription);
	AtpArg		named_at = atp_time_arg(listing->started_at);
	AtpArg		named;
	ListCell   *cell;
	int			n = 0;

	foreach(cell, urls)
		sources[n++] = CStringGetTextDatum(psprintf(ATP_LIST_OF_HOST "%s", (const char *) lfirst(cell)));
	named = atp_array_arg(TEXTOID, sources, NULL, n);
	atp_run("UPDATE atproto.enumeration SET named_at = $3 WHERE subscription = $1 AND source = ANY ($2)",
			ATP_ARGS(name, named, named_at));
	/* next_try is now, so that new lists queue behind the lists that wait already */
	return (int64) atp_run("INSERT INTO atproto.enumeration (subscription, source, started_at, next_try, named_at)"
						   " SELECT $1, u.source, $4, $4, $3 FROM (SELECT DISTINCT source FROM unnest($2) u (source)) u ON CONFLICT DO NOTHING",
						   ATP_ARGS(name, named, named_at, atp_time_arg(atp_time_of_day())));
}

/*
 * If the list named no host at all, the server probably failed: the hosts' progress must not be
 * lost.
 */
void
atp_list_hosts_forget(const AtpListing *listing)
{
	atp_run("DELETE FROM atproto.enumeration WHERE ctid = ANY (ARRAY (SELECT ctid FROM atproto.enumeration"
			" WHERE subscription = $1 AND source LIKE '" ATP_LIST_OF_HOST "%' AND named_at IS DISTINCT FROM $2 FOR UPDATE SKIP LOCKED))"
			" AND EXISTS (SELECT FROM atproto.enumeration WHERE subscription = $1 AND source = $3 AND seen > 0)",
			ATP_ARGS(atp_text_arg(listing->subscription), atp_time_arg(listing->started_at), atp_text_arg(listing->source)));
}

/*
 * Which of the page's accounts have a known identity, and whether the identity names this host as
 * server; in the order of DIDs.
 */
static AtpResult
query_servers(const AtpListing *listing, const AtpListed *page)
{
	struct varlena **dids = palloc(sizeof(struct varlena *) * Max(page->n, 1));

	for (int i = 0; i < page->n; i++)
		dids[i] = page->accounts[i].did;
	return atp_query(atp_identity_sql("SELECT did, CASE WHEN pds LIKE 'http://%' THEN pds ELSE 'https://' || pds END = $2 AS here"
									  " FROM atproto.identity WHERE did OPERATOR(@.=) ANY ($1) AND state = 'good' ORDER BY did USING OPERATOR(@.<)"),
					 ATP_ARGS(atp_dids_arg(dids, page->n), atp_text_arg(listing->server)));
}

static struct varlena *
did_of(AtpTuple row)
{
	bool		isnull;

	return PG_DETOAST_DATUM_PACKED(atp_get(row, "did", atp_type("did"), &isnull));
}

void
atp_list_of_host_judge(const AtpListing *listing, AtpListed *page)
{
	AtpResult	servers = query_servers(listing, page);
	uint64		next = 0;
	int			kept = 0;

	for (int i = 0; i < page->n; i++)
	{
		AtpListedAccount account = page->accounts[i];

		if (next == servers.n || atp_compare_dids(account.did, did_of(atp_result_row(servers, next))) != 0)
			account.has_rev = false;
		else if (!atp_get_bool(atp_result_row(servers, next++), "here"))
			continue;
		page->accounts[kept++] = account;
	}
	page->n = kept;
	atp_result_free(servers);
}
