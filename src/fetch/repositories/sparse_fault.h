/*
 * sparse_fault.h
 *		Why a fetch of some collections of a repository failed, and what an answer with an error says (P-04, P-30, P-61).
 *
 * What the caller may do next depends on the kind: try later, try the whole repository, or give the account up.
 */
#ifndef ATP_SPARSE_FAULT_H
#define ATP_SPARSE_FAULT_H

#include "postgres.h"

#include "net/http.h"

typedef enum AtpSparseFaultKind
{
	ATP_SPARSE_LATER,			/* the host wants requests later: no fault of the account */
	ATP_SPARSE_UNREACHED,		/* the host cannot be reached */
	ATP_SPARSE_BROKEN_OFF,		/* an answer was cut off, or too slow, or led elsewhere */
	ATP_SPARSE_CHEAPER_WHOLE,	/* P-30, P-05: the whole repository is cheaper, or moves too fast for parts */
	ATP_SPARSE_TOO_LARGE,		/* a limit of one account: says nothing about the host (P-14) */
	ATP_SPARSE_UNABLE,			/* the host has no requests for parts (P-30) */
	ATP_SPARSE_REFUSED,			/* P-61: the host answers with an error, wrong blocks, or without a block */
	ATP_SPARSE_WRONG			/* commit or tree are wrong: the account's repository, or the host's lie */
} AtpSparseFaultKind;

typedef struct AtpSparseFault
{
	AtpSparseFaultKind kind;
	const char *text;			/* for people */
	const AtpHttpAnswer *answer;	/* the answer that ended the fetch; NULL: no answer has ended the fetch */
} AtpSparseFault;

/* Why an answer with an error, or none, ends the fetch. */
extern AtpSparseFaultKind atp_sparse_answer_kind(const AtpHttpAnswer *answer);

/* P-04: may the error mean that the repository has moved on, so that a block is not there any more? */
extern bool atp_sparse_answer_lacks(const AtpHttpAnswer *answer);

/* P-61: may the whole repository be good although its parts are not? */
extern bool atp_sparse_fault_allows_whole(AtpSparseFaultKind kind);

/* P-61: if the whole repository is good, was the fault the host's?  No: limits that one account exceeds, a wrong commit or tree. */
extern bool atp_sparse_fault_is_of_host(AtpSparseFaultKind kind);

/*
 * P-52: the reason without URL, account and numbers of the account, so that accounts with the same reason are counted
 * together.  In the current memory context.
 */
extern char *atp_sparse_fault_reason(const AtpSparseFault *fault);

#endif							/* ATP_SPARSE_FAULT_H */
