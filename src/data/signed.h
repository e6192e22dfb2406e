/*
 * signed.h
 *		Parses keys and verifies signatures of blocks, for SQL functions: faults
 *		are raised as errors.
 */
#ifndef ATP_SIGNED_H
#define ATP_SIGNED_H

#include "postgres.h"

#include "core/syntax/multikey.h"

/* Parses a Multikey or did:key; any other text is an ERROR. */
extern void atp_key_of_text(const text *in, uint8_t key[ATP_MULTIKEY_LEN]);

/*
 * Is a map in DAG-CBOR, already parsed as a commit or a label, signed by this
 * key?  An unusable key, and a curve that this build lacks, are an ERROR.
 */
extern bool atp_is_signed(const uint8_t key[ATP_MULTIKEY_LEN], AtpBytes map, bool is_label);

/* Raises an error if err says that this build lacks a key's curve. */
extern void atp_require_curve(AtpErr err);

#endif							/* ATP_SIGNED_H */
