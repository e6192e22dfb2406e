/*
 * made_repo.h
 *		Exports of repositories that do not exist, for measurements.
 */
#ifndef MADE_REPO_H
#define MADE_REPO_H

#include "made.h"

typedef struct MadeRepo MadeRepo;

/* Room for repositories of up to so many records. */
extern MadeRepo *made_repo_new(size_t records_max);

extern void made_repo_begin(MadeRepo *repo);

/* A record with this TID as its key.  Records come in the order of their collections, and of their keys. */
extern void made_repo_add(MadeRepo *repo, MadeCollection collection, uint64_t rkey, uint64_t *state);

/*
 * Write DIR/hN.localhost/DID.car, N being the remainder of account by hosts.  The commit, which is not signed, comes first, and
 * then all other blocks in random order.
 */
extern void made_repo_write(MadeRepo *repo, uint64_t account, const char *did, uint64_t rev, uint64_t hosts, const char *dir);

#endif							/* MADE_REPO_H */
