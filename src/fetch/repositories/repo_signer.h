/*
 * repo_signer.h
 *		Which key of the account has signed the commit of a repository that its server has sent (V-05 to V-08, M-40).
 */
#ifndef ATP_REPO_SIGNER_H
#define ATP_REPO_SIGNER_H

#include "core/syntax/multikey.h"
#include "tables/export/export.h"

typedef struct AtpRepoSigner
{
	bool		is_former;		/* the key is not the account's any more */
	uint8_t		key[ATP_MULTIKEY_LEN];	/* if is_former */
} AtpRepoSigner;

/*
 * Is the commit signed by the account?  NULL: it is; else the reason against it.  Runs a transaction.
 *
 * M-40: a signature by a former key counts if the followed log of a directory names the asked server as the account's present
 * one: then the account's own server says that this commit is the newest, as after a move to that server, until the account
 * makes a commit there.  The server is the URL that was asked, with the scheme.
 */
extern const char *atp_repo_signer(const AtpExport *e, struct varlena *did, const char *server, AtpRepoSigner *signer);

#endif							/* ATP_REPO_SIGNER_H */
