/*
 * record_proof.h
 *		Reads a proof that a repository has a record at a path, or has none (O-05): a CAR file with the signed
 *		commit, the nodes on the way to the path, and the record.
 *
 * The file is a stranger's.  Blocks may come in any order, twice, and more than are needed: a whole export is
 * a proof, too.  Of a node that is not on the way nothing is believed, and nothing is read.
 */
#ifndef ATP_RECORD_PROOF_H
#define ATP_RECORD_PROOF_H

#include "core/repo/commit.h"
#include "core/repo/export_walk.h"
#include "core/repo/sig.h"

typedef enum AtpRecordProofAnswer
{
	ATP_PROOF_NONE,				/* the file proves nothing: see why */
	ATP_PROOF_ABSENT,			/* at its revision, the repository has no record at the path */
	ATP_PROOF_THERE
} AtpRecordProofAnswer;

typedef struct AtpRecordProof
{
	AtpRecordProofAnswer answer;
	AtpErr		why;			/* of ATP_PROOF_NONE */
	uint64_t	rev;			/* of ATP_PROOF_ABSENT and ATP_PROOF_THERE */
	AtpBytes	cid;			/* of ATP_PROOF_THERE: binary; lies in the file, as does block */
	AtpBytes	block;
	AtpExportWalk walk;			/* private */
} AtpRecordProof;

/* The account and the record that a proof is about. */
typedef struct AtpRecordProofClaim
{
	AtpSpan		did;
	AtpSpan		path;			/* collection, '/', rkey */
	const uint8_t *key;			/* ATP_MULTIKEY_LEN bytes: of the account */
	AtpSha256Fn sha256;
	void	   *sha_ctx;
	AtpVerifyFn verify;
	void	   *verify_ctx;
} AtpRecordProofClaim;

/*
 * Reads the file in buf.  The index must be empty, with room for the file's blocks that atp_car_can_verify()
 * accepts; signed_room has ATP_PROOF_ROOM bytes.
 *
 * B-53: each block is hashed that can be.  One wrong hash, and the file proves nothing.  The search takes the way that
 * a reader of the tree takes, and checks each node there (V-23): height and order of the keys, and that the
 * keys of a subtree lie between the neighbours of the link.  A missing node is no proof of absence.
 */
#define ATP_PROOF_ROOM	1000000	/* bytes of a commit */

extern void atp_read_record_proof(const uint8_t *buf, size_t len, const AtpRecordProofClaim *claim, AtpCarIndex *index,
						   uint8_t *signed_room, AtpRecordProof *proof);

#endif							/* ATP_RECORD_PROOF_H */
