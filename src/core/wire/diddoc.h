/*
 * diddoc.h
 *		Parser of DID documents (W-06 to W-15): extracts an account's keys, PDS
 *		and handle from a JSON text that anybody may have written.  Nothing in
 *		the result is verified beyond the document itself.
 */
#ifndef ATP_DIDDOC_H
#define ATP_DIDDOC_H

#include "core/atp.h"
#include "core/syntax/did.h"
#include "core/syntax/handle.h"
#include "core/syntax/host_port.h"
#include "core/syntax/multikey.h"

#define ATP_DIDDOC_MAX		65536	/* bytes, W-07 */
#define ATP_DIDDOC_ENTRIES	64	/* entries of one array; later entries are skipped */

/*
 * W-11: are the n bytes (compressed, or 04 and both coordinates) a point of the
 * curve, other than the point at infinity?
 */
typedef bool (*AtpPointFn) (void *ctx, AtpCurve curve, const uint8_t *point, size_t n);

typedef struct AtpDidDoc
{
	bool		has_key;		/* key of commits: #atproto */
	bool		has_label_key;	/* key of labels: #atproto_label */
	bool		has_pds;
	bool		pds_is_plain;	/* the scheme is http, which the policy must allow (W-14) */
	uint16_t	pds_port;
	uint8_t		key[ATP_MULTIKEY_LEN];
	uint8_t		label_key[ATP_MULTIKEY_LEN];
	size_t		pds_len;
	size_t		handle_len;		/* 0: no handle */
	char		pds[ATP_HOST_MAX];	/* host name, in lower case */
	/* in lower case; the account's handle only once its domain names the DID, too */
	char		handle[ATP_HANDLE_MAX];
} AtpDidDoc;

/* An error unless the document is valid and of this DID.  A missing key, PDS or handle is no error. */
extern AtpErr atp_diddoc_parse(const char *s, size_t n, AtpSpan did, AtpPointFn point, void *ctx,
							   AtpDidDoc *doc, size_t *at);

/*
 * M-30: the document that a did:plc directory makes of an operation: keys as did:key, the endpoint of the PDS, and the handle
 * without at://.  ptr NULL: absent.  What atp_diddoc_parse() would pass over in a document is absent from the result.
 */
extern void atp_diddoc_of_parts(AtpSpan key, AtpSpan label_key, AtpSpan endpoint, AtpSpan handle, AtpPointFn point, void *ctx,
								AtpDidDoc *doc);

#endif							/* ATP_DIDDOC_H */
