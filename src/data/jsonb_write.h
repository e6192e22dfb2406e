/*
 * jsonb_write.h
 *		DAG-CBOR to jsonb, writing the jsonb image directly (no tree between).
 */
#ifndef ATP_JSONB_WRITE_H
#define ATP_JSONB_WRITE_H

#include "postgres.h"

#include "utils/jsonb.h"

#include "core/atp.h"

/*
 * Convert one DAG-CBOR value of any kind.  Returns a palloc'd Jsonb, or NULL
 * with *err and *at set.  ATP_E_JSON_NUL and ATP_E_JSON_AMBIGUOUS mean that
 * the bytes are valid but that jsonb cannot hold them (D28).
 */
extern Jsonb *atp_jsonb_from_dagcbor(AtpBytes value, AtpErr *err, size_t *at);

/* The same of a record: what is not one (core/repo/record_check.h) is not valid. */
extern Jsonb *atp_jsonb_from_record(AtpBytes block, AtpErr *err, size_t *at);

#endif							/* ATP_JSONB_WRITE_H */
