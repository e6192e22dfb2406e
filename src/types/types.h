/*
 * types.h
 *		The interface of the SQL types to the rest of the extension: making values from parts that src/core
 *		has checked, and reading values.
 */
#ifndef ATP_TYPES_H
#define ATP_TYPES_H

#include "postgres.h"

#include "core/atp.h"
#include "core/syntax/did.h"
#include "core/syntax/recordkey.h"
#include "datatype/timestamp.h"

/* A varlena with these bytes: a bytea, a text, or a type's stored form. */
extern struct varlena *atp_varlena(const void *bytes, size_t n);

/* The results are palloc'd.  The text must have passed the type's check in src/core. */
extern struct varlena *atp_did_make(const char *s, size_t n);
extern struct varlena *atp_handle_make(const char *s, size_t n);	/* folds to lower case */
extern struct varlena *atp_nsid_make(const char *s, size_t n);	/* in the form that this library writes */
extern struct varlena *atp_rkey_make(const char *s, size_t n);
extern struct varlena *atp_cidlink_make(const uint8_t *bytes, size_t n);
extern struct varlena *atp_aturi_make(const char *s, size_t n);

/* As atp_aturi_make(), for a text that was just parsed; uri is the result of atp_uri_parse(). */
struct AtpUri;
extern struct varlena *atp_aturi_make_parsed(const struct AtpUri *uri, const char *s, size_t n);

/* Converts any text to a value; false: the text is not valid. */
typedef bool (*AtpTry) (const char *s, size_t n, Datum *value);

extern bool atp_try_did(const char *s, size_t n, Datum *value);
extern bool atp_try_handle(const char *s, size_t n, Datum *value);
extern bool atp_try_nsid(const char *s, size_t n, Datum *value);
extern bool atp_try_recordkey(const char *s, size_t n, Datum *value);
extern bool atp_try_tid(const char *s, size_t n, Datum *value);
extern bool atp_try_cidlink(const char *s, size_t n, Datum *value);
extern bool atp_try_aturi(const char *s, size_t n, Datum *value);
extern bool atp_try_noshuri(const char *s, size_t n, Datum *value);
extern bool atp_try_datetime(const char *s, size_t n, Datum *value);	/* timestamptz */

/* From the Unix epoch, which the protocol uses, to PostgreSQL's epoch, in microseconds. */
#define ATP_UNIX_TO_POSTGRES	((int64) (POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) * USECS_PER_DAY)

/*
 * The text of a did or recordkey that is not TOASTed; returns the length.  ERROR for a damaged value, whose text might be longer
 * than the buffer.
 */
extern size_t atp_did_copy(const struct varlena *did, char text[ATP_DID_MAX]);
extern size_t atp_rkey_copy(const struct varlena *rkey, char text[ATP_RKEY_MAX]);

/* The order of the type did; and the same for elements of an array of pointers, for qsort() and bsearch(). */
extern int	atp_compare_dids(const struct varlena *a, const struct varlena *b);
extern int	atp_compare_did_refs(const void *a, const void *b);

/* The slice of a DID among slices >= 1: the remainder by which a table PARTITION BY HASH places the DID. */
extern uint32 atp_did_slice(const struct varlena *did, uint32 slices);

/*
 * The text of an nsid that is not TOASTed, in the value itself or in constant memory, without a NUL behind.  ERROR for
 * a code that only a newer library knows: see core/syntax/nsid_code.h.
 */
extern AtpSpan atp_nsid_span(const struct varlena *nsid);

/* The same text, palloc'd, with a NUL behind. */
extern char *atp_nsid_cstring(const struct varlena *nsid);

/*
 * An nsid that was read from a table, in the form that atp_nsid_make() gives: so equal values have equal bytes.
 * Returns the value itself, if it has this form.
 */
extern struct varlena *atp_nsid_renew(struct varlena *nsid);

/* The order of the type nsid. */
extern int	atp_compare_nsids(const struct varlena *a, const struct varlena *b);

/* atproto.tid is passed by value. */
#define AtpTidGetDatum(x)	UInt64GetDatum(x)
#define DatumGetAtpTid(x)	DatumGetUInt64(x)

#endif							/* ATP_TYPES_H */
