/*
 * message.c
 *		Messages: what all have, #identity and #account.
 */
#include "message.h"

#include "social.h"

#include <stdio.h>

static const char *const types[ATP_REPOS_INFO] = {
	[ATP_REPOS_COMMIT] = "#commit",
	[ATP_REPOS_SYNC] = "#sync",
	[ATP_REPOS_IDENTITY] = "#identity",
	[ATP_REPOS_ACCOUNT] = "#account"
};

void
message_begin(Network *net, AtpCborWriter *w, AtpReposKind kind, unsigned fields)
{
	atp_cbor_put_map(w, 2);
	atp_cbor_put_key(w, "t");
	atp_cbor_put_key(w, types[kind]);
	atp_cbor_put_key(w, "op");
	atp_cbor_put_uint(w, 1);
	atp_cbor_put_map(w, fields);
	net->nmessages[kind]++;
}

void
message_put_seq(Network *net, AtpCborWriter *w)
{
	atp_cbor_put_key(w, "seq");
	atp_cbor_put_uint(w, net->options->after + (uint64_t) ++net->seq);
}

void
message_put_time(const Network *net, AtpCborWriter *w)
{
	char		now[TIME_TEXT];

	time_text(net->micros, now);
	atp_cbor_put_key(w, "time");
	atp_cbor_put_key(w, now);
}

static void
begin(Network *net, Account *account, AtpCborWriter *w, AtpReposKind kind, unsigned fields)
{
	account->is_seen = true;
	message_begin(net, w, kind, fields);
	atp_cbor_put_key(w, "did");
	atp_cbor_put_key(w, account->did);
	message_put_seq(net, w);
	message_put_time(net, w);
}

/* A new handle, or only the news that something about the identity has changed; with --social always the first one. */
void
identity_write(Network *net, Account *account, AtpCborWriter *w)
{
	bool		is_new = account->handle[0] == '\0' || net->options->social || random_below(&net->random, 2);

	begin(net, account, w, ATP_REPOS_IDENTITY, is_new ? 4 : 3);
	if (!is_new)
		return;
	if (net->options->social)
		social_handle(net, account, account->handle);
	else
		snprintf(account->handle, sizeof account->handle, "user-%lld.example.com", (long long) net->seq);
	atp_cbor_put_key(w, "handle");
	atp_cbor_put_key(w, account->handle);
}

/* The state that the account has now. */
void
account_write(Network *net, Account *account, AtpCborWriter *w)
{
	begin(net, account, w, ATP_REPOS_ACCOUNT, account->status == NULL ? 4 : 5);
	atp_cbor_put_key(w, "active");
	atp_cbor_put_bool(w, account->active);
	if (account->status != NULL)
	{
		atp_cbor_put_key(w, "status");
		atp_cbor_put_key(w, account->status);
	}
}
