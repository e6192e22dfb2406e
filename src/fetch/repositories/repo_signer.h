/*
 * repo_signer.h
 *		Which key of the account has signed the commit of a fetched repository (V-05 to V-08, M-40).
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
 * NULL: the commit is signed by the account; else the reason against the signature.  Runs a transaction.
 *
 * M-40: a signature by a former key counts if the asked server is the account's present server, by the followed log of a
 * directory.  After a move, the new server sends a commit signed by the former key until the account makes its next commit.
 * server: the URL that was asked, scheme and host.
 */
extern const char *atp_repo_signer(const AtpExport *e, struct varlena *did, const char *server, AtpRepoSigner *signer);

#endif							/* ATP_REPO_SIGNER_H */
