/*
 * commit.h
 *		Parser of a repository's signed commits, rule B-60.
 */
#ifndef ATP_COMMIT_H
#define ATP_COMMIT_H

#include "core/atp.h"

#define ATP_COMMIT_SIG_LEN	64

/* O-02: a larger commit with further members is not kept beside its repository's row. */
#define ATP_COMMIT_KEPT_MAX	4096

typedef struct AtpCommit
{
	AtpSpan		did;
	uint64_t	rev;
	AtpBytes	data;			/* binary CID of the tree's root */
	AtpBytes	prev;			/* binary CID; ptr NULL for null */
	AtpBytes	sig;			/* ATP_COMMIT_SIG_LEN bytes */
	bool		plain;			/* O-02: atp_commit_put() makes the same block, with prev null */
} AtpCommit;

/* Checks the structure only, not the signature.  Accepts only version 3. */
extern AtpErr atp_commit_parse(const uint8_t *block, size_t n, AtpCommit *commit, size_t *at);

#endif							/* ATP_COMMIT_H */
