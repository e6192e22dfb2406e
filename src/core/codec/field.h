/*
 * field.h
 *		The fields of a map, and those that messages of several streams have in
 *		common: one item of a payload, checked.
 */
#ifndef ATP_FIELD_H
#define ATP_FIELD_H

#include "core/atp.h"
#include "core/codec/dagcbor.h"

#define ATP_SEQ_LIMIT		(INT64_C(1) << 53)	/* E-40: exclusive */

/*
 * The fields of a map, one after the other.  What nobody reads of a value that is
 * a container is read over.
 */
typedef struct AtpFields
{
	AtpCborReader *r;
	uint64_t	left;			/* pairs still to come */
	unsigned	depth;			/* of the map's members */
} AtpFields;

/* Of a map whose head r has just delivered. */
static inline AtpFields
atp_fields(AtpCborReader *r, const AtpCborItem *head)
{
	return (AtpFields) {r, head->u, r->depth};
}

/* ATP_E_CBOR_END after the last; *at as atp_cbor_next() sets it. */
static inline AtpErr
atp_fields_next(AtpFields *fields, AtpSpan *key, AtpCborItem *value, size_t *at)
{
	AtpErr		err;

	if ((err = atp_cbor_finish(fields->r, fields->depth, at)) != ATP_OK)
		return err;
	if (fields->left-- == 0)
		return ATP_E_CBOR_END;
	if ((err = atp_cbor_next(fields->r, value, at)) != ATP_OK)
		return err;
	*key = atp_cbor_span(value);
	return atp_cbor_next(fields->r, value, at);
}

/* Text for people and tables: PostgreSQL's text cannot hold U+0000. */
extern AtpErr atp_field_text(const AtpCborItem *item, AtpSpan *out);

extern AtpErr atp_field_did(const AtpCborItem *item, AtpSpan *out);

/* E-40.  A seq that is wrong leaves *seq alone. */
extern AtpErr atp_field_seq(const AtpCborItem *item, int64_t *seq);

#endif							/* ATP_FIELD_H */
