/*
 * signed.h
 *		Keys as text, and signatures of blocks, with errors for people.
 */
#ifndef ATP_SIGNED_H
#define ATP_SIGNED_H

#include "postgres.h"

#include "core/syntax/multikey.h"

/* A Multikey or did:key; anything else is an ERROR. */
extern void atp_key_of_text(const text *in, uint8_t key[ATP_MULTIKEY_LEN]);

/*
 * Is a map in DAG-CBOR, which has been read as a commit or a label, signed by this
 * key?  What is wrong with the key, or with this build, is an ERROR.
 */
extern bool atp_is_signed(const uint8_t key[ATP_MULTIKEY_LEN], AtpBytes map, bool is_label);

#endif							/* ATP_SIGNED_H */
