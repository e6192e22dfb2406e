/*
 * test_repos.c
 *		subscribeRepos messages (F-01 to F-13): fields, operations,
 *		sequence numbers, and commits that do not fit their message.
 */
#include "core/wire/commit_check.h"
#include "core/repo/path.h"
#include "core/wire/repos_message.h"
#include "core/wire/repo_status.h"
#include "protocol/cbor.h"
#include "core/repo/commit_write.h"
#include "hex.h"
#include "repo.h"

static AtpReposMessage msg;
static Repo repo;
static Index ix;
static const char *const paths[] = {"com.example.a/1", "com.example.a/2", "com.example.b/1"};

/* --- messages field by field --- */

typedef struct Field
{
	const char *key;
	char		type;			/* i(nteger) s(tring) b(ytes) l(ink) B(oolean) n(ull) o(ps) - */
	int64_t		i;
	const void *p;
	size_t		n;
} Field;

typedef struct Op
{
	const char *action;
	const char *path;
	const uint8_t *cid;
	const uint8_t *prev;
} Op;

static uint8_t cid_a[ATP_CID_BLESSED_LEN];
static uint8_t cid_raw[ATP_CID_BLESSED_LEN];

static void
put_op(AtpCborWriter *w, const Op *op)
{
	atp_cbor_put_map(w, (op->prev != NULL) + (op->path != NULL) + (op->action != NULL) + 1);
	atp_cbor_put_key(w, "cid");
	if (op->cid != NULL)
		atp_cbor_put_link(w, op->cid, ATP_CID_BLESSED_LEN);
	else
		atp_cbor_put_null(w);
	if (op->path != NULL)
	{
		atp_cbor_put_key(w, "path");
		atp_cbor_put_key(w, op->path);
	}
	if (op->prev != NULL)
	{
		atp_cbor_put_key(w, "prev");
		atp_cbor_put_link(w, op->prev, ATP_CID_BLESSED_LEN);
	}
	if (op->action != NULL)
	{
		atp_cbor_put_key(w, "action");
		atp_cbor_put_key(w, op->action);
	}
}

static void
put_field(AtpCborWriter *w, const Field *f)
{
	atp_cbor_put_key(w, f->key);
	switch (f->type)
	{
		case 'i':
			atp_cbor_put_int(w, f->i);
			break;
		case 's':
			atp_cbor_put_text(w, f->p, f->n > 0 ? f->n : strlen(f->p));
			break;
		case 'b':
			atp_cbor_put_bytes(w, f->p, f->n);
			break;
		case 'l':
			atp_cbor_put_link(w, f->p, ATP_CID_BLESSED_LEN);
			break;
		case 'B':
			atp_cbor_put_bool(w, f->i != 0);
			break;
		case 'o':
			atp_cbor_put_array(w, f->n);
			for (size_t i = 0; i < f->n; i++)
				put_op(w, (const Op *) f->p + i);
			break;
		default:
			atp_cbor_put_null(w);
			break;
	}
}

/* Keys by length, then bytes. */
static int
compare_fields(const void *a, const void *b)
{
	const char *x = ((const Field *) a)->key;
	const char *y = ((const Field *) b)->key;

	return strlen(x) != strlen(y) ? (strlen(x) > strlen(y)) - (strlen(x) < strlen(y)) : strcmp(x, y);
}

/*
 * Parses a valid message of type t with one field replaced or added (type '-': removed).
 */
