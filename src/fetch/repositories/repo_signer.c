/*
 * repo_signer.c
 *		Which key of the account has signed the commit of a repository: see repo_signer.h.
 */
#include "postgres.h"

#include "config/transaction.h"
#include "fetch/repositories/repo_signer.h"
#include "identity/former_key.h"

#define NOT_SIGNED		"the commit is not signed by the account's key"
#define NOT_THEN		"the commit is signed by a former key of the account, but its revision is not of the time of this key"
#define NOT_PRESENT		"the commit is signed by a former key of the account, and was not sent by the account's present server"

/* Is this URL the URL of the server pds, which has the form of identity.pds? */
static bool
is_url_of(const char *url, const char *pds)
{
	if (strncmp(pds, "http://", 7) == 0)
		return strcmp(url, pds) == 0;
	return strncmp(url, "https://", 8) == 0 && strcmp(url + 8, pds) == 0;
}

/* As atp_repo_signer(), in a transaction, where the present key has not signed. */
static const char *
find_former(const AtpExport *e, struct varlena *did, const char *server, AtpRepoSigner *signer)
{
	AtpFormerKeys former = atp_former_keys(did);
	const char *why = NOT_SIGNED;

	for (int i = 0; i < former.n; i++)
	{
		const AtpFormerKey *key = &former.keys[i];

		if (!atp_export_is_signed(e, key->key))
			continue;
		why = NOT_THEN;
		if (!atp_former_key_is_of(key, atp_export_head(e)->rev))
			continue;
		if (!is_url_of(server, former.pds))
			return NOT_PRESENT;
		signer->is_former = true;
		memcpy(signer->key, key->key, ATP_MULTIKEY_LEN);
		return NULL;
	}
	return why;
}

const char *
atp_repo_signer(const AtpExport *e, struct varlena *did, const char *server, AtpRepoSigner *signer)
{
	AtpIdentity identity;
	const char *why = NULL;

	signer->is_former = false;
	atp_begin("reading an account's keys");
	atp_identities_read(&did, 1, &identity);
	if (!identity.has_key || !atp_export_is_signed(e, identity.key))
		why = find_former(e, did, server, signer);
	atp_commit();
	return why;
}
