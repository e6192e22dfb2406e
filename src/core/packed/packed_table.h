/*
 * packed_table.h
 *		Looks up the texts, keys and shapes of packed_list.h.  Private to src/core/packed.
 */
#ifndef ATP_PACKED_TABLE_H
#define ATP_PACKED_TABLE_H

#include "core/atp.h"

#define ATP_PACKED_SHAPE_KEYS	16	/* keys of the largest shape; larger maps have none */
#define ATP_PACKED_NONE			UINT16_MAX	/* instead of a number */

/* The numbers of keys, by name: shapes are written with them. */
enum
{
#define ATP_PACKED_KEY(number, name, text) KEY_##name = number,
#include "core/packed/packed_list.h"
};

/* The number of a text, of a key, or of a shape (the numbers of its keys) in the edition; or ATP_PACKED_NONE. */
extern uint16_t atp_packed_find_text(AtpSpan text, uint8_t edition);
extern uint16_t atp_packed_find_key(AtpSpan key, uint8_t edition);
extern uint16_t atp_packed_find_shape(AtpSpan keys, uint8_t edition);

/* The text, key or shape with a number; ptr is NULL if this library knows no entry with the number. */
extern AtpSpan atp_packed_text(uint16_t number);
extern AtpSpan atp_packed_key(uint16_t number);
extern AtpSpan atp_packed_shape(uint16_t number);

#endif							/* ATP_PACKED_TABLE_H */
