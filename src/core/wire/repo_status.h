/*
 * repo_status.h
 *		A server's answers about one repository: the answers of com.atproto.sync.getRepoStatus and
 *		getLatestCommit, and the errors of getRepo and similar requests.
 */
#ifndef ATP_REPO_STATUS_H
#define ATP_REPO_STATUS_H

#include "core/atp.h"
#include "core/codec/cid.h"
#include "core/codec/json.h"

#define ATP_STATUS_MAX		64	/* bytes */
#define ATP_ANSWER_MAX		65536	/* bytes of an answer, or of an error's body */

/* A word such as "takendown"; len 0: absent, not printable, or too long. */
typedef struct AtpStatusText
{
	size_t		len;
	char		text[ATP_STATUS_MAX];
} AtpStatusText;

extern void atp_status_text(const AtpJsonItem *item, AtpStatusText *out);

/* A revision; false when it is absent or no TID. */
extern bool atp_status_rev(const AtpJsonItem *item, uint64_t *rev);

typedef struct AtpRepoStatus
{
	bool		active;
	bool		has_rev;
	uint64_t	rev;
	AtpStatusText status;
} AtpRepoStatus;

/* The answer must be of this account.  Unlike in a list, "active" is required. */
extern AtpErr atp_repo_status_parse(const char *s, size_t n, AtpSpan did, AtpRepoStatus *status, size_t *at);

/* Why a server refuses to give a repository. */
typedef enum AtpRepoRefusal
{
	ATP_REPO_REFUSED,			/* another reason, or the answer is no error of XRPC */
	ATP_REPO_NOT_FOUND,
	ATP_REPO_TAKENDOWN,
	ATP_REPO_SUSPENDED,
	ATP_REPO_DEACTIVATED,
	ATP_REPO_DELETED
} AtpRepoRefusal;

/* Reads the body of an answer with an error status; the body may be anything. */
extern AtpRepoRefusal atp_repo_refusal(const char *s, size_t n);

/* Is the body of an answer with an error status an error of XRPC with this name? */
extern bool atp_answer_error_is(const char *s, size_t n, const char *name);

/* The answer of com.atproto.sync.getLatestCommit: the CID is that of a commit's block. */
extern AtpErr atp_latest_commit_parse(const char *s, size_t n, uint8_t cid[ATP_CID_BLESSED_LEN], uint64_t *rev, size_t *at);

/*
 * The status by which an #account event names the refusal's reason; NULL: the refusal says nothing about the
 * account's status.
 */
extern const char *atp_repo_refusal_status(AtpRepoRefusal refusal);

#endif							/* ATP_REPO_STATUS_H */
