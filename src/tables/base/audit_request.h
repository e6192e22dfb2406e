/*
 * audit_request.h
 *		The table audit_state: of which targets something is to be audited by itself.
 */
#ifndef ATP_AUDIT_REQUEST_H
#define ATP_AUDIT_REQUEST_H

#include "postgres.h"

/*
 * SQL: a row of the table repo is of a repository that the fetcher audits by itself.  Other repositories cannot be judged.
 * Whoever writes a row that comes to fulfil this wishes for an audit; atp_repo_is_audited() says the same of a state.
 */
#define ATP_IS_AUDITED \
	"sync = 'unproven' AND (refill_sync IS NULL OR refill_by IS NULL) AND data IS NOT NULL AND NOT COALESCE(deleted_rev OPERATOR(@.=) rev, false)"

/* Something of this target is unproven now, once the transaction commits.  SPI is connected. */
extern void atp_audit_wish(const char *target);

#endif							/* ATP_AUDIT_REQUEST_H */
