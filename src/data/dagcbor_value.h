/*
 * dagcbor_value.h
 *		Values of the SQL type dagcbor, in memory of PostgreSQL: made of DAG-CBOR, and read as DAG-CBOR, jsonb or JSON
 *		again.  core/packed has the stored form.
 *
 * A stored value that is damaged raises an error, and so does a value that a newer version of the extension has packed: a
 * standby, or a node of Citus, may have an older library than the server that wrote the value.
 */
#ifndef ATP_DAGCBOR_VALUE_H
#define ATP_DAGCBOR_VALUE_H

#include "postgres.h"

#include "lib/stringinfo.h"
#include "utils/jsonb.h"

#include "core/packed/packed.h"

/* Packs a value; NULL, with *err and *at: the bytes are not exactly one value in DAG-CBOR. */
extern struct varlena *atp_dagcbor_make(AtpBytes cbor, AtpErr *err, size_t *at);

/* As atp_dagcbor_make(), for a value that must be a record (core/repo/record_check.h). */
extern struct varlena *atp_dagcbor_make_record(AtpBytes block, AtpErr *err, size_t *at);

/* The whole value that is stored in these bytes. */
extern AtpPackedPart atp_dagcbor_whole(AtpBytes stored);

/* The part as a value. */
extern struct varlena *atp_dagcbor_of_part(const AtpPackedPart *part);

/* The DAG-CBOR of the part, palloc'd. */
extern AtpBytes atp_dagcbor_unpack(const AtpPackedPart *part);

/* NULL: jsonb cannot hold the part. */
extern Jsonb *atp_dagcbor_jsonb(const AtpPackedPart *part);

/* Appends the part as JSON; true: json_to_dagcbor() gives the same bytes back (json_write.h). */
extern bool atp_dagcbor_json(StringInfo out, const AtpPackedPart *part);

/* An error unless core/packed has found the stored value to be sound. */
extern void atp_dagcbor_require(AtpErr err);

#endif							/* ATP_DAGCBOR_VALUE_H */