static AtpErr
parse(const char *t, Field change, size_t *at)
{
	static const uint8_t blocks[] = {0};
	static uint8_t buf[64 * 1024 + 2 * ATP_BLOCKS_MAX];
	Field		commit[] = {
		{"seq", 'i', 7, NULL, 0}, {"rev", 's', 0, "3jt5tsfbx2s2a", 0},
		{"repo", 's', 0, REPO_DID, 0}, {"time", 's', 0, "2024-01-01T00:00:00.000Z", 0},
		{"since", 's', 0, "3jt5tsfbx2s22", 0}, {"commit", 'l', 0, cid_a, 0},
		{"blocks", 'b', 0, blocks, 1}, {"ops", 'o', 0, NULL, 0},
		{"prevData", 'l', 0, cid_a, 0}, {"tooBig", 'B', 1, NULL, 0}
	};
	Field		sync[] = {
		{"seq", 'i', 7, NULL, 0}, {"rev", 's', 0, "3jt5tsfbx2s2a", 0},
		{"did", 's', 0, REPO_DID, 0}, {"time", 's', 0, "2024-01-01T00:00:00.000Z", 0},
		{"blocks", 'b', 0, blocks, 1}
	};
	Field		identity[] = {
		{"seq", 'i', 7, NULL, 0}, {"did", 's', 0, REPO_DID, 0},
		{"time", 's', 0, "2024-01-01T00:00:00.000Z", 0}, {"handle", 's', 0, "a.example.com", 0}
	};
	Field		account[] = {
		{"seq", 'i', 7, NULL, 0}, {"did", 's', 0, REPO_DID, 0},
		{"time", 's', 0, "2024-01-01T00:00:00.000Z", 0}, {"active", 'B', 0, NULL, 0},
		{"status", 's', 0, "takendown", 0}
	};
	Field		info[] = {{"name", 's', 0, "OutdatedCursor", 0}, {"message", 's', 0, "x", 0}};
	Field		unknown[] = {{"seq", 'i', 7, NULL, 0}, {"did", 's', 0, REPO_DID, 0}};
	Field		fields[16];
	size_t		n = 0;
	AtpCborWriter w = {.buf = buf, .cap = sizeof(buf)};
	AtpFrame	frame = {.kind = ATP_FRAME_MESSAGE, .t = {t, strlen(t)}, .payload_at = 1000};
	AtpErr		err;
	uint8_t    *exact;

#define OF(name) (memcpy(fields, name, sizeof(name)), n = sizeof(name) / sizeof(name[0]))
	if (strcmp(t, "#commit") == 0)
		OF(commit);
	else if (strcmp(t, "#sync") == 0)
		OF(sync);
	else if (strcmp(t, "#identity") == 0)
		OF(identity);
	else if (strcmp(t, "#account") == 0)
		OF(account);
	else if (strcmp(t, "#info") == 0)
		OF(info);
	else
		OF(unknown);
#undef OF
	for (size_t i = 0; i < n && change.key != NULL; i++)
	{
		if (strcmp(fields[i].key, change.key) == 0)
			fields[i] = fields[--n];
	}
	if (change.key != NULL && change.type != '-')
		fields[n++] = change;
	qsort(fields, n, sizeof(fields[0]), compare_fields);
	atp_cbor_put_map(&w, n);
	for (size_t i = 0; i < n; i++)
		put_field(&w, &fields[i]);
	if (w.len > w.cap)
		exit(2);
	exact = copy_of(buf, w.len);
	frame.payload = (AtpBytes) {exact, w.len};
	*at = 0;
	err = atp_repos_parse(&frame, &msg, at);
	ok(err == ATP_OK || (*at >= 1000 && *at <= 1000 + w.len), "the fault lies in the payload");
	free(exact);				/* msg points into freed memory: afterwards only its numbers are valid */
	return err;
}

static void
check(const char *t, Field change, AtpErr expected)
{
	size_t		at;
	AtpErr		err = parse(t, change, &at);

	ok(err == expected, "%s with %s %c: %s", t, change.key ? change.key : "nothing",
	   change.type ? change.type : '-', atp_err_text(err));
}

#define NOTHING(k)		((Field) {k, '-', 0, NULL, 0})
#define NUL(k)			((Field) {k, 'n', 0, NULL, 0})
#define NUMBER(k, v)	((Field) {k, 'i', v, NULL, 0})
#define TEXT(k, v)		((Field) {k, 's', 0, v, 0})
#define LINK(k, v)		((Field) {k, 'l', 0, v, 0})
#define OPS(list)		((Field) {"ops", 'o', 0, list, sizeof(list) / sizeof(list[0])})

