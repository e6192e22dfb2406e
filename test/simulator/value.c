/*
 * value.c
 *		Records as trees of values, and their two encodings.
 */
#include "value.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include "protocol/cbor.h"

#define MEMBERS_MAX	32			/* of one map */

static Value *
new_value(Values *v, ValueKind kind, const char *key)
{
	Value	   *value;

	if (v->n == VALUES_MAX)
		die("a record of more than %d values", VALUES_MAX);
	value = &v->value[v->n++];
	*value = (Value) {.kind = kind, .key = key};
	return value;
}

static bool
comes_before(const Value *a, const Value *b)
{
	size_t		an = strlen(a->key);
	size_t		bn = strlen(b->key);

	return an != bn ? an < bn : memcmp(a->key, b->key, an) < 0;
}

static Value *
add(Values *v, Value *parent, ValueKind kind, const char *key)
{
	Value	   *value = new_value(v, kind, key);
	Value	  **at = &parent->first;

	while (*at != NULL && (key == NULL || comes_before(*at, value)))
		at = &(*at)->next;
	value->next = *at;
	*at = value;
	parent->count++;
	return value;
}

Value *
value_record(Values *v)
{
	v->n = 0;
	v->text_len = 0;
	return new_value(v, VALUE_MAP, NULL);
}

Value *
value_map(Values *v, Value *parent, const char *key)
{
	return add(v, parent, VALUE_MAP, key);
}

Value *
value_list(Values *v, Value *parent, const char *key)
{
	return add(v, parent, VALUE_LIST, key);
}

void
value_text(Values *v, Value *parent, const char *key, const char *fmt,...)
{
	Value	   *value = add(v, parent, VALUE_TEXT, key);
	size_t		room = TEXTS_MAX - v->text_len;
	va_list		args;
	int			len;

	va_start(args, fmt);
	len = vsnprintf(v->text + v->text_len, room, fmt, args);
	va_end(args);
	if (len < 0 || (size_t) len >= room)
		die("a record's texts have more than %d bytes", TEXTS_MAX);
	value->text = v->text + v->text_len;
	value->len = (size_t) len;
	v->text_len += (size_t) len;
}

void
value_integer(Values *v, Value *parent, const char *key, int64_t n)
{
	add(v, parent, VALUE_INTEGER, key)->n = n;
}

void
value_bool(Values *v, Value *parent, const char *key, bool b)
{
	add(v, parent, VALUE_BOOL, key)->n = b;
}

void
value_link(Values *v, Value *parent, const char *key, const uint8_t cid[ATP_CID_BLESSED_LEN])
{
	memcpy(add(v, parent, VALUE_LINK, key)->cid, cid, ATP_CID_BLESSED_LEN);
}

void
value_cbor(const Value *value, AtpCborWriter *w)
{
	switch (value->kind)
	{
		case VALUE_MAP:
			atp_cbor_put_map(w, value->count);
			break;
		case VALUE_LIST:
			atp_cbor_put_array(w, value->count);
			break;
		case VALUE_TEXT:
			atp_cbor_put_text(w, value->text, value->len);
			break;
		case VALUE_INTEGER:
			atp_cbor_put_int(w, value->n);
			break;
		case VALUE_BOOL:
			atp_cbor_put_bool(w, value->n);
			break;
		case VALUE_LINK:
			atp_cbor_put_link(w, value->cid, sizeof value->cid);
			break;
	}
	for (const Value *member = value->first; member != NULL; member = member->next)
	{
		if (member->key != NULL)
			atp_cbor_put_key(w, member->key);
		value_cbor(member, w);
	}
}

/* --- JSON --- */

typedef struct Json
{
	char	   *out;
	size_t		len;
} Json;

static void
put(Json *j, const char *s, size_t n)
{
	if (n > JSON_MAX - j->len)
		die("a record's JSON has more than %d bytes", JSON_MAX);
	memcpy(j->out + j->len, s, n);
	j->len += n;
}

static void
put_string(Json *j, const char *s, size_t n)
{
	static const char named[] = "\b\f\n\r\t\"\\";
	static const char names[] = "bfnrt\"\\";

	put(j, "\"", 1);
	for (size_t i = 0; i < n; i++)
	{
		const char *found = s[i] == '\0' ? NULL : strchr(named, s[i]);
		char		escape[8];

		if (found != NULL)
			put(j, escape, (size_t) sprintf(escape, "\\%c", names[found - named]));
		else if ((unsigned char) s[i] < ' ')
			put(j, escape, (size_t) sprintf(escape, "\\u%04x", s[i]));
		else
			put(j, s + i, 1);
	}
	put(j, "\"", 1);
}

static int
by_key(const void *a, const void *b)
{
	return strcmp((*(const Value *const *) a)->key, (*(const Value *const *) b)->key);
}

static void put_value(Json *j, const Value *value);

static void
put_members(Json *j, const Value *value)
{
	const Value *members[MEMBERS_MAX];
	unsigned	n = 0;

	for (const Value *member = value->first; member != NULL; member = member->next)
	{
		if (n == MEMBERS_MAX)
			die("a map of more than %d members", MEMBERS_MAX);
		members[n++] = member;
	}
	if (value->kind == VALUE_MAP)
		qsort(members, n, sizeof members[0], by_key);
	for (unsigned i = 0; i < n; i++)
	{
		if (i > 0)
			put(j, ",", 1);
		if (value->kind == VALUE_MAP)
		{
			put_string(j, members[i]->key, strlen(members[i]->key));
			put(j, ":", 1);
		}
		put_value(j, members[i]);
	}
}

static void
put_value(Json *j, const Value *value)
{
	char		text[ATP_CID_TEXT_MAX];

	switch (value->kind)
	{
		case VALUE_MAP:
			put(j, "{", 1);
			put_members(j, value);
			put(j, "}", 1);
			break;
		case VALUE_LIST:
			put(j, "[", 1);
			put_members(j, value);
			put(j, "]", 1);
			break;
		case VALUE_TEXT:
			put_string(j, value->text, value->len);
			break;
		case VALUE_INTEGER:
			put(j, text, (size_t) sprintf(text, "%lld", (long long) value->n));
			break;
		case VALUE_BOOL:
			put(j, value->n ? "true" : "false", value->n ? 4 : 5);
			break;
		case VALUE_LINK:
			put(j, "{\"$link\":\"", 10);
			put(j, text, atp_cid_format(value->cid, sizeof value->cid, text));
			put(j, "\"}", 2);
			break;
	}
}

size_t
value_json(const Value *value, char *out)
{
	Json		j = {.out = out};

	put_value(&j, value);
	return j.len;
}
