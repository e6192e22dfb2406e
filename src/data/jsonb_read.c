/*
 * jsonb_read.c
 *		Converts jsonb to canonical DAG-CBOR: see jsonb_read.h.
 *
 * jsonb keeps an object's keys sorted by length, then bytes, and unique.  This
 * is also DAG-CBOR's order, so the members are written in jsonb's order.  An
 * object with the key "$link" or "$bytes" is a link or a byte string (B-25),
 * and must have no other key.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/numeric.h"

#include "core/syntax/base64.h"
#include "core/codec/cbor_write.h"
#include "core/codec/cid.h"
#include "core/codec/dagcbor.h"
#include "data/jsonb_read.h"

/* Members between two checks for interrupts. */
#define INTERRUPT_STRIDE	4096

/* Writes an integer of the range -2^64 to 2^64 - 1, given as text: no integer type covers this range. */
static AtpErr
put_integer(AtpCborWriter *w, const char *s)
{
	bool		negative = *s == '-';
	uint64_t	u = 0;			/* the number so far; after the last digit of a negative number -n, n - 1 */

	for (s += negative; *s != '\0'; s++)
	{
		unsigned	digit = (unsigned) (*s - '0');
		bool		minus_one = negative && s[1] == '\0';

		if (digit > 9)
			return ATP_E_JSON_FRACTION;
		if (u > UINT64_MAX / 10 ||
			(u == UINT64_MAX / 10 && digit > UINT64_MAX % 10 + minus_one))
			return ATP_E_JSON_INTEGER;
		u = u * 10 + digit - minus_one;
	}
	if (negative)
		atp_cbor_put_nint(w, u);
	else
		atp_cbor_put_uint(w, u);
	return ATP_OK;
}

/* A number such as 123.0 is an integer (B-21). */
static AtpErr
put_numeric(AtpCborWriter *w, Numeric number)
{
	char	   *s = numeric_normalize(number);
	AtpErr		err = put_integer(w, s);

	pfree(s);
	return err;
}

/* Writes a link or byte string, given the value of its only member. */
static AtpErr
put_special(AtpCborWriter *w, const JsonbValue *value, bool is_link)
{
	const AtpErr wrong = is_link ? ATP_E_JSON_LINK : ATP_E_JSON_BYTES;
	const char *s = value->val.string.val;
	size_t		n;
	AtpErr		err = wrong;

	if (value->type != jbvString)
		return wrong;
	n = value->val.string.len;
	if (is_link)
	{
		uint8_t		cid[ATP_CID_MAX];
		size_t		len;
		size_t		at;

		if (atp_cid_parse(s, n, cid, &len, &at) == ATP_OK)
		{
			atp_cbor_put_link(w, cid, len);
			err = ATP_OK;
		}
	}
	else
	{
		uint8_t    *bytes = palloc(n + 1);
		size_t		len;
		bool		exact;

		if (atp_base64_decode(s, n, bytes, &len, &exact) && exact)
		{
			atp_cbor_put_bytes(w, bytes, len);
			err = ATP_OK;
		}
		pfree(bytes);
	}
	return err;
}

/* "$link" or "$bytes", if the object has this key; *value is its value. */
static const char *
special_key(JsonbContainer *object, JsonbValue *value)
{
	static const char *const keys[] = {"$link", "$bytes"};

	for (int i = 0; i < lengthof(keys); i++)
	{
		if (getKeyJsonValueFromContainer(object, keys[i], strlen(keys[i]), value) != NULL)
			return keys[i];
	}
	return NULL;
}

/* Begins an object; *special: the object was a link or byte string, and is already written. */
static AtpErr
put_object(AtpCborWriter *w, JsonbContainer *object, uint32_t pairs, bool *special)
{
	JsonbValue	value;
	const char *key = special_key(object, &value);
	bool		is_link;

	*special = key != NULL;
	if (key == NULL)
	{
		atp_cbor_put_map(w, pairs);
		return ATP_OK;
	}
	is_link = strcmp(key, "$link") == 0;
	if (pairs != 1)
		return is_link ? ATP_E_JSON_LINK : ATP_E_JSON_BYTES;
	return put_special(w, &value, is_link);
}

static AtpErr
put_scalar(AtpCborWriter *w, const JsonbValue *v)
{
	switch (v->type)
	{
		case jbvNull:
			atp_cbor_put_null(w);
			return ATP_OK;
		case jbvBool:
			atp_cbor_put_bool(w, v->val.boolean);
			return ATP_OK;
		case jbvString:
			atp_cbor_put_text(w, v->val.string.val, v->val.string.len);
			return ATP_OK;
		case jbvNumeric:
			return put_numeric(w, v->val.numeric);
		default:
			elog(ERROR, "unexpected jsonb value type: %d", (int) v->type);
			return ATP_OK;		/* not reached */
	}
}

/* If w is too small, w->len is the size that is needed. */
static AtpErr
write_jsonb(Jsonb *jb, AtpCborWriter *w)
{
	JsonbIterator *it = JsonbIteratorInit(&jb->root);
	JsonbIteratorToken token;
	JsonbValue	v;
	unsigned	depth = 0;
	unsigned	steps = 0;
	bool		special = false;	/* within a link or byte string, which is already written */
	AtpErr		err = ATP_OK;

	while (err == ATP_OK && (token = JsonbIteratorNext(&it, &v, false)) != WJB_DONE)
	{
		if (++steps % INTERRUPT_STRIDE == 0)
			CHECK_FOR_INTERRUPTS();
		switch (token)
		{
			case WJB_BEGIN_ARRAY:
				if (v.val.array.rawScalar)
					break;
				atp_cbor_put_array(w, v.val.array.nElems);
				depth++;
				break;
			case WJB_BEGIN_OBJECT:
				err = put_object(w, it->container, v.val.object.nPairs, &special);
				depth += special ? 0 : 1;
				break;
			case WJB_END_ARRAY:
				if (!JB_ROOT_IS_SCALAR(jb))
					depth--;
				break;
			case WJB_END_OBJECT:
				depth -= special ? 0 : 1;
				special = false;
				break;
			case WJB_KEY:
				if (!special)
					atp_cbor_put_text(w, v.val.string.val, v.val.string.len);
				break;
			case WJB_VALUE:
			case WJB_ELEM:
				if (!special)
					err = put_scalar(w, &v);
				break;
			default:
				break;
		}
		if (depth > ATP_CBOR_DEPTH_DEFAULT)
			err = ATP_E_CBOR_DEPTH;
	}
	return err;
}

AtpErr
atp_dagcbor_of_jsonb(Jsonb *jb, bytea **result)
{
	AtpCborWriter w = {.len = VARSIZE(jb)};

	/* CBOR is rarely longer than jsonb.  If it is, the first attempt returns the size needed. */
	*result = NULL;
	do
	{
		AtpErr		err;

		if (*result != NULL)
			pfree(*result);
		*result = palloc(VARHDRSZ + w.len);
		w = (AtpCborWriter) {.buf = (uint8_t *) VARDATA(*result), .cap = w.len};
		if ((err = write_jsonb(jb, &w)) != ATP_OK)
			return err;
	} while (w.len > w.cap);
	SET_VARSIZE(*result, VARHDRSZ + w.len);
	return ATP_OK;
}
