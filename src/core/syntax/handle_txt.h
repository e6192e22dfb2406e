/*
 * handle_txt.h
 *		Which account a handle's domain names, by the TXT records of its name (W-20), or by its file at a
 *		well-known place (W-21).  The domain's owner may have written anything there.  No request is made
 *		here: see fetch/identities/task_handle.c.
 */
#ifndef ATP_HANDLE_TXT_H
#define ATP_HANDLE_TXT_H

#include "core/atp.h"
#include "core/syntax/did.h"

/* The TXT records belong to this prefix and the handle; names of more than 253 bytes cannot exist. */
#define ATP_HANDLE_TXT_PREFIX	"_atproto."
#define ATP_DNS_NAME_MAX		253

/* Bytes of the file that are read. */
#define ATP_HANDLE_FILE_MAX		2048

typedef enum AtpHandleFound
{
	ATP_HANDLE_NONE,			/* no account is named */
	ATP_HANDLE_DID,				/* exactly 1 account is named */
	/* several accounts are named; none of them is verified, since nothing says which to believe */
	ATP_HANDLE_SEVERAL
} AtpHandleFound;

/* The state of reading TXT records, string by string. */
typedef struct AtpHandleTxt
{
	AtpHandleFound found;
	size_t		did_len;
	char		did[ATP_DID_MAX];
	/* bytes of the current record; sizeof(record) + 1 when the record is too long for a DID */
	size_t		record_len;
	char		record[4 + ATP_DID_MAX];
} AtpHandleTxt;

extern void atp_handle_txt_begin(AtpHandleTxt *txt);

/* The next string; first: the string begins a record. */
extern void atp_handle_txt_string(AtpHandleTxt *txt, const char *s, size_t n, bool first);

/* After the last string: the result; with ATP_HANDLE_DID, txt->did is the account. */
extern AtpHandleFound atp_handle_txt_end(AtpHandleTxt *txt);

/* The account named by the file's text, without the white space around it; ptr NULL: none. */
extern AtpSpan atp_handle_file(const char *s, size_t n);

#endif							/* ATP_HANDLE_TXT_H */
