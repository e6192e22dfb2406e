/*
 * fuzz_link.c
 *		Links of a record in DAG-CBOR: the types of all elements, found in one go, are equal to those found by
 *		looking into each element; every target that the walk finds is a link; reading a written path gives the
 *		same path.
 */
#include <stdlib.h>

#include "core/repo/link.h"
#include "syntax_fuzz.h"

#define TYPES_MAX	4096

extern int	LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The "$type" of the map that begins here, found by reading all members. */
static AtpSpan
type_of(const uint8_t *map, size_t n)
{
	AtpCborReader r;
	AtpCborItem item;
	AtpSpan		type = {NULL, 0};
	size_t		at;

	atp_cbor_init(&r, map, n, ATP_CBOR_DEPTH_MAX);
	CHECK(atp_cbor_next(&r, &item, &at) == ATP_OK && item.kind == ATP_CBOR_MAP);
	for (uint64_t pairs = item.u; pairs > 0; pairs--)
	{
		bool		is_type;

		CHECK(atp_cbor_next(&r, &item, &at) == ATP_OK && item.is_key);
		is_type = atp_span_is(atp_cbor_span(&item), "$type");
		CHECK(atp_cbor_next(&r, &item, &at) == ATP_OK);
		if (is_type && item.kind == ATP_CBOR_TEXT)
			type = atp_cbor_span(&item);
		CHECK(atp_cbor_finish(&r, 1, &at) == ATP_OK);
	}
	return type;
}

/* Reads the names of a path up to the first invalid name; true when the path consists of names only. */
static bool
take_names(AtpSpan path, AtpLinkPath *again)
{
	char	   *buf = malloc(path.len + 1);
	AtpSpan		name;

	again->len = 0;
	while (path.ptr != NULL)
	{
		size_t		left = path.len;

		if (!atp_link_path_take(&path, buf, &name))
			break;
		CHECK(name.len <= left && path.len < left + (path.ptr == NULL));
		atp_link_path_name(again, name);
	}
	free(buf);
	return path.ptr == NULL;
}

static void
found(AtpLinkWalk *walk, AtpSpan target, const AtpUri *uri)
{
	AtpUri		again;
	AtpLinkPath path;
	size_t		at;

	CHECK(walk->path.len <= ATP_LINK_PATH_MAX);
	CHECK(atp_uri_parse(ATP_SCHEME_AT, target.ptr, target.len, &again, &at) == ATP_OK);
	CHECK(again.authority.len == uri->authority.len && again.segments == uri->segments);
	for (size_t i = 0; i < walk->path.len; i++)
		CHECK(walk->path.text[i] > ' ' && walk->path.text[i] < 127);
	/* reading gives the same path, unless the path leads through an array, or nowhere */
	if (take_names((AtpSpan) {walk->path.text, walk->path.len}, &path))
		CHECK(path.len == walk->path.len && memcmp(path.text, walk->path.text, path.len) == 0);
	else
		CHECK(walk->path.len == 0 || memchr(walk->path.text, '[', walk->path.len) != NULL);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static AtpLinkType types[TYPES_MAX];
	static AtpLinkWalk walk;
	bool		is_array[ATP_CBOR_DEPTH_MAX + 1] = {false};
	AtpCborReader r;
	size_t		count;
	size_t		few;
	size_t		elements = 0;
	size_t		at;
	AtpLinkPath path;

	/* any bytes as a path */
	(void) take_names((AtpSpan) {(const char *) data, size}, &path);
	if (atp_link_types(data, size, types, TYPES_MAX, NULL, &count, &at) != ATP_OK || count > TYPES_MAX)
		return 0;
	atp_cbor_init(&r, data, size, ATP_CBOR_DEPTH_MAX);
	do
	{
		unsigned	depth = r.depth;
		AtpCborItem item;

		CHECK(atp_cbor_next(&r, &item, &at) == ATP_OK);
		if (is_array[depth] && item.kind == ATP_CBOR_MAP)
		{
			AtpSpan		type = type_of(data + item.at, size - item.at);

			CHECK(elements < count);
			CHECK(types[elements].len == type.len &&
				  (const uint8_t *) type.ptr == (types[elements].at == 0 ? NULL : data + types[elements].at));
			elements++;
		}
		if (r.depth > depth)
			is_array[r.depth] = item.kind == ATP_CBOR_ARRAY;
	} while (r.depth > 0);
	CHECK(elements == count);
	atp_link_walk_begin(&walk, found, NULL);
	atp_link_walk_items(&walk, data, size, types);
	/* with too little room all types are counted all the same */
	CHECK(atp_link_types(data, size, types, 1, NULL, &few, &at) == ATP_OK && few == count);
	return 0;
}
