/*
 * repo_status.c
 *		A server's answers about one repository: see repo_status.h.
 */
#include "core/syntax/chars.h"
#include "core/syntax/did.h"
#include "core/wire/repo_status.h"
#include "core/syntax/tid.h"

void
atp_status_text(const AtpJsonItem *item, AtpStatusText *out)
{
	if (item->kind != ATP_JSON_TEXT || !atp_json_text(item, out->text, sizeof(out->text), &out->len))
		out->len = 0;
	for (size_t i = 0; i < out->len; i++)
	{
		if (out->text[i] <= ' ' || out->text[i] > '~')
			out->len = 0;
	}
}

bool
atp_status_rev(const AtpJsonItem *item, uint64_t *rev)
{
	char		text[ATP_TID_TEXT];
	size_t		n;
	size_t		at;

	return item->kind == ATP_JSON_TEXT && atp_json_text(item, text, sizeof(text), &n) &&
		atp_tid_parse(text, n, rev, &at) == ATP_OK;
}

/* Reads the members with these names.  The text must be exactly a JSON object. */
static AtpErr
read_object(const char *s, size_t n, const char *const *names, unsigned nnames, AtpJsonItem *values, size_t *at)
{
	AtpJsonReader r;
	AtpJsonItem item;
	bool		repeated;
	AtpErr		err;

	*at = 0;
	if (n > ATP_ANSWER_MAX)
		return atp_fail(ATP_E_STATUS_SIZE, ATP_ANSWER_MAX, at);
	atp_json_init(&r, s, n, ATP_JSON_DEPTH_DEFAULT);
	if ((err = atp_json_next(&r, &item, at)) != ATP_OK)
		return err;
	if (item.kind != ATP_JSON_OBJECT)
		return atp_fail(ATP_E_STATUS_MEMBER, 0, at);
	if ((err = atp_json_members(&r, names, nnames, values, &repeated, at)) != ATP_OK)
		return err;
	if ((err = atp_json_next(&r, &item, at)) != ATP_E_JSON_END)
		return err;
	return repeated ? atp_fail(ATP_E_STATUS_MEMBER, 0, at) : ATP_OK;
}

AtpErr
atp_repo_status_parse(const char *s, size_t n, AtpSpan did, AtpRepoStatus *status, size_t *at)
{
	static const char *const names[] = {"did", "active", "status", "rev"};
	AtpJsonItem value[4];
	char		text[ATP_DID_MAX];
	size_t		len;
	AtpErr		err = read_object(s, n, names, 4, value, at);

	if (err != ATP_OK)
		return err;
	*at = 0;
	if (value[0].kind != ATP_JSON_TEXT || !atp_json_text(&value[0], text, sizeof(text), &len) ||
		len != did.len || memcmp(text, did.ptr, len) != 0)
		return ATP_E_STATUS_DID;
	if (value[1].kind != ATP_JSON_TRUE && value[1].kind != ATP_JSON_FALSE)
		return ATP_E_STATUS_MEMBER;
	status->active = value[1].kind == ATP_JSON_TRUE;
	atp_status_text(&value[2], &status->status);
	status->has_rev = atp_status_rev(&value[3], &status->rev);
	return ATP_OK;
}

AtpErr
atp_latest_commit_parse(const char *s, size_t n, uint8_t cid[ATP_CID_BLESSED_LEN], uint64_t *rev, size_t *at)
{
	static const char *const names[] = {"cid", "rev"};
	AtpJsonItem value[2];
	char		text[ATP_CID_TEXT_MAX];
	uint8_t		bytes[ATP_CID_MAX];
	size_t		len;
	AtpErr		err = read_object(s, n, names, 2, value, at);

	if (err != ATP_OK)
		return err;
	*at = 0;
	if (value[0].kind != ATP_JSON_TEXT || !atp_json_text(&value[0], text, sizeof(text), &len) || !atp_status_rev(&value[1], rev))
		return ATP_E_STATUS_MEMBER;
	if ((err = atp_cid_parse(text, len, bytes, &len, at)) != ATP_OK)
		return err;
	if (!atp_cid_is_node((AtpBytes) {bytes, len}))
		return atp_fail(ATP_E_COMMIT_ROOT, 0, at);
	memcpy(cid, bytes, ATP_CID_BLESSED_LEN);
	return ATP_OK;
}

/* Reads the name of an error of XRPC.  False: the body is none. */
static bool
read_error(const char *s, size_t n, AtpJsonItem *value)
{
	static const char *const member[] = {"error"};
	size_t		at;

	return read_object(s, n, member, 1, value, &at) == ATP_OK && value->kind == ATP_JSON_TEXT;
}

bool
atp_answer_error_is(const char *s, size_t n, const char *name)
{
	AtpJsonItem value;

	return read_error(s, n, &value) && atp_json_is(&value, name, strlen(name));
}

AtpRepoRefusal
atp_repo_refusal(const char *s, size_t n)
{
	static const char *const names[] = {
		[ATP_REPO_NOT_FOUND] = "RepoNotFound",
		[ATP_REPO_TAKENDOWN] = "RepoTakendown",
		[ATP_REPO_SUSPENDED] = "RepoSuspended",
		[ATP_REPO_DEACTIVATED] = "RepoDeactivated",
		[ATP_REPO_DELETED] = "RepoDeleted"
	};
	AtpJsonItem value;

	if (!read_error(s, n, &value))
		return ATP_REPO_REFUSED;
	for (unsigned i = ATP_REPO_NOT_FOUND; i <= ATP_REPO_DELETED; i++)
	{
		if (atp_json_is(&value, names[i], strlen(names[i])))
			return (AtpRepoRefusal) i;
	}
	return ATP_REPO_REFUSED;
}

const char *
atp_repo_refusal_status(AtpRepoRefusal refusal)
{
	switch (refusal)
	{
		case ATP_REPO_TAKENDOWN:
			return "takendown";
		case ATP_REPO_SUSPENDED:
			return "suspended";
		case ATP_REPO_DEACTIVATED:
			return "deactivated";
		case ATP_REPO_DELETED:
			return "deleted";
		case ATP_REPO_REFUSED:
		case ATP_REPO_NOT_FOUND:
			break;
	}
	return NULL;
}
