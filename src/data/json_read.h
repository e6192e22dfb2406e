/*
 * json_read.h
 *		Converts the text of JSON to canonical DAG-CBOR, in memory of PostgreSQL.
 */
#ifndef ATP_JSON_READ_H
#define ATP_JSON_READ_H

#include "postgres.h"

#include "core/atp.h"

/* *cbor lies in *room, which is palloc'd, also after an error. */
extern AtpErr atp_dagcbor_of_json(AtpSpan json, uint8_t **room, AtpBytes *cbor, size_t *at);

#endif							/* ATP_JSON_READ_H */
