/*
 * made_repo.h
 *		Exports of repositories that do not exist, for measurements.
 */
#ifndef MADE_REPO_H
#define MADE_REPO_H

#include "core/repo/mst.h"
#include "made.h"

typedef struct MadeRepo MadeRepo;

/* Room for repositories of up to so many records. */
extern MadeRepo *made_repo_new(size_t records_max);

extern void made_repo_begin(MadeRepo *repo);

/* A record with this TID as its key.  Records come in the order of their collections, and of their keys. */
extern void made_repo_add(MadeRepo *repo, MadeCollection collection, uint64_t rkey, uint64_t *state);

/* Build the tree, and make the commit, which is not signed.  The blocks are then the records as they were added, the nodes, and the commit. */
extern void made_repo_commit(MadeRepo *repo, const char *did, uint64_t rev);

extern size_t made_repo_records(const MadeRepo *repo);
extern size_t made_repo_blocks(const MadeRepo *repo);

/* A block with its length and CID, as a CAR file has it. */
extern AtpBytes made_repo_section(const MadeRepo *repo, size_t block);

/* Path and CID of a record. */
extern AtpMstLeaf made_repo_record(const MadeRepo *repo, size_t record);

extern AtpBytes made_repo_root(const MadeRepo *repo);
extern AtpBytes made_repo_commit_cid(const MadeRepo *repo);

/*
 * Commit, and write DIR/hN.localhost/DID.car, N being the remainder of account by hosts.  The commit comes first, and then all
 * other blocks in random order.
 */
extern void made_repo_write(MadeRepo *repo, uint64_t account, const char *did, uint64_t rev, uint64_t hosts, const char *dir);

#endif							/* MADE_REPO_H */