static void
fields(void)
{
	static const char *const required[][8] = {
		{"#commit", "rev", "repo", "time", "commit", "blocks", "ops"},
		{"#sync", "rev", "did", "time", "blocks"},
		{"#identity", "did", "time"},
		{"#account", "did", "time", "active"},
		{"#info", "name"},
	};
	static const char *const optional[][4] = {
		{"#commit", "since", "prevData", "tooBig"}, {"#identity", "handle"}, {"#account", "status"},
		{"#info", "message"}
	};
	static const uint8_t *const big = repo.car; /* any bytes: not read */
	char		status[ATP_STATUS_MAX + 1];

	for (size_t i = 0; i < sizeof(required) / sizeof(required[0]); i++)
	{
		const char *t = required[i][0];

		check(t, (Field) {0}, ATP_OK);
		ok(msg.seq == (strcmp(t, "#info") == 0 ? 0 : 7), "its seq");
		check(t, (Field) {"anything", 'i', 1, NULL, 0}, ATP_OK);
		check(t, TEXT("$type", "x"), ATP_OK);
		for (size_t k = 1; required[i][k] != NULL; k++)
		{
			check(t, NOTHING(required[i][k]), ATP_E_MSG_FIELD);
			check(t, NUL(required[i][k]), ATP_E_MSG_TYPE);
			check(t, NUMBER(required[i][k], 1), ATP_E_MSG_TYPE);
			ok(strcmp(t, "#info") == 0 || msg.seq == 7, "E-50: seq is there all the same");
		}
		if (strcmp(t, "#info") == 0)
			continue;
		check(t, NOTHING("seq"), ATP_E_SEQ_MISSING);
		check(t, NUL("seq"), ATP_E_SEQ_MISSING);
		check(t, TEXT("seq", "7"), ATP_E_SEQ_MISSING);
		check(t, NUMBER("seq", 0), ATP_E_SEQ_RANGE);
		check(t, NUMBER("seq", -1), ATP_E_SEQ_RANGE);
		check(t, NUMBER("seq", ATP_SEQ_LIMIT), ATP_E_SEQ_RANGE);
		check(t, NUMBER("seq", INT64_MAX), ATP_E_SEQ_RANGE);
		check(t, NUMBER("seq", ATP_SEQ_LIMIT - 1), ATP_OK);
		ok(msg.seq == ATP_SEQ_LIMIT - 1, "E-40: the largest seq");
	}
	for (size_t i = 0; i < sizeof(optional) / sizeof(optional[0]); i++)
	{
		for (size_t k = 1; k < 4 && optional[i][k] != NULL; k++)
		{
			check(optional[i][0], NOTHING(optional[i][k]), ATP_OK);
			check(optional[i][0], NUL(optional[i][k]), ATP_OK);
			check(optional[i][0], NUMBER(optional[i][k], 1),
				  strcmp(optional[i][k], "tooBig") == 0 ? ATP_OK : ATP_E_MSG_TYPE);
		}
	}
	check("#commit", TEXT("repo", "did:plc"), ATP_E_MSG_DID);
	check("#commit", TEXT("rev", "x"), ATP_E_MSG_REV);
	check("#commit", TEXT("since", "x"), ATP_E_MSG_REV);
	check("#commit", LINK("commit", cid_raw), ATP_E_MSG_LINK);
	check("#commit", LINK("prevData", cid_raw), ATP_E_MSG_LINK);
	check("#commit", (Field) {"time", 's', 0, "a\0b", 3}, ATP_E_MSG_NUL);
	check("#account", (Field) {"status", 's', 0, "a\0b", 3}, ATP_E_MSG_NUL);
	check("#identity", TEXT("handle", "handle.invalid"), ATP_OK);
	check("#identity", TEXT("handle", "not a handle"), ATP_E_MSG_HANDLE);
	check("#account", (Field) {"active", 'B', 1, NULL, 0}, ATP_OK);
	ok(msg.active, "F-15: active");
	check("#account", TEXT("status", "something new"), ATP_OK); /* D26 */
	memset(status, 'x', sizeof(status));
	check("#account", (Field) {"status", 's', 0, status, ATP_STATUS_MAX}, ATP_OK);
	ok(msg.status.len == ATP_STATUS_MAX, "D26: a status as long as may be");
	check("#account", (Field) {"status", 's', 0, status, sizeof(status)}, ATP_OK);
	ok(msg.status.ptr == NULL, "D26: a longer status counts as absent");
	check("#sync", (Field) {"blocks", 'b', 0, big, 10000}, ATP_OK);
	check("#sync", (Field) {"blocks", 'b', 0, big, 10001}, ATP_E_MSG_BLOCKS);
	check("#tombstone", (Field) {0}, ATP_OK);
	ok(msg.kind == ATP_REPOS_UNKNOWN && msg.seq == 7, "E-22: an unknown message, its seq");
	check("#tombstone", TEXT("seq", "x"), ATP_OK);
	ok(msg.seq == 0, "E-22: a seq that is none");
	check("#tombstone", NUMBER("seq", ATP_SEQ_LIMIT), ATP_OK);
	ok(msg.seq == 0, "E-22: a seq that is out of range");
	check("com.atproto.sync.subscribeRepos#commit", (Field) {0}, ATP_OK);
	ok(msg.kind == ATP_REPOS_UNKNOWN, "E-25: the long form is unknown");
}

