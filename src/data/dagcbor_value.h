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

/*
 * The length of a stored value's DAG-CBOR, and the DAG-CBOR, palloc'd; false: the value is damaged.  A value of a newer version
 * raises an error here, too.
 */
extern bool atp_dagcbor_size(AtpBytes stored, size_t *n);
extern bool atp_dagcbor_try_unpack(AtpBytes stored, AtpBytes *cbor);

/* NULL: jsonb cannot hold the part. */
extern Jsonb *atp_dagcbor_jsonb(const AtpPackedPart *part);

/* Goes to the value under a key, also from a link to its text in {"$link": …}, and from bytes.  False: nothing is there. */
extern bool atp_dagcbor_key(AtpPackedPart *part, AtpSpan key);

#define ATP_JSONB_VALUE_ROOM	ATP_PART_TEXT_MAX

/*
 * The part as a member of a jsonb that could hold the record, made without a jsonb where the part is a text.  False: jsonb cannot
 * hold the part.  buf must last as long as *v.
 */
extern bool atp_dagcbor_jsonb_value(const AtpPackedPart *part, char buf[ATP_JSONB_VALUE_ROOM], JsonbValue *v);

/* Appends the part as JSON; true: json_to_dagcbor() gives the same bytes back (json_write.h). */
extern bool atp_dagcbor_json(StringInfo out, const AtpPackedPart *part);

/*
 * Appends DAG-CBOR as JSON that jsonb can hold, and that says what the value is; raises no error.  False, and nothing is appended: the
 * value has U+0000, a float, an integer of more than 64 bits, or the key "$link" or "$bytes", or the bytes are no DAG-CBOR.
 */
extern bool atp_dagcbor_jsonb_text(StringInfo out, AtpBytes cbor);

/* An error unless core/packed has found the stored value to be sound. */
extern void atp_dagcbor_require(AtpErr err);

/* What the part is; an error if the part is damaged. */
extern AtpCborKind atp_dagcbor_kind(const AtpPackedPart *part);

#endif							/* ATP_DAGCBOR_VALUE_H */
