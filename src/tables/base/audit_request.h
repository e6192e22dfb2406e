/*
 * audit_request.h
 *		The table audit_state: of which targets something is to be audited by itself.
 */
#ifndef ATP_AUDIT_REQUEST_H
#define ATP_AUDIT_REQUEST_H

#include "postgres.h"

/* Something of this target is unproven now, once the transaction commits.  SPI is connected. */
extern void atp_audit_wish(const char *target);

#endif							/* ATP_AUDIT_REQUEST_H */
