/*
 * jsonb_write.h
 *		Converts DAG-CBOR to jsonb, writing the jsonb image directly, without a
 *		tree of JsonbValues.
 */
#ifndef ATP_JSONB_WRITE_H
#define ATP_JSONB_WRITE_H

#include "postgres.h"

#include "utils/jsonb.h"

#include "core/atp.h"

/*
 * Converts one DAG-CBOR value of any kind.  Returns a palloc'd Jsonb, or NULL
 * with *err and *at set.  ATP_E_JSON_NUL and ATP_E_JSON_AMBIGUOUS mean: the
 * bytes are valid, but jsonb cannot hold the value (D28).
 */
extern Jsonb *atp_jsonb_from_dagcbor(AtpBytes value, AtpErr *err, size_t *at);

/* As atp_jsonb_from_dagcbor(), for a value that must be a record (core/repo/record_check.h). */
extern Jsonb *atp_jsonb_from_record(AtpBytes block, AtpErr *err, size_t *at);

/* As atp_jsonb_from_dagcbor(), for a value outside of the data model: "$link" and "$bytes" are keys like others. */
extern Jsonb *atp_jsonb_from_plain(AtpBytes value, AtpErr *err, size_t *at);

#endif							/* ATP_JSONB_WRITE_H */
