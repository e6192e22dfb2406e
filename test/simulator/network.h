/*
 * network.h
 *		The network that is simulated: accounts, their repositories, and the time.
 */
#ifndef SIM_NETWORK_H
#define SIM_NETWORK_H

#include "core/codec/cbor_write.h"
#include "core/syntax/multikey.h"
#include "core/wire/repos_message.h"
#include "core/syntax/tid.h"
#include "once.h"
#include "options.h"
#include "random.h"
#include "tree.h"

#define DID_LEN			32		/* did:plc: and 24 characters */
#define SECRET_LEN		32
#define COMMIT_MAX		256
#define HANDLE_MAX		64
#define RECENT_POSTS	8192
#define HOSTS			20		/* of accounts */
#define TIME_TEXT		25		/* 2024-01-01T00:00:00.000Z */

/* A record that the stream created. */
typedef struct Record
{
	char	   *path;
	Kind		kind;
	uint64_t	rev;
	uint8_t		digest[DIGEST_LEN];
	char	   *json;			/* NULL without --expect */
	uint8_t    *block;			/* NULL without --exports and --export */
	size_t		block_len;
} Record;

typedef struct Account
{
	char		did[DID_LEN + 1];
	uint32_t	history;		/* number of records that the account had at the start */
	bool		active;
	const char *status;
	char		handle[HANDLE_MAX]; /* the handle in the last #identity event, or "" */
	bool		is_seen;		/* any event of it */
	bool		has_commit;		/* any #commit or #sync */
	uint64_t	rev;
	uint8_t		data[ATP_CID_BLESSED_LEN];
	uint8_t		commit[ATP_CID_BLESSED_LEN];
	AtpCurve	curve;
	unsigned	key;			/* counts its keys */
	uint8_t		secret[SECRET_LEN]; /* of that key */
	unsigned	host;
	uint8_t		commit_block[COMMIT_MAX];	/* the last one, signed */
	size_t		commit_len;
	Tree		tree;
	Record	   *records;
	uint32_t	nrecords;
	uint32_t	cap;
} Account;

/* A record that repositories have from the start; there is no block for it. */
typedef struct Old
{
	Kind		kind;
	Leaf		leaf;
} Old;

/* A post that others can like, repost or answer. */
typedef struct PostRef
{
	uint32_t	account;
	char		rkey[ATP_TID_TEXT + 1];
	uint8_t		digest[DIGEST_LEN];
} PostRef;

#define NOBODY	UINT32_MAX		/* the account of a post that is gone, or never was */

/* One that the stream made, not long ago. */
typedef struct Post
{
	PostRef		ref;
	PostRef		root;			/* the first post of its thread: itself, when it answers nothing */
	uint32_t	likes;			/* only with --social */
} Post;

#define SIZES	16				/* of repositories at the start: equal steps up to --history */

typedef struct Network
{
	const Options *options;
	Random		random;
	uint64_t	start;			/* the time before the first event, in microseconds */
	uint64_t	micros;			/* now */
	int64_t		seq;			/* of the last message */
	Account    *accounts;
	uint32_t	naccounts;
	uint32_t	cap;
	uint32_t	nactive;
	Old		   *old;			/* in the order of time: an account has the first ones */
	Tree		old_tree[SIZES + 1];	/* of the first records; [0] is empty */
	uint8_t		old_root[SIZES + 1][ATP_CID_BLESSED_LEN];
	Post		post[RECENT_POSTS];
	uint64_t	nposts;			/* ever; the last ones are kept */
	Once		once;			/* who has liked, reposted or followed whom or what, with --social */
	uint64_t	nmessages[ATP_REPOS_INFO];	/* by AtpReposKind */
	uint64_t	nops[ATP_DELETE + 1];	/* by AtpAction */
} Network;

extern const char *const collections[RECORD_KINDS];

extern void network_start(Network *net, const Options *o);
extern void network_free(Network *net);

/* A new account without records; its index. */
extern uint32_t network_join(Network *net);

/* One that is active; some are much more so than others. */
extern Account *network_pick(Network *net);

/* A post, preferably a recent one. */
extern PostRef network_post(Network *net);
/* Of those that the stream made, NULL before the first one; with --social some are gone. */
extern Post *network_recent_post(Network *net);
/* Root: the first post of the thread that it answers in, or one of NOBODY. */
extern void network_posted(Network *net, const Account *account, const Record *post, const PostRef *root);
extern void network_unposted(Network *net, const Account *account, const char *path);

/* It signs with its nth key from now on; the first is 0. */
extern void account_set_key(const Network *net, Account *a, unsigned key);

/* The record that repositories have from the start at this path. */
extern void old_record(const char *path, AtpCborWriter *w);

extern Record *account_add(Account *a, Kind kind, const char *path);
extern Record *account_find(Account *a, const char *path);	/* or NULL */
extern void account_forget(Account *a, Record *record); /* its path stays with the caller */
extern void account_clear(Account *a);	/* it is deleted */

/* The time as TIDs, records and messages have it. */
extern uint64_t network_tid(Network *net);
extern void time_text(uint64_t micros, char out[TIME_TEXT]);

#endif							/* SIM_NETWORK_H */
