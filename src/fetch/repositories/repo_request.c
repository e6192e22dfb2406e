/*
 * repo_request.c
 *		The request for a whole repository: see repo_request.h.
 */
#include "postgres.h"

#include "fetch/repositories/repo_request.h"

#define READ_BYTES		(64 * 1024)
#define READ_STEP		(1024 * 1024)	/* bytes of an answer read in a step */
#define WHOLE_MS	(60 * 60 * 1000)	/* time limit of a request */
#define SLOW_BYTES	1024
#define SLOW_S		30
#define REDIRECTS	3			/* W-53 */

/* without "since", so that all of the repository comes. */
AtpHttp *
atp_repo_request(const void *owner, const char *server, const char *did, long *wait_ms)
{
	StringInfoData url;

	initStringInfo(&url);
	appendStringInfo(&url, "%s/xrpc/com.atproto.sync.getRepo?did=", server);
	atp_fetch_append_escaped(&url, did);
	return atp_fetch_start(&(AtpHttpRequest) {
						   .owner = owner, .bulk = true, .url = url.data,
						   .accept = "application/vnd.ipld.car", .redirects = REDIRECTS, .whole_ms = WHOLE_MS, .gzip = true, .stream = true,
						   /*
						    * the limit of the request is a byte larger, so that the
						    * export finds the excess and names the setting
						    */
						   .body_max = (int64) atp_max_repo_kb * 1024 + 1, .slow_bytes = SLOW_BYTES, .slow_s = SLOW_S
						   }, NULL, wait_ms);
}

AtpRepoRead
atp_repo_request_read(AtpHttp *http, bool ended, AtpExport *export, int64 *bytes)
{
	uint8_t    *buf;
	Size		read = 0;
	size_t		n = 0;
	bool		taken = true;

	if (atp_http_status(http) != 200 && !ended)
		return ATP_REPO_READ_WAITS;
	buf = palloc(READ_BYTES);
	while (taken && atp_http_status(http) == 200 && read < READ_STEP && (n = atp_http_read(http, buf, READ_BYTES)) > 0)
	{
		read += n;
		taken = atp_export_take(export, buf, n);
	}
	pfree(buf);
	*bytes += read;
	if (!taken)
		return ATP_REPO_READ_INVALID;
	if (n > 0 || !ended)
		return n > 0 ? ATP_REPO_READ_MORE : ATP_REPO_READ_WAITS;
	if (atp_http_answer(http)->outcome != ATP_HTTP_OK || atp_http_answer(http)->status != 200)
		return ATP_REPO_READ_NO_EXPORT;
	return atp_export_finish(export) ? ATP_REPO_READ_DONE : ATP_REPO_READ_INVALID;
}

const char *
atp_repo_request_fault(const AtpExport *export)
{
	const AtpExportFault *fault = atp_export_fault(export);

	return fault->detail == NULL ? fault->text : psprintf("%s: %s", fault->text, fault->detail);
}

const char *
atp_repo_request_error(const AtpHttpAnswer *answer)
{
	return answer->error != NULL ? answer->error : "the answer is not of status 200";
}
