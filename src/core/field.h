/*
 * field.h
 *		Fields that messages of several streams have in common: one item of a
 *		payload, checked.
 */
#ifndef ATP_FIELD_H
#define ATP_FIELD_H

#include "atp.h"
#include "dagcbor.h"

#define ATP_SEQ_LIMIT		(INT64_C(1) << 53)	/* E-40: exclusive */

/* Text for people and tables: PostgreSQL's text cannot hold U+0000. */
extern AtpErr atp_field_text(const AtpCborItem *item, AtpSpan *out);

extern AtpErr atp_field_did(const AtpCborItem *item, AtpSpan *out);

/* E-40.  A seq that is wrong leaves *seq alone. */
extern AtpErr atp_field_seq(const AtpCborItem *item, int64_t *seq);

#endif							/* ATP_FIELD_H */