static void
blocks_limit(void)
{
	uint8_t    *big = calloc(ATP_BLOCKS_MAX + 1, 1);

	check("#commit", (Field) {"blocks", 'b', 0, big, ATP_BLOCKS_MAX}, ATP_OK);
	check("#commit", (Field) {"blocks", 'b', 0, big, ATP_BLOCKS_MAX + 1}, ATP_E_MSG_BLOCKS);
	free(big);
}

static void
op(const char *action, const char *path, const uint8_t *cid, const uint8_t *prev, AtpErr expected)
{
	const Op	ops[] = {{action, path, cid, prev}};

	check("#commit", OPS(ops), expected);
}

static void
operations(void)
{
	static Op	many[ATP_OPS_MAX + 1];
	static char names[ATP_OPS_MAX + 1][32];
	const Op	twice[] = {
		{"create", "com.example.a/1", cid_a, NULL}, {"create", "com.example.a/2", cid_a, NULL},
		{"delete", "com.example.a/1", NULL, cid_a}
	};
	const Op	two[] = {
		{"create", "com.example.a/1", cid_a, NULL}, {"delete", "com.example.a/2", NULL, cid_a}
	};

	op("create", "com.example.a/1", cid_a, NULL, ATP_OK);
	op("create", "com.example.a/1", cid_raw, NULL, ATP_OK); /* B-42 */
	op("create", "com.example.a/1", NULL, NULL, ATP_E_OP_CID);
	op("create", "com.example.a/1", cid_a, cid_a, ATP_E_OP_CID);
	op("update", "com.example.a/1", cid_a, cid_a, ATP_OK);
	op("update", "com.example.a/1", cid_a, NULL, ATP_E_OP_CID);
	op("update", "com.example.a/1", NULL, cid_a, ATP_E_OP_CID);
	op("delete", "com.example.a/1", NULL, cid_a, ATP_OK);
	op("delete", "com.example.a/1", NULL, NULL, ATP_E_OP_CID);
	op("delete", "com.example.a/1", cid_a, cid_a, ATP_E_OP_CID);
	op("destroy", "com.example.a/1", NULL, NULL, ATP_E_OP_ACTION);
	op(NULL, "com.example.a/1", cid_a, NULL, ATP_E_OP_FIELD);
	op("create", NULL, cid_a, NULL, ATP_E_OP_FIELD);
	op("create", "com.example.a/did:plc:x::y", cid_a, NULL, ATP_OK);	/* D23 */
	op("create", "com.example.a", cid_a, NULL, ATP_E_PATH);
	op("create", "/com.example.a/1", cid_a, NULL, ATP_E_PATH);
	op("create", "com.example.a/1/2", cid_a, NULL, ATP_E_PATH);
	op("create", "com.example.a/", cid_a, NULL, ATP_E_PATH);
	op("create", "com.example.a/..", cid_a, NULL, ATP_E_PATH);
	op("create", "example/1", cid_a, NULL, ATP_E_PATH);
	op("create", "com.Example.a/1", cid_a, NULL, ATP_E_PATH);
	op("create", "com.example.aB/1", cid_a, NULL, ATP_OK);
	check("#commit", OPS(two), ATP_OK);
	ok(msg.nops == 2, "both operations");
	check("#commit", OPS(twice), ATP_E_OP_TWICE);
	ok(msg.seq == 7, "E-50: seq after faulty operations, which stand before it");
	for (size_t i = 0; i <= ATP_OPS_MAX; i++)
	{
		sprintf(names[i], "com.example.a/%zu", i);
		many[i] = (Op) {"create", names[i], cid_a, NULL};
	}
	check("#commit", (Field) {"ops", 'o', 0, many, ATP_OPS_MAX}, ATP_OK);
	ok(msg.nops == ATP_OPS_MAX, "F-01: 200 operations");
	check("#commit", (Field) {"ops", 'o', 0, many, ATP_OPS_MAX + 1}, ATP_E_MSG_OPS);
}

