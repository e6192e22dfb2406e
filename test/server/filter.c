/*
 * filter.c
 *		Filters of Jetstream's two versions.
 */
#include "filter.h"

#include <stdlib.h>
#include <string.h>

static void
names_add(Names *names, char *name)
{
	names->name = xrealloc(names->name, (names->n + 1) * sizeof *names->name);
	names->name[names->n++] = name;
}

static void
names_free(Names *names)
{
	for (size_t i = 0; i < names->n; i++)
		free(names->name[i]);
	free(names->name);
	*names = (Names) {0};
}

static bool
names_have(const Names *names, Slice s)
{
	for (size_t i = 0; i < names->n; i++)
		if (slice_is(s, names->name[i]))
			return true;
	return false;
}

/* A collection, or the beginning of some: "app.bsky.*". */
static bool
collections_match(const Names *names, Slice s)
{
	for (size_t i = 0; i < names->n; i++)
	{
		const char *name = names->name[i];
		size_t		n = strlen(name);

		if (n > 2 && strcmp(name + n - 2, ".*") == 0 ? s.len >= n - 1 && memcmp(s.p, name, n - 1) == 0 : slice_is(s, name))
			return true;
	}
	return false;
}

static bool
is_collection(const char *name)
{
	const char *dot = strchr(name, '.');
	size_t		n = strlen(name);

	return (n > 2 && strcmp(name + n - 2, ".*") == 0) ||
		(strchr(name, '*') == NULL && dot != NULL && strchr(dot + 1, '.') != NULL);
}

static const char *
check(const Filter *f)
{
	if (f->collections.n > FILTER_COLLECTIONS_MAX)
		return "too many collections";
	if (f->dids.n > FILTER_DIDS_MAX)
		return "too many DIDs";
	for (size_t i = 0; i < f->collections.n; i++)
		if (!is_collection(f->collections.name[i]))
			return "invalid collection";
	for (size_t i = 0; i < f->dids.n; i++)
		if (strncmp(f->dids.name[i], "did:", 4) != 0)
			return "invalid DID";
	return NULL;
}

static void
all_values(Names *names, const Request *r, const char *parameter)
{
	char	   *value;

	for (size_t i = 0; (value = http_parameter(r, parameter, i)) != NULL; i++)
		names_add(names, value);
}

static int64_t
size_of(const Request *r)
{
	char	   *text = http_parameter(r, "maxMessageSizeBytes", 0);
	int64_t		v = text ? strtoll(text, NULL, 10) : 0;

	free(text);
	return v > 0 ? v : 0;
}

static bool
has(const Request *r, const char *parameter)
{
	char	   *value = http_parameter(r, parameter, 0);

	free(value);
	return value != NULL;
}

const char *
filter_query(Filter *f, const Request *r, Wire wire)
{
	static const char *const kinds[] = {"commit", "identity", "account", "sync"};

	f->size_max = size_of(r);
	if (wire == WIRE_JETSTREAM)
	{
		all_values(&f->collections, r, "wantedCollections");
		all_values(&f->dids, r, "wantedDids");
		return check(f);
	}
	if (has(r, "wantedCollections") || has(r, "wantedDids") || has(r, "compress"))
		return "a parameter of the first version";
	all_values(&f->kinds, r, "kinds");
	all_values(&f->collections, r, "collections");
	all_values(&f->dids, r, "dids");
	for (size_t i = 0; i < f->kinds.n; i++)
	{
		bool		known = false;

		for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
			known |= strcmp(f->kinds.name[i], kinds[k]) == 0;
		if (!known)
			return "unknown kind";
	}
	if (f->kinds.n > 0 && f->collections.n > 0 && !names_have(&f->kinds, (Slice) {"commit", 6}))
		return "collections without kind commit";
	return check(f);
}

bool
filter_update(Filter *f, Slice text)
{
	Slice		type,
				payload,
				array,
				value;

	if (!json_string(text, "type", &type) || !slice_is(type, "options_update") || !json_member(text, "payload", &payload))
		return false;
	filter_free(f);
	if (json_member(payload, "wantedCollections", &array))
		while (json_next_string(&array, &value))
			names_add(&f->collections, strndup(value.p, value.len));
	if (json_member(payload, "wantedDids", &array))
		while (json_next_string(&array, &value))
			names_add(&f->dids, strndup(value.p, value.len));
	if (!json_number(payload, "maxMessageSizeBytes", &f->size_max) || f->size_max < 0)
		f->size_max = 0;
	return check(f) == NULL;
}

bool
filter_passes(const Filter *f, const Message *m)
{
	if (f->size_max > 0 && m->len > (size_t) f->size_max)
		return false;
	if (f->kinds.n > 0 && !names_have(&f->kinds, m->kind))
		return false;
	if (f->dids.n > 0 && !names_have(&f->dids, m->did))
		return false;
	return f->collections.n == 0 || !slice_is(m->kind, "commit") || collections_match(&f->collections, m->collection);
}

void
filter_free(Filter *f)
{
	names_free(&f->kinds);
	names_free(&f->collections);
	names_free(&f->dids);
	*f = (Filter) {0};
}
