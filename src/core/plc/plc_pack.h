/*
 * plc_pack.h
 *		The packed form in which an operation of the did:plc directory is stored (M-20): a few bytes in place of the texts
 *		that most operations have, or that have an id in a table of texts.
 *
 * The packed form is a list of tokens, each of which stands for some bytes of the operation's DAG-CBOR.  A token with bytes
 * as they are fits everything, so every input can be packed.
 *
 * Invariant: atp_plc_op_unpack() gives back the bytes that atp_plc_op_pack() was given, with the same prev and the same
 * texts, whatever these bytes are.
 */
#ifndef ATP_PLC_PACK_H
#define ATP_PLC_PACK_H

#include "core/plc/plc_op.h"

/* Bytes of the texts that may have an id. */
#define ATP_PLC_SHARED_MIN	3
#define ATP_PLC_SHARED_MAX	255

/* Texts with ids.  Packing calls only id(), unpacking only text(). */
typedef struct AtpPlcTexts
{
	uint32_t	(*id) (void *ctx, AtpSpan text);	/* 0: the text has no id */
	AtpSpan		(*text) (void *ctx, uint32_t id);	/* ptr NULL: no text has the id */
	void	   *ctx;
} AtpPlcTexts;

/* Bytes of memory that atp_plc_op_pack() needs for n bytes. */
extern size_t atp_plc_pack_room(size_t n);

/*
 * Packs an operation; returns the number of bytes.  The first byte is the signer (AtpPlcVerdict).  prev is the CID of the
 * operation before; NULL: a genesis.
 */
extern size_t atp_plc_op_pack(AtpBytes cbor, uint8_t signer, const uint8_t *prev, const AtpPlcTexts *texts, uint8_t *out);

/*
 * Asks for the ids of the texts for which atp_plc_op_pack() will ask; the answers must be 0.  Keys and signature are not
 * decoded: where one cannot be decoded, its text may be left out.
 */
extern void atp_plc_op_note(AtpBytes cbor, const uint8_t *prev, const AtpPlcTexts *texts);

/*
 * Unpacks an operation; *n is the number of bytes.  False: the bytes are no packed operation, a text is unknown, or the
 * operation needs more than room bytes.  Without prev, a reference to it becomes an empty text.
 */
extern bool atp_plc_op_unpack(AtpBytes packed, const uint8_t *prev, const AtpPlcTexts *texts, uint8_t *out, size_t room,
							  size_t *n);

/* The number of the key that has signed the operation; 0: the bytes name no key. */
static inline uint8_t
atp_plc_packed_signer(AtpBytes packed)
{
	return packed.len > 0 ? packed.ptr[0] : 0;
}

/* The next id of a text in the packed form; *pos is 0 at first.  False: there is no further id. */
extern bool atp_plc_packed_id(AtpBytes packed, size_t *pos, uint32_t *id);

#endif							/* ATP_PLC_PACK_H */
