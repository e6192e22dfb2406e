/*
 * make_likes.c
 *		A capture in which the accounts of a made network go on: make_likes ACCOUNTS RECORDS EVENTS
 *		[FIRST_LIKE] writes frames of subscribeRepos, in each of which an account likes something, to standard output.
 *
 * The commits continue the repositories that made_hosts gives out.  With FIRST_LIKE, the accounts are those of
 * make_archive, which have fewer revisions than this number.  Each frame has all nodes of the account's tree.
 */
#include <stdlib.h>
#include <string.h>

#include "core/repo/car_write.h"
#include "core/syntax/tid.h"
#include "made_account.h"
#include "made_frame.h"

#define MOST_LIKES	255

static void
put_blocks(AtpCborWriter *car, const MadeRepo *repo, size_t record)
{
	atp_car_put_header(car, made_repo_commit_cid(repo));
	for (size_t i = made_repo_blocks(repo); i-- > made_repo_records(repo);)
		atp_cbor_put_raw(car, made_repo_section(repo, i).ptr, made_repo_section(repo, i).len);
	atp_cbor_put_raw(car, made_repo_section(repo, record).ptr, made_repo_section(repo, record).len);
}

static void
write_like(MadeRepo *repo, const MadeNetwork *network, uint64_t account, uint64_t likes, uint64_t seq)
{
	static uint8_t car_buf[1 << 20];
	static uint8_t frame_buf[1 << 21];
	AtpCborWriter car = {.buf = car_buf, .cap = sizeof(car_buf)};
	AtpCborWriter frame = {.buf = frame_buf, .cap = sizeof(frame_buf)};
	uint8_t		root[ATP_CID_BLESSED_LEN];
	char		did[MADE_DID_LEN + 1];
	char		since[ATP_TID_TEXT];
	char		rev[ATP_TID_TEXT];
	size_t		record;

	made_account_build(repo, network, account, likes);
	memcpy(root, made_repo_root(repo).ptr, sizeof(root));
	record = made_account_build(repo, network, account, likes + 1);
	made_account_did(network, account, did);
	atp_tid_format(made_account_rev(network, account, likes), since);
	atp_tid_format(made_account_rev(network, account, likes + 1), rev);
	put_blocks(&car, repo, record);
	made_frame_put(&frame, &(MadeFrame) {.did = did, .leaf = made_repo_record(repo, record), .seq = seq, .rev = rev, .since = since,
				   .commit = made_repo_commit_cid(repo), .prev_data = {root, sizeof(root)}, .car = {car.buf, car.len}});
	if (car.len > car.cap || frame.len > frame.cap)
		made_die("a frame does not fit");
	if (!made_frame_write(&frame, stdout))
		made_die("cannot write");
}

int
main(int argc, char **argv)
{
	MadeNetwork network = {0};
	uint64_t	events = argc == 4 || argc == 5 ? strtoull(argv[3], NULL, 10) : 0;
	uint64_t	state = 1;
	MadeRepo   *repo;
	uint8_t    *likes;

	if (events == 0)
		made_die("usage: make_likes ACCOUNTS RECORDS EVENTS [FIRST_LIKE]");
	network.accounts = strtoull(argv[1], NULL, 10);
	network.records = strtoull(argv[2], NULL, 10);
	network.first_like = argc == 5 ? strtoull(argv[4], NULL, 10) : network.records;
	network.spread = argc == 5;
	made_subjects = network.accounts;
	repo = made_repo_new(network.records + MOST_LIKES);
	likes = made_room(network.accounts);
	memset(likes, 0, network.accounts);
	for (uint64_t seq = 1; seq <= events; seq++)
	{
		uint64_t	account;

		do
			account = made_number(&state) % network.accounts;
		while (likes[account] == MOST_LIKES);
		write_like(repo, &network, account, likes[account]++, seq);
	}
	return 0;
}