/* F-09: before prevData, update and delete had no prev. */
static void
old_protocol(void)
{
	static uint8_t buf[4096];
	AtpCborWriter w = {.buf = buf, .cap = sizeof(buf)};
	AtpFrame	frame = {.kind = ATP_FRAME_MESSAGE, .t = {"#commit", 7}};
	const Op	ops[] = {
		{"update", "com.example.a/1", cid_a, NULL}, {"delete", "com.example.a/2", NULL, NULL}
	};
	const Field fields[] = {
		OPS(ops), TEXT("rev", "3jt5tsfbx2s2a"), NUMBER("seq", 7), LINK("prev", cid_a),
		TEXT("repo", REPO_DID), TEXT("time", "x"), NUL("since"), {"blocks", 'b', 0, "", 1},
		LINK("commit", cid_a), {"rebase", 'B', 0, NULL, 0}, {"tooBig", 'B', 0, NULL, 0}
	};
	size_t		at;

	atp_cbor_put_map(&w, sizeof(fields) / sizeof(fields[0]));
	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
		put_field(&w, &fields[i]);
	frame.payload = (AtpBytes) {buf, w.len};
	ok(atp_repos_parse(&frame, &msg, &at) == ATP_OK && msg.nops == 2 && !msg.has_since &&
	   msg.prev_data.ptr == NULL, "F-09, D25: an event of the old protocol");
	ok(atp_span_is(msg.did, REPO_DID) && atp_span_is(msg.ops[0].collection, "com.example.a") &&
	   atp_span_is(msg.ops[1].rkey, "2"), "its parts");
}

/* --- commits --- */

static AtpErr
check_commit(AtpReposKind kind)
{
	size_t		at = 0;
	AtpErr		err;

	msg.kind = kind;
	index_clear(&ix);
	err = atp_commit_check(&msg, &ix.index, sha256, NULL, &at);
	ok(at <= msg.blocks.len, "the fault lies in the blocks");
	return err;
}

/* A message that fits the repository. */
static void
fit(void)
{
	static uint8_t frame_buf[REPO_ROOM];
	AtpFrame	frame;
	size_t		len = repo_frame(&repo, paths[0], 1, frame_buf, sizeof(frame_buf));
	size_t		at;

	if (atp_frame_parse(frame_buf, len, &frame, &at) != ATP_OK ||
		atp_repos_parse(&frame, &msg, &at) != ATP_OK)
		exit(2);
}

