/*
 * field.h
 *		Iterates over the fields of a DAG-CBOR map, and checks fields that the
 *		messages of several streams share.
 */
#ifndef ATP_FIELD_H
#define ATP_FIELD_H

#include "core/atp.h"
#include "core/codec/dagcbor.h"

#define ATP_SEQ_LIMIT		(INT64_C(1) << 53)	/* E-40: exclusive */

/*
 * The fields of a map, a field per call.  If a value is a container, the members
 * that the caller did not read are skipped.
 */
typedef struct AtpFields
{
	AtpCborReader *r;
	uint64_t	left;			/* pairs still to come */
	unsigned	depth;			/* of the map's members */
} AtpFields;

/* head is the item of the map, which r has just delivered. */
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

/* A text for a column of type text, which cannot hold U+0000. */
extern AtpErr atp_field_text(const AtpCborItem *item, AtpSpan *out);

extern AtpErr atp_field_did(const AtpCborItem *item, AtpSpan *out);

/* E-40.  An invalid seq leaves *seq unchanged. */
extern AtpErr atp_field_seq(const AtpCborItem *item, int64_t *seq);

#endif							/* ATP_FIELD_H */
