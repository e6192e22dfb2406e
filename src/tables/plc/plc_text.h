/*
 * plc_text.h
 *		The table plc_text, and the packed form of operations by it (M-20).
 *
 * A text gets an id when operations of two accounts have the text: keys and addresses of servers, domains of handles.
 * Invariant: a text is never changed nor deleted, because the packed operations name it by its id.
 */
#ifndef ATP_PLC_TEXT_H
#define ATP_PLC_TEXT_H

#include "postgres.h"

#include "core/plc/plc_pack.h"
#include "tables/base/statements.h"

/* Texts looked up together, in the memory context of the call of atp_plc_texts_begin(). */
typedef struct AtpPlcTextIds AtpPlcTextIds;

extern AtpPlcTextIds *atp_plc_texts_begin(AtpStatements *set);

/* Note the texts of an operation to be packed; find or make the ids of all noted texts. */
extern void atp_plc_texts_note(AtpPlcTextIds *texts, const struct varlena *did, AtpBytes cbor, const uint8_t *prev);
extern void atp_plc_texts_find_ids(AtpPlcTextIds *texts);

/* Packs an operation after atp_plc_texts_find_ids(); a varlena. */
extern struct varlena *atp_plc_texts_pack(AtpPlcTextIds *texts, AtpBytes cbor, uint8_t signer, const uint8_t *prev);

/* Note the ids in a packed operation; read the texts of all noted ids. */
extern void atp_plc_texts_note_ids(AtpPlcTextIds *texts, AtpBytes packed);
extern void atp_plc_texts_read(AtpPlcTextIds *texts);

/* Unpacks an operation after atp_plc_texts_read(); palloc'd.  ptr NULL: the bytes are no packed operation. */
extern AtpBytes atp_plc_texts_unpack(AtpPlcTextIds *texts, AtpBytes packed, const uint8_t *prev);

#endif							/* ATP_PLC_TEXT_H */