static void
commits(void)
{
	static Repo other;
	static uint8_t with_codec[sizeof(repo.car) + 64];
	static const char *const other_paths[] = {"com.example.a/1"};
	static const uint8_t no_roots[] = "\x11\xa2\x65roots\x80\x67version\x01";

	repo_make(&repo, paths, 3);
	repo_make(&other, other_paths, 1);
	fit();
	ok(check_commit(ATP_REPOS_COMMIT) == ATP_OK && msg.ops[0].block != NULL, "F-02: a commit");
	fit();
	msg.nops = 0;
	ok(check_commit(ATP_REPOS_COMMIT) == ATP_OK, "F-13: without operations");
	msg.commit = (AtpBytes) {NULL, 0};
	ok(check_commit(ATP_REPOS_SYNC) == ATP_OK && msg.commit.len == ATP_CID_BLESSED_LEN &&
	   msg.data.len == ATP_CID_BLESSED_LEN, "F-02: a #sync, which gets its commit from the blocks");
	msg.rev++;
	ok(check_commit(ATP_REPOS_SYNC) == ATP_E_COMMIT_REV_DIFFERS, "F-02: a #sync of another rev");
	msg.rev--;
	msg.did.ptr = "did:plc:ewvi7nxzyoun6zhxrhs64oiy";
	ok(check_commit(ATP_REPOS_SYNC) == ATP_E_COMMIT_DID_DIFFERS, "F-02: a #sync of another account");
	fit();
	msg.commit = cid_span(cid_a);
	ok(check_commit(ATP_REPOS_COMMIT) == ATP_E_COMMIT_ROOT, "F-02: another root");
	fit();
	msg.did.len--;
	ok(check_commit(ATP_REPOS_COMMIT) == ATP_E_COMMIT_DID_DIFFERS, "F-02: a shorter DID");
	fit();
	msg.did.ptr = "did:plc:ewvi7nxzyoun6zhxrhs64oiy";
	ok(check_commit(ATP_REPOS_COMMIT) == ATP_E_COMMIT_DID_DIFFERS, "F-02: another DID");
	fit();
	msg.rev++;
	ok(check_commit(ATP_REPOS_COMMIT) == ATP_E_COMMIT_REV_DIFFERS, "F-02: a later rev");
	fit();
	msg.rev--;
	ok(check_commit(ATP_REPOS_COMMIT) == ATP_E_COMMIT_REV_DIFFERS, "F-02: an earlier rev");
	repo.car[repo.len - 1] ^= 1;
	fit();
	ok(check_commit(ATP_REPOS_COMMIT) == ATP_E_CAR_HASH, "B-51: a block that is not what its CID says");
	repo.car[repo.len - 1] ^= 1;
	fit();
	msg.blocks = (AtpBytes) {with_codec, repo.len + 1 + ATP_CID_BLESSED_LEN};
	memcpy(with_codec, repo.car, repo.len);
	with_codec[repo.len] = ATP_CID_BLESSED_LEN;
	block_cid(NULL, 0, with_codec + repo.len + 1);
	ok(check_commit(ATP_REPOS_COMMIT) == ATP_OK, "B-40: with another block, of no bytes");
	with_codec[repo.len + 2] = 0x70;
	fit();
	msg.blocks = (AtpBytes) {with_codec, repo.len + 1 + ATP_CID_BLESSED_LEN};
	ok(check_commit(ATP_REPOS_COMMIT) == ATP_E_CID_NOT_BLESSED, "B-40: under a codec that the protocol does not have");
	fit();
	msg.ops[0].cid = cid_span(cid_a);
	ok(check_commit(ATP_REPOS_COMMIT) == ATP_E_MST_VALUE, "F-07: a record that the tree has not");
	fit();
	msg.ops[0].path = (AtpSpan) {"com.example.a/9", 15};
	ok(check_commit(ATP_REPOS_COMMIT) == ATP_E_MST_VALUE, "F-07: a path that the tree has not");
	msg.ops[0].cid = (AtpBytes) {NULL, 0};
	msg.ops[0].action = ATP_DELETE;
	ok(check_commit(ATP_REPOS_COMMIT) == ATP_OK && msg.ops[0].block == NULL,
	   "F-07: a delete of what the tree has not");
	msg.ops[0].path = (AtpSpan) {paths[1], strlen(paths[1])};
	ok(check_commit(ATP_REPOS_COMMIT) == ATP_E_MST_VALUE, "F-07: a delete of what the tree still has");
	fit();
	msg.blocks = (AtpBytes) {other.car, other.len};
	ok(check_commit(ATP_REPOS_COMMIT) == ATP_E_COMMIT_ROOT, "F-02: another repository's blocks");
	fit();
	msg.blocks.len = 0;
	ok(check_commit(ATP_REPOS_COMMIT) == ATP_E_VARINT_TRUNCATED, "B-50: no blocks");
	msg.blocks = (AtpBytes) {no_roots, sizeof(no_roots) - 1};
	ok(check_commit(ATP_REPOS_SYNC) == ATP_E_CAR_NO_ROOT, "B-51: a #sync without a root");
}

/* A CAR file whose only block is its root. */
static void
one_block(const char *name, const AtpCborWriter *block, AtpErr expected)
{
	static uint8_t car[8192];
	AtpCborWriter w = {.buf = car, .cap = sizeof(car)};
	uint8_t		cid[ATP_CID_BLESSED_LEN];
	AtpErr		err;

	block_cid(block->buf, block->len, cid);
	atp_car_put_header(&w, cid_span(cid));
	repo_block(&w, cid, block->buf, block->len);
	msg.blocks = (AtpBytes) {car, w.len};
	msg.nops = 0;
	err = check_commit(ATP_REPOS_SYNC);
	ok(err == expected, "B-60: %s: %s", name, atp_err_text(err));
}

