/*
 * audit_request.h
 *		Requests for audits: rows of the table atproto.audit_state, one for each target.
 */
#ifndef ATP_AUDIT_REQUEST_H
#define ATP_AUDIT_REQUEST_H

#include "postgres.h"

/* Request an audit of a target in which this transaction makes a repository unproven.  SPI is connected. */
extern void atp_audit_wish(const char *target);

#endif							/* ATP_AUDIT_REQUEST_H */
