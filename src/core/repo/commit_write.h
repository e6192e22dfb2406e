/*
 * commit_write.h
 *		A writer of a repository's commits.
 */
#ifndef ATP_COMMIT_WRITE_H
#define ATP_COMMIT_WRITE_H

#include "core/codec/cbor_write.h"
#include "core/repo/commit.h"
#include "core/syntax/did.h"

/* Bytes of a commit that atp_commit_put() writes, without prev. */
#define ATP_COMMIT_PLAIN_MAX	(ATP_DID_MAX + 256)

/* Canonical DAG-CBOR; without "sig" when commit->sig.ptr is NULL: what is signed. */
extern void atp_commit_put(AtpCborWriter *w, const AtpCommit *commit);

#endif							/* ATP_COMMIT_WRITE_H */
