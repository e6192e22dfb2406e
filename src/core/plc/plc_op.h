/*
 * plc_op.h
 *		One operation of the did:plc directory (M-02, M-03, M-06): its JSON becomes the canonical DAG-CBOR that is
 *		hashed, and the parts by which an account's log is judged (plc_log.h).  No signature is verified here.
 *
 * The functions know nothing of the directory's answers: plc_entry.h has the object around an operation.
 */
#ifndef ATP_PLC_OP_H
#define ATP_PLC_OP_H

#include "core/atp.h"
#include "core/codec/cid.h"
#include "core/repo/sig.h"
#include "core/syntax/did.h"
#include "core/syntax/multikey.h"

/* M-06: bytes of an operation as DAG-CBOR.  The directory takes 7,500 today. */
#define ATP_PLC_OP_MAX		65536

/* M-06: rotation keys of an operation.  The directory takes 10; each key costs a verification. */
#define ATP_PLC_KEYS_MAX	64

/* "did:plc:" and 24 characters */
#define ATP_DID_PLC_TEXT		32

typedef enum AtpPlcKind
{
	ATP_PLC_OPERATION,
	ATP_PLC_TOMBSTONE,
	ATP_PLC_CREATE				/* the former form of a genesis */
} AtpPlcKind;

/* A rotation key, as multikey.h has it.  First byte 0: the text is no did:key of k256 or p256. */
typedef uint8_t AtpPlcKey[ATP_MULTIKEY_LEN];

/* An operation, read.  Spans point into the memory that atp_plc_op_read() was given. */
typedef struct AtpPlcOp
{
	AtpPlcKind	kind;
	AtpBytes	cbor;			/* the whole operation, from which the CID is computed */
	uint8_t		cid[ATP_CID_BLESSED_LEN];
	uint8_t		digest[32];		/* of the signed bytes: the operation without "sig" */
	uint8_t		sig[ATP_SIG_LEN];
	bool		has_sig;		/* false: "sig" decodes to another number of bytes, and no key can have signed */
	bool		has_prev;		/* false: a genesis */
	uint8_t		prev[ATP_CID_BLESSED_LEN];
	unsigned	others;			/* M-01: number of members that no operation of this kind has */
	unsigned	nkeys;			/* M-06: of a create operation: recoveryKey, then signingKey */
	AtpPlcKey	keys[ATP_PLC_KEYS_MAX];
} AtpPlcOp;

/* Bytes of memory that atp_plc_op_read() needs for n bytes of JSON. */
extern size_t atp_plc_op_room(size_t n);

/*
 * Reads the operation.  A fault of the JSON has its offset in *at; a fault of the operation has 0, because its
 * members are judged in their canonical order.  A fault of the form comes before one of the encoding (M-01).
 */
extern AtpErr atp_plc_op_read(AtpSpan json, uint8_t *room, size_t size, AtpSha256Fn sha256, void *ctx,
							  AtpPlcOp *op, size_t *at);

/* The account's keys, server and handle, by one operation. */
typedef struct AtpPlcState
{
	AtpPlcKind	kind;
	AtpSpan		key;			/* verificationMethods.atproto, as written; ptr NULL: absent */
	AtpSpan		label_key;		/* verificationMethods.atproto_label */
	AtpSpan		server;			/* endpoint of the service atproto_pds, if its type is AtprotoPersonalDataServer, as written */
	AtpSpan		handle;			/* of the first alias with the syntax of a handle, or else with at://, as written */
} AtpPlcState;

/* Reads kind and rotation keys of an operation from its DAG-CBOR.  False: no operation. */
extern bool atp_plc_op_stored(AtpBytes cbor, AtpPlcOp *op);

/* M-06: reads the state of the account from an operation's DAG-CBOR; a create operation by its meaning.  False: no operation. */
extern bool atp_plc_op_state(AtpBytes cbor, AtpPlcState *state);

/* M-02: the DID of the account created by this genesis. */
extern void atp_plc_op_did(const AtpPlcOp *op, char did[ATP_DID_PLC_TEXT]);

#endif							/* ATP_PLC_OP_H */
