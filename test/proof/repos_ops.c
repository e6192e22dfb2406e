/*
 * repos_ops.c
 *		Operations of a #commit: one more operation after any number of sorted ones, and their check.
 *
 * proves: atp_repos_add_op atp_repos_check_ops atp_path_split
 * sources: core/repo/path.c core/errors.c
 * replaces: atp_mst_compare:any_compare
 * short: -DOPS=3 -DN=6 --unwind 7 --unwindset memmove.0:4,memmove.1:4
 * long: -DOPS=7 -DN=9 --unwind 10
 * assumes: atp_mst_compare() orders paths (mst_key.c): here by their first byte; NSIDs and record keys are as nsid.c proves
 */
#include "core/wire/repos_message.c"
#include "lib/proof.h"

int
any_compare(AtpBytes a, AtpBytes b)
{
	return (a.ptr[0] > b.ptr[0]) - (a.ptr[0] < b.ptr[0]);
}

int
atp_mst_compare(AtpBytes a, AtpBytes b)
{
	return any_compare(a, b);
}

AtpErr
atp_nsid_check(const char *s, size_t n, size_t *at)
{
	LAW(n == 0 || __CPROVER_r_ok(s, n));
	return n >= 3 && s[1] == '.' && any_bool() ? ATP_OK : ATP_E_NSID_FIRST;
}

AtpSpan
atp_nsid_domain(const char *s, size_t n)
{
	return (AtpSpan) {s, 1};
}

AtpErr
atp_rkey_check(const char *s, size_t n, size_t *at)
{
	LAW(n == 0 || __CPROVER_r_ok(s, n));
	return n > 0 && any_bool() ? ATP_OK : ATP_E_RKEY_CHAR;
}

static void
add(const unsigned n)
{
	static AtpReposMessage msg;
	char		paths[OPS + 1];
	bool		twice = false;
	AtpErr		err;

	msg.nops = n;
	/* n operations that came in the order of their paths: any other order only exchanges their numbers */
	for (unsigned i = 0; i <= n; i++)
	{
		paths[i] = (char) any_byte();
		msg.ops[i].path = (AtpSpan) {&paths[i], 1};
		if (i < n)
			msg.order[i] = (uint8_t) i;
		ASSUME(i == 0 || i >= n || (uint8_t) paths[i - 1] < (uint8_t) paths[i]);
	}
	for (unsigned i = 0; i < n; i++)
		twice = twice || paths[i] == paths[n];
	err = atp_repos_add_op(&msg);
	LAW(err == (twice ? ATP_E_OP_TWICE : ATP_OK));
	LAW(msg.nops == n + !twice);
	for (unsigned i = 0; i <= n; i++)
	{
		LAW(i >= msg.nops || msg.order[i] < msg.nops);
		LAW(i == 0 || i >= msg.nops || (uint8_t) paths[msg.order[i - 1]] < (uint8_t) paths[msg.order[i]]);
	}
	if (n == OPS && msg.nops == OPS + 1 && msg.order[0] == n)
		REACHED("an operation before all others");
}

/* F-07 */
static void
check(void)
{
	static AtpReposMessage msg;
	static const uint8_t cid[1];
	AtpOp	   *op = &msg.ops[0];
	bool		has_cid = any_bool();
	bool		has_prev = any_bool();
	bool		right;

	msg.nops = 1;
	msg.prev_data.ptr = any_bool() ? cid : NULL;
	op->action = (AtpAction) any_size(ATP_DELETE);
	op->cid.ptr = has_cid ? cid : NULL;
	op->prev.ptr = has_prev ? cid : NULL;
	right = op->action == ATP_CREATE ? has_cid && !has_prev :
		has_cid == (op->action == ATP_UPDATE) && (has_prev || msg.prev_data.ptr == NULL);
	LAW((atp_repos_check_ops(&msg) == ATP_OK) == right);
}

static void
path(void)
{
	AtpSpan		collection;
	AtpSpan		rkey;

	ANY_TEXT(s, n, N);
	if (atp_path_split((AtpSpan) {s, n}, &collection, &rkey) != ATP_OK)
		return;
	LAW(collection.ptr == s && rkey.ptr == s + collection.len + 1 && collection.len + 1 + rkey.len == n);
	LAW(s[collection.len] == '/' && rkey.len > 0 && !(s[0] >= 'A' && s[0] <= 'Z'));
	for (size_t i = 0; i < n; i++)
		LAW(i >= collection.len || s[i] != '/');
	if (n == N && collection.len == 3)
		REACHED("a path");
}

int
main(void)
{
	for (unsigned n = 0; n <= OPS; n++)
		add(n);
	check();
	path();
	return 0;
}
