/*
 * diddoc.h
 *		DID documents (W-06 to W-15): of a JSON text that anybody may have written,
 *		an account's keys, its PDS and its handle.
 */
#ifndef ATP_DIDDOC_H
#define ATP_DIDDOC_H

#include "core/atp.h"
#include "core/syntax/did.h"
#include "core/syntax/handle.h"
#include "core/syntax/host_port.h"
#include "core/syntax/multikey.h"

#define ATP_DIDDOC_MAX		65536	/* bytes, W-07 */
#define ATP_DIDDOC_ENTRIES	64	/* of an array: those after are not looked at */

/*
 * W-11: are the n bytes (compressed, or 04 and both coordinates) a point of the
 * curve?  Not the point at infinity.
 */
typedef bool (*AtpPointFn) (void *ctx, AtpCurve curve, const uint8_t *point, size_t n);

typedef struct AtpDidDoc
{
	bool		has_key;		/* of commits: #atproto */
	bool		has_label_key;	/* of labels: #atproto_label */
	bool		has_pds;
	bool		pds_is_plain;	/* http, which a policy has to allow (W-14) */
	uint16_t	pds_port;
	uint8_t		key[ATP_MULTIKEY_LEN];
	uint8_t		label_key[ATP_MULTIKEY_LEN];
	size_t		pds_len;
	size_t		handle_len;		/* 0: none */
	char		pds[ATP_HOST_MAX];	/* a host's name, in lower case */
	char		handle[ATP_HANDLE_MAX];	/* in lower case; that it is the account's is to be verified */
} AtpDidDoc;

/* An error when the document is not one of this DID; what it lacks is no error. */
extern AtpErr atp_diddoc_parse(const char *s, size_t n, AtpSpan did, AtpPointFn point, void *ctx,
							   AtpDidDoc *doc, size_t *at);

#endif							/* ATP_DIDDOC_H */