static void
commit_objects(void)
{
	uint8_t		buf[4096];
	AtpCborWriter w = {.buf = buf, .cap = sizeof(buf)};
	uint8_t		sig[ATP_COMMIT_SIG_LEN] = {1};
	AtpCommit	commit = {
		.did = {REPO_DID, strlen(REPO_DID)}, .rev = REPO_REV, .data = cid_span(cid_a),
		.prev = cid_span(cid_a), .sig = {sig, sizeof(sig)}
	};
	AtpCommit	back;
	uint8_t    *large;
	size_t		at;

	fit();
	atp_commit_put(&w, &commit);
	one_block("a commit", &w, ATP_OK);
	ok(atp_commit_parse(buf, w.len, &back, &at) == ATP_OK && back.rev == REPO_REV &&
	   back.prev.len == ATP_CID_BLESSED_LEN && back.sig.ptr[0] == 1, "its parts");
	ok(atp_commit_parse(buf, w.len - 1, &back, &at) != ATP_OK, "cut short");

#define BROKEN(name, change, expected) \
	do { \
		AtpCommit	saved = commit; \
		w.len = 0; \
		change; \
		atp_commit_put(&w, &commit); \
		commit = saved; \
		one_block(name, &w, expected); \
	} while (0)
	BROKEN("without prev", commit.prev.ptr = NULL, ATP_OK);
	BROKEN("without signature", commit.sig.ptr = NULL, ATP_E_COMMIT_MAP);
	BROKEN("a short signature", commit.sig.len = 63, ATP_E_COMMIT_SIG);
	BROKEN("not a DID", commit.did.len = 7, ATP_E_COMMIT_DID);
	BROKEN("data is raw", commit.data = cid_span(cid_raw), ATP_E_COMMIT_LINK);
	BROKEN("prev is raw", commit.prev = cid_span(cid_raw), ATP_E_COMMIT_LINK);

	/* O-02: without prev, a commit has the layout that is read in one pass */
	commit.prev.ptr = NULL;
	BROKEN("plain", (void) 0, ATP_OK);
	BROKEN("plain, a short signature", commit.sig.len = 63, ATP_E_COMMIT_SIG);
	BROKEN("plain, not a DID", commit.did.len = 7, ATP_E_COMMIT_DID);
	BROKEN("plain, data is raw", commit.data = cid_span(cid_raw), ATP_E_COMMIT_LINK);
#undef BROKEN
	w.len = 0;
	atp_commit_put(&w, &commit);
	/* the map's head, a name and a head for each of did and rev, the DID: then the TID */
	buf[1 + 4 + 2 + commit.did.len + 4 + 1] = '1';
	one_block("plain, not a TID", &w, ATP_E_COMMIT_REV);
	w.len = 0;
	atp_commit_put(&w, &commit);
	buf[w.len - 1] = 2;
	one_block("plain, version 2", &w, ATP_E_COMMIT_VERSION);
	w.len = 0;
	atp_commit_put(&w, &commit);
	atp_cbor_put_null(&w);
	one_block("plain, another value behind it", &w, ATP_E_CBOR_TRAILING);
	commit.prev = cid_span(cid_a);
	w.len = 0;
	atp_commit_put(&w, &commit);
	buf[w.len - 1] = 2;
	one_block("version 2", &w, ATP_E_COMMIT_VERSION);
	w.len = 0;
	atp_commit_put(&w, &commit);
	atp_cbor_put_null(&w);
	one_block("another value behind it", &w, ATP_E_CBOR_TRAILING);
	w.len = 0;
	atp_cbor_put_map(&w, 5);
	atp_cbor_put_key(&w, "did");
	atp_cbor_put_key(&w, REPO_DID);
	atp_cbor_put_key(&w, "rev");
	atp_cbor_put_key(&w, "3jt5tsfbx2s2a");
	atp_cbor_put_key(&w, "sig");
	atp_cbor_put_bytes(&w, sig, sizeof(sig));
	atp_cbor_put_key(&w, "data");
	atp_cbor_put_link(&w, cid_a, sizeof(cid_a));
	atp_cbor_put_key(&w, "version");
	atp_cbor_put_uint(&w, 3);
	one_block("no prev at all", &w, ATP_E_COMMIT_MAP);
	w.len = 0;
	atp_cbor_put_null(&w);
	one_block("null", &w, ATP_E_COMMIT_MAP);
	w.len = 0;
	atp_cbor_put_map(&w, 0);
	one_block("an empty map", &w, ATP_E_COMMIT_MAP);
	w.len = 0;
	one_block("nothing", &w, ATP_E_CBOR_TRUNCATED);
	large = calloc(1000001, 1);
	ok(atp_commit_parse(large, 1000001, &back, &at) == ATP_E_COMMIT_SIZE, "B-60: more than 1,000,000 bytes");
	free(large);
}

int
main(void)
{
	block_cid((const uint8_t *) "a", 1, cid_a);
	block_cid((const uint8_t *) "a", 1, cid_raw);
	cid_raw[1] = ATP_CID_CODEC_RAW;
	fields();
	blocks_limit();
	operations();
	old_protocol();
	commits();
	commit_objects();
	return done_testing();
}
