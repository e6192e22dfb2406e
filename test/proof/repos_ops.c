/*
 * repos_ops.c
 *		Operations of a #commit: which of an operation's parts must be there, and the parts of its path.
 *
 * proves: atp_repos_check_ops atp_path_check atp_path_split
 * sources: core/repo/path.c core/errors.c
 * short: -DN=6 --unwind 7
 * long: -DN=12 --unwind 13
 * assumes: NSIDs and record keys are checked by functions that only read; an NSID has at least three bytes
 */
#include "core/wire/repos_message.c"
#include "lib/proof.h"

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
	check();
	path();
	return 0;
}
