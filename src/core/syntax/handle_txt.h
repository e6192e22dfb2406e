/*
 * handle_txt.h
 *		Which account a handle's domain names: its TXT records (W-20), and its
 *		file at a well-known place (W-21).  Anybody may have written both.
 */
#ifndef ATP_HANDLE_TXT_H
#define ATP_HANDLE_TXT_H

#include "core/atp.h"
#include "core/syntax/did.h"

/* The prefix of the name that has the records; a name longer than 253 bytes cannot exist. */
#define ATP_HANDLE_TXT_PREFIX	"_atproto."
#define ATP_DNS_NAME_MAX		253

/* What of a file is looked at. */
#define ATP_HANDLE_FILE_MAX		2048

typedef enum AtpHandleFound
{
	ATP_HANDLE_NONE,			/* no account is named */
	ATP_HANDLE_DID,				/* one is */
	ATP_HANDLE_SEVERAL			/* that is none: who is to say which? */
} AtpHandleFound;

/* TXT records as they come, string by string. */
typedef struct AtpHandleTxt
{
	AtpHandleFound found;
	size_t		did_len;
	char		did[ATP_DID_MAX];
	size_t		record_len;		/* of the record that is not over; may be more than is kept */
	char		record[4 + ATP_DID_MAX];
} AtpHandleTxt;

extern void atp_handle_txt_begin(AtpHandleTxt *txt);

/* The next string; first: a record begins with it. */
extern void atp_handle_txt_string(AtpHandleTxt *txt, const char *s, size_t n, bool first);

/* There are no more; the account is txt->did. */
extern AtpHandleFound atp_handle_txt_end(AtpHandleTxt *txt);

/* The account that a file names, or NULL; white space around it does not count. */
extern AtpSpan atp_handle_file(const char *s, size_t n);

#endif							/* ATP_HANDLE_TXT_H */
