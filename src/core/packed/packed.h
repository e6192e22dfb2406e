/*
 * packed.h
 *		The packed form of DAG-CBOR, in which the SQL type dagcbor stores a value: a third of the bytes of jsonb for most
 *		records of the network, and fields that are read without unpacking.
 *
 * A stored value is the number of an edition (one byte), and a value.  In edition ATP_PACKED_PLAIN the value is the
 * DAG-CBOR itself, for values made longer by packing.  In every other edition the value is packed with
 * the frozen lists of this edition (packed_list.h): frequent texts and keys, and the lists of keys of frequent maps
 * (shapes), have numbers.  packed_code.h describes the form.
 *
 * Invariants:
 * - Every DAG-CBOR that the strict reader accepts can be packed, and unpacking gives back the same bytes.
 * - The packed form is a function of the bytes and the edition: two stored values of one edition are equal
 *   exactly when their bytes are equal.  Values of different editions are equal when the unpacked bytes are equal.
 * - A part of a stored value, taken out by atp_part_store(), is what packing the part alone in that edition gives.
 * - No function reads beyond the end of a damaged value, or recurses deeper than ATP_CBOR_DEPTH_MAX levels.
 */
#ifndef ATP_PACKED_H
#define ATP_PACKED_H

#include "core/atp.h"
#include "core/codec/dagcbor.h"

#define ATP_PACKED_PLAIN	0	/* the edition of unpacked DAG-CBOR */
#define ATP_PACKED_EDITION	1	/* the newest edition, with which this library packs */

#define ATP_PACKED_MARGIN	8	/* packing needs a few bytes beyond the stored value for a while */

/* Bytes of memory needed by atp_packed_store() for n bytes of DAG-CBOR; the stored value has at most n + 1 bytes. */
#define ATP_PACKED_ROOM(n)	((n) + 1 + ATP_PACKED_MARGIN)

/* --- whole values --- */

/*
 * Packs exactly one value, and reads the value strictly (rules B-01 to B-11) in one walk.  *n is the number of bytes
 * written to out.  Errors are those of the strict reader, and ATP_E_CBOR_TRAILING if bytes follow the value.
 */
extern AtpErr atp_packed_store(AtpBytes cbor, uint8_t *restrict out, size_t *n, size_t *at);

/* As atp_packed_store(), for a value that must be a record: the errors of core/repo/record_check.h count as errors of the reader. */
extern AtpErr atp_packed_store_record(AtpBytes block, uint8_t *restrict out, size_t *n, size_t *at);

/*
 * Unpacks a stored value into room bytes; *n is the number of bytes of its DAG-CBOR, also when this is more than
 * room: then the contents of out are useless.  So room 0 asks for the size.  Only a damaged value gives an error
 * (ATP_E_PACKED) or bytes that are no DAG-CBOR; a value of an edition that this library does not know gives
 * ATP_E_PACKED_EDITION.
 */
extern AtpErr atp_packed_unpack(AtpBytes stored, uint8_t *restrict out, size_t room, size_t *n);

/*
 * The strict check of a stored value: its unpacked bytes are DAG-CBOR, and packing the unpacked bytes in the edition of
 * the stored value gives this value.  scratch must have ATP_PACKED_CHECK_ROOM() bytes for the size told by atp_packed_unpack().
 */
#define ATP_PACKED_CHECK_ROOM(stored_len, unpacked_len)	((stored_len) + ATP_PACKED_MARGIN + (unpacked_len))

extern AtpErr atp_packed_check(AtpBytes stored, uint8_t *scratch, size_t size);

/* --- parts of values --- */

/*
 * A part of a stored value: the whole value, or the value under a key or an index.  The spans lie in
 * the stored value.
 */
typedef struct AtpPackedPart
{
	uint8_t		edition;
	uint8_t		code;			/* packed: a code of packed_code.h; plain: 0 */
	AtpBytes	content;		/* packed: the bytes behind the code; plain: the DAG-CBOR */
} AtpPackedPart;

/* The whole value.  ATP_E_PACKED_EDITION, ATP_E_PACKED. */
extern AtpErr atp_part_whole(AtpBytes stored, AtpPackedPart *part);

/*
 * Goes from a map to the value of a key.  *found is false, and *part unchanged, if the map has no such key or the
 * part is no map.
 */
extern AtpErr atp_part_key(AtpPackedPart *part, AtpSpan key, bool *found);

/*
 * Goes from an array to a member; numbers count from 0, negative ones from the end (-1 is the last member), as with
 * jsonb.  *found is false, and *part unchanged, if the array has no such member or the part is no array.
 */
extern AtpErr atp_part_member(AtpPackedPart *part, int64_t number, bool *found);

/* The kind of the part, in the words of the reader of DAG-CBOR. */
extern AtpErr atp_part_kind(const AtpPackedPart *part, AtpCborKind *kind);

/* The number of an array's members, or of a map's pairs; 0 for all other parts. */
extern AtpErr atp_part_count(const AtpPackedPart *part, uint64_t *count);

#define ATP_PART_TEXT_MAX	512	/* bytes of buf, for a text in another stored form */

/*
 * The text of a part that is a text: in the stored value, in constant memory, or in buf.  text->ptr is NULL if
 * the part is no text.  *has_nul tells whether the text has U+0000.  A damaged text that is not UTF-8 is ATP_E_PACKED, because a
 * server may read beyond the end of such a text.
 */
extern AtpErr atp_part_text(const AtpPackedPart *part, char buf[ATP_PART_TEXT_MAX], AtpSpan *text, bool *has_nul);

/* The DAG-CBOR of a part: as atp_packed_unpack(). */
extern AtpErr atp_part_unpack(const AtpPackedPart *part, uint8_t *restrict out, size_t room, size_t *n);

/* The number of bytes written by atp_part_store(). */
static inline size_t
atp_part_size(const AtpPackedPart *part)
{
	return part->content.len + (part->edition == ATP_PACKED_PLAIN ? 1 : 2);
}

/* Writes the part as a stored value. */
extern void atp_part_store(const AtpPackedPart *part, uint8_t *restrict out);

#endif							/* ATP_PACKED_H */
