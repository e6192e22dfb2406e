/*
 * cbor_write.h
 *		Writer of canonical DAG-CBOR (rule B-11) into the caller's buffer.
 *
 * Every head is in its shortest form.  The caller must write a map's keys in
 * canonical order, and as many members as a container's head announces: the
 * writer does not check this.
 */
#ifndef ATP_CBOR_WRITE_H
#define ATP_CBOR_WRITE_H

#include "core/atp.h"

/*
 * len counts all bytes, also those beyond cap.  When len is above cap at the
 * end, the buffer was too small and its contents are useless.
 */
typedef struct AtpCborWriter
{
	uint8_t    *buf;
	size_t		cap;
	size_t		len;
} AtpCborWriter;

extern void atp_cbor_put_uint(AtpCborWriter *w, uint64_t u);
extern void atp_cbor_put_nint(AtpCborWriter *w, uint64_t u);	/* -1 - u */
extern void atp_cbor_put_null(AtpCborWriter *w);
extern void atp_cbor_put_bool(AtpCborWriter *w, bool value);
extern void atp_cbor_put_bytes(AtpCborWriter *w, const uint8_t *p, size_t n);
extern void atp_cbor_put_text(AtpCborWriter *w, const char *s, size_t n);
extern void atp_cbor_put_link(AtpCborWriter *w, const uint8_t *cid, size_t n);	/* binary */
extern void atp_cbor_put_array(AtpCborWriter *w, uint64_t members);
extern void atp_cbor_put_map(AtpCborWriter *w, uint64_t pairs);

/* Appends bytes already encoded as DAG-CBOR. */
extern void atp_cbor_put_raw(AtpCborWriter *w, const uint8_t *p, size_t n);

#define atp_cbor_put_key(w, literal)	atp_cbor_put_text(w, literal, strlen(literal))

#endif							/* ATP_CBOR_WRITE_H */
