/*
 * value.h
 *		A record as a tree of values, to be written as DAG-CBOR (into frames) and
 *		as JSON (into what the tables must contain).
 */
#ifndef SIM_VALUE_H
#define SIM_VALUE_H

#include "core/codec/cbor_write.h"
#include "util.h"

#define VALUES_MAX	96
#define TEXTS_MAX	16384		/* bytes of all texts of a record */
#define JSON_MAX	(8 * TEXTS_MAX)

typedef enum ValueKind
{
	VALUE_MAP,
	VALUE_LIST,
	VALUE_TEXT,
	VALUE_INTEGER,
	VALUE_BOOL,
	VALUE_LINK
} ValueKind;

typedef struct Value
{
	ValueKind	kind;
	const char *key;			/* NULL in a list, and of the record itself */
	const char *text;
	size_t		len;
	int64_t		n;
	uint8_t		cid[ATP_CID_BLESSED_LEN];
	unsigned	count;			/* members */
	struct Value *first;		/* in the order of DAG-CBOR: shorter keys first */
	struct Value *next;
} Value;

typedef struct Values
{
	Value		value[VALUES_MAX];
	unsigned	n;
	char		text[TEXTS_MAX];
	size_t		text_len;
} Values;

/* Begins a record: an empty map. */
extern Value *value_record(Values *v);

/* Adds a member to a map, or to a list (key NULL). */
extern Value *value_map(Values *v, Value *parent, const char *key);
extern Value *value_list(Values *v, Value *parent, const char *key);
extern void value_text(Values *v, Value *parent, const char *key, const char *fmt,...)
	__attribute__((format(printf, 4, 5)));
extern void value_integer(Values *v, Value *parent, const char *key, int64_t n);
extern void value_bool(Values *v, Value *parent, const char *key, bool b);
extern void value_link(Values *v, Value *parent, const char *key, const uint8_t cid[ATP_CID_BLESSED_LEN]);

extern void value_cbor(const Value *value, AtpCborWriter *w);

/*
 * The JSON that expect.py prints: members sorted by their keys' bytes, no
 * spaces, characters as they are.  Returns its length; out holds JSON_MAX bytes.
 */
extern size_t value_json(const Value *value, char *out);

#endif							/* SIM_VALUE_H */
