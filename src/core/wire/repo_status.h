/*
 * repo_status.h
 *		What a server says of one repository: the answer of
 *		com.atproto.sync.getRepoStatus, and the errors of getRepo and its like.
 */
#ifndef ATP_REPO_STATUS_H
#define ATP_REPO_STATUS_H

#include "core/atp.h"
#include "core/codec/json.h"

#define ATP_STATUS_MAX		64	/* bytes */
#define ATP_ANSWER_MAX		65536	/* bytes of an answer, or of an error's body */

/* A word such as takendown; len 0: none, or none that is printable and this short. */
typedef struct AtpStatusText
{
	size_t		len;
	char		text[ATP_STATUS_MAX];
} AtpStatusText;

extern void atp_status_text(const AtpJsonItem *item, AtpStatusText *out);

/* A revision; false when it is absent, empty or none. */
extern bool atp_status_rev(const AtpJsonItem *item, uint64_t *rev);

typedef struct AtpRepoStatus
{
	bool		active;
	bool		has_rev;
	uint64_t	rev;
	AtpStatusText status;
} AtpRepoStatus;

/* Of this account.  Unlike in a list, "active" has to be there. */
extern AtpErr atp_repo_status_parse(const char *s, size_t n, AtpSpan did, AtpRepoStatus *status, size_t *at);

/* Why a server does not give a repository. */
typedef enum AtpRepoRefusal
{
	ATP_REPO_REFUSED,			/* for another reason, or what it says is no error of XRPC */
	ATP_REPO_NOT_FOUND,
	ATP_REPO_TAKENDOWN,
	ATP_REPO_SUSPENDED,
	ATP_REPO_DEACTIVATED,
	ATP_REPO_DELETED
} AtpRepoRefusal;

/* The body of an answer whose status says that it is an error: anything at all. */
extern AtpRepoRefusal atp_repo_refusal(const char *s, size_t n);

/* What an #account event calls such an account; NULL: the refusal says nothing of it. */
extern const char *atp_repo_refusal_status(AtpRepoRefusal refusal);

#endif							/* ATP_REPO_STATUS_H */
