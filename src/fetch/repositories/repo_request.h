/*
 * repo_request.h
 *		The request for a whole repository (getRepo), and the reading of its answer into an export.
 */
#ifndef ATP_REPO_REQUEST_H
#define ATP_REPO_REQUEST_H

#include "fetch/engine/fetch.h"
#include "tables/export/export.h"

/* NULL: the limits forbid a request now; *wait_ms as in atp_fetch_start(). */
extern AtpHttp *atp_repo_request(const void *owner, const char *server, const char *did, long *wait_ms);

typedef enum AtpRepoRead
{
	ATP_REPO_READ_WAITS,		/* no bytes are available now */
	ATP_REPO_READ_MORE,
	ATP_REPO_READ_DONE,			/* the export has all bytes, and its commit is right */
	ATP_REPO_READ_INVALID,		/* see atp_export_fault() */
	ATP_REPO_READ_NO_EXPORT		/* see atp_http_answer() */
} AtpRepoRead;

/* Read some bytes of the answer, and add their number to *bytes; ended: the request has ended. */
extern AtpRepoRead atp_repo_request_read(AtpHttp *http, bool ended, AtpExport *export, int64 *bytes);

/* The text of an export's fault, for people. */
extern const char *atp_repo_request_fault(const AtpExport *export);

/* The error of an answer that is no export. */
extern const char *atp_repo_request_error(const AtpHttpAnswer *answer);

#endif							/* ATP_REPO_REQUEST_H */
