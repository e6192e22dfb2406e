/*
 * sparse_fault.c
 *		Why a fetch of some collections of a repository failed: see sparse_fault.h.
 */
#include "postgres.h"

#include "core/wire/repo_status.h"
#include "fetch/repositories/sparse_fault.h"

#define TOO_LARGE_STATUS	413 /* the host's own limit for the answer of one account */

static const char *
body_of(const AtpHttpAnswer *answer)
{
	return answer->body != NULL ? answer->body : "";
}

static AtpRepoRefusal
refusal_of(const AtpHttpAnswer *answer)
{
	return atp_repo_refusal(body_of(answer), strlen(body_of(answer)));
}

/* Is the answer the error of a server that does not know the request?  Not: of an account that the server does not know. */
static bool
is_unknown_request(const AtpHttpAnswer *answer)
{
	static const char *const names[] = {"MethodNotImplemented", "XRPCNotSupported", "UnknownXRPCMethod"};
	const char *body = body_of(answer);

	if (answer->status == 501)
		return true;
	for (int i = 0; i < lengthof(names); i++)
		if (answer->status >= 400 && atp_answer_error_is(body, strlen(body), names[i]))
			return true;
	return answer->status == 404 && refusal_of(answer) == ATP_REPO_REFUSED &&
		!atp_answer_error_is(body, strlen(body), "RecordNotFound") && !atp_answer_error_is(body, strlen(body), "BlockNotFound");
}

AtpSparseFaultKind
atp_sparse_answer_kind(const AtpHttpAnswer *answer)
{
	if (atp_http_is_later(answer))
		return ATP_SPARSE_LATER;
	switch (answer->outcome)
	{
		case ATP_HTTP_OK:
			if (answer->status == TOO_LARGE_STATUS)
				return ATP_SPARSE_TOO_LARGE;
			return is_unknown_request(answer) ? ATP_SPARSE_UNABLE : ATP_SPARSE_REFUSED;
		case ATP_HTTP_TOO_LARGE:
			return ATP_SPARSE_TOO_LARGE;
		case ATP_HTTP_DNS:
		case ATP_HTTP_CONNECT:
		case ATP_HTTP_TLS:
		case ATP_HTTP_POLICY:
			return ATP_SPARSE_UNREACHED;
		case ATP_HTTP_ADDRESS:
		case ATP_HTTP_TIMEOUT:
		case ATP_HTTP_SLOW:
		case ATP_HTTP_REDIRECT:
		case ATP_HTTP_BUSY:
		case ATP_HTTP_SETTINGS:
		case ATP_HTTP_BROKEN:
		case ATP_HTTP_COUNT:
			break;
	}
	return ATP_SPARSE_BROKEN_OFF;
}

bool
atp_sparse_answer_lacks(const AtpHttpAnswer *answer)
{
	return answer->outcome == ATP_HTTP_OK && answer->status >= 400 && answer->status <= 499 && answer->status != 429 &&
		answer->status != TOO_LARGE_STATUS && !is_unknown_request(answer) && refusal_of(answer) == ATP_REPO_REFUSED;
}

bool
atp_sparse_fault_allows_whole(AtpSparseFaultKind kind)
{
	return kind != ATP_SPARSE_LATER && kind != ATP_SPARSE_UNREACHED;
}

bool
atp_sparse_fault_is_of_host(AtpSparseFaultKind kind)
{
	return kind == ATP_SPARSE_REFUSED || kind == ATP_SPARSE_UNABLE;
}

static char *
reason_of_answer(const AtpHttpAnswer *answer)
{
	AtpRepoRefusal refusal = answer->status >= 400 ? refusal_of(answer) : ATP_REPO_REFUSED;
	const char *status = atp_repo_refusal_status(refusal);

	if (answer->outcome != ATP_HTTP_OK)
		return psprintf("the request to its server has failed: %s", atp_http_outcome_name(answer->outcome));
	if (refusal == ATP_REPO_NOT_FOUND)
		return pstrdup("its server does not have the repository");
	if (status != NULL)
		return psprintf("its server says that the account is %s", status);
	return psprintf("its server answers with HTTP status %d", answer->status);
}

char *
atp_sparse_fault_reason(const AtpSparseFault *fault)
{
	if (fault->answer != NULL)
		return reason_of_answer(fault->answer);
	switch (fault->kind)
	{
		case ATP_SPARSE_LATER:
		case ATP_SPARSE_UNREACHED:
		case ATP_SPARSE_BROKEN_OFF:
		case ATP_SPARSE_UNABLE:
			break;
		case ATP_SPARSE_CHEAPER_WHOLE:
			return pstrdup("its repository moves on too fast");
		case ATP_SPARSE_TOO_LARGE:
			return pstrdup("its repository exceeds a limit");
		case ATP_SPARSE_REFUSED:
			return pstrdup("its server's answers are wrong, or lack blocks");
		case ATP_SPARSE_WRONG:
			return pstrdup("its repository is not valid");
	}
	return pstrdup("its server does not give the repository");
}
