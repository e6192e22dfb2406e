/*
 * audit_request.h
 *		Requests for audits: rows of the table atproto.audit_state, one for each target.
 */
#ifndef ATP_AUDIT_REQUEST_H
#define ATP_AUDIT_REQUEST_H

#include "postgres.h"

/*
 * SQL: a row of the table repo is of a repository that the fetcher audits without a request by a session.  While a
 * refill writes the repository's records, the records are of no single commit, so an audit could not judge them.
 * A process that writes a row which comes to fulfil this condition calls atp_audit_request() in the same transaction;
 * atp_repo_is_audited() tests the same condition on a state in memory.
 */
#define ATP_IS_AUDITED \
	"sync = 'unproven' AND (refill_sync IS NULL OR refill_by IS NULL) AND data IS NOT NULL AND NOT COALESCE(deleted_rev OPERATOR(@.=) rev, false)"

/* Request an audit of a target in which this transaction makes a repository unproven.  SPI is connected. */
extern void atp_audit_request(const char *target);

#endif							/* ATP_AUDIT_REQUEST_H */
