/*
 * test_members.c
 *		Members of messages that this version does not know (S-11), and the parts of the URIs of spaces (S-01, S-03).
 */
#include "core/codec/json_dagcbor.h"
#include "core/syntax/uri_space.h"
#include "core/wire/members.h"
#include "unit.h"

/* What the walk has named, each as "object.name"; '!' before those that qualify, '0' before those that are null. */
static char seen[4096];

static void
note(void *ctx, AtpMemberOf of, AtpSpan name, bool is_null)
{
	size_t		n = strlen(seen);

	(*(int *) ctx)++;
	snprintf(seen + n, sizeof(seen) - n, "%s%s%s%s.%.*s", n > 0 ? " " : "", is_null ? "0" : "",
			 atp_member_qualifies(of, name) ? "!" : "", atp_member_of_name(of), (int) name.len, name.ptr);
}

static void
in_cbor(AtpMemberOf of, const char *json, const char *expected)
{
	static uint8_t room[65536];
	AtpBytes	cbor;
	size_t		at;
	int			n = 0;

	seen[0] = '\0';
	if (atp_json_to_dagcbor(json, strlen(json), room, sizeof(room), &cbor, &at) == ATP_OK)
		atp_members_cbor(cbor, of, note, &n);
	ok(strcmp(seen, expected) == 0, "DAG-CBOR: %s has \"%s\"", json, seen);
}

static void
in_json(AtpMemberOf of, const char *json, const char *expected)
{
	int			n = 0;

	seen[0] = '\0';
	atp_members_json((AtpSpan) {json, strlen(json)}, of, note, &n);
	ok(strcmp(seen, expected) == 0, "JSON: %s has \"%s\"", json, seen);
}

static void
space_is(const char *text, const char *space, const char *parts)
{
	char		found[256] = "";
	AtpUriSpace s;
	AtpUri		uri;
	size_t		at;
	bool		is = atp_uri_parse(ATP_SCHEME_AT, text, strlen(text), &uri, &at) == ATP_OK && atp_uri_space(&uri, &s);

	if (is)
		snprintf(found, sizeof(found), "%.*s %.*s %.*s %.*s %.*s", (int) s.type.len, s.type.ptr, (int) s.skey.len, s.skey.ptr,
				 (int) s.author.len, s.author.ptr, (int) s.collection.len, s.collection.ptr, (int) s.rkey.len, s.rkey.ptr);
	ok(space == NULL ? !is : is && (size_t) (s.end - text) == strlen(space) && memcmp(text, space, strlen(space)) == 0 && strcmp(found, parts) == 0,
	   "S-01, S-03: %s: %s", text, found);
}

int
main(void)
{
	static char many[65536];

	in_cbor(ATP_OF_COMMIT, "{\"ops\":[{\"action\":\"create\",\"path\":\"x\",\"cid\":null,\"prev\":null}],\"rev\":\"\",\"seq\":1,\"repo\":\"\",\"time\":\"\","
			"\"blobs\":[],\"since\":null,\"blocks\":\"\",\"commit\":\"\",\"rebase\":false,\"tooBig\":false,\"prevData\":null}", "");
	in_cbor(ATP_OF_COMMIT, "{\"space\":\"x\",\"ops\":[],\"hash\":1,\"kind\":2}", "!#commit.hash !#commit.kind !#commit.space");
	in_cbor(ATP_OF_COMMIT, "{\"ops\":[1,[{\"space\":1}],{\"space\":1},{\"a\":{\"space\":1}}]}", "!op.space op.a");
	in_cbor(ATP_OF_COMMIT, "{\"ops\":{\"space\":1},\"space\":null,\"Space\":1}", "#commit.Space 0!#commit.space");
	in_cbor(ATP_OF_SYNC, "{\"ops\":[{\"space\":1}],\"ikm\":1,\"did\":1}", "!#sync.ikm #sync.ops");
	in_cbor(ATP_OF_SIGNED, "{\"did\":1,\"rev\":1,\"sig\":1,\"data\":1,\"prev\":1,\"version\":3,\"mac\":1}", "!signed.mac");
	in_cbor(ATP_OF_LABEL, "{\"src\":1,\"uri\":1,\"mac\":1,\"skey\":1}", "label.mac !label.skey");
	in_cbor(ATP_OF_IDENTITY, "[{\"space\":1}]", "");
	in_json(ATP_OF_JETSTREAM_V1, "{\"did\":1,\"time_us\":1,\"cursor\":1,\"kind\":\"commit\",\"commit\":{\"rev\":1,\"record\":{\"space\":1},\"space\":1},\"sp\\u0061ce\":1}",
			"!#commit.space !jetstream.space");
	in_json(ATP_OF_JETSTREAM_V1, "{\"commit\":[{\"space\":1}],\"\\ud800\":1}", "jetstream.\\ud800");
	in_json(ATP_OF_JETSTREAM_V2, "{\"$type\":1,\"identity\":{\"space\":1},\"kind\":\"x\",\"space\":null}", "!jetstream.kind 0!jetstream.space");
	in_json(ATP_OF_JSON_FRAME, "{\"payload\":{\"space\":1},\"space\":[[{}]],\"x\":1} ", "!frame.space frame.x");

	/* a record that is nested too deep for the reader hides no member behind it */
	memset(many, '[', 20000);
	memset(many + 20000, ']', 20000);
	memcpy(many, "{\"commit\":{\"record\":", 20);
	strcpy(many + 39980, "},\"space\":1}");
	in_json(ATP_OF_JETSTREAM_V1, many, "!jetstream.space");

	for (AtpMemberOf of = 0; of < ATP_OF_COUNT; of++)
		ok(atp_member_qualifies(of, (AtpSpan) {"space", 5}) && !atp_member_is_known(of, (AtpSpan) {"space", 5}), "S-11: space in %s", atp_member_of_name(of));

	space_is("at://did:web:a/space/a.b.c/d", "at://did:web:a/space/a.b.c/d", "a.b.c d   ");
	space_is("at://did:web:a/space/a.b.c/d/did:web:e/f.g.h/i?q#/f", "at://did:web:a/space/a.b.c/d", "a.b.c d did:web:e f.g.h i");
	space_is("at://did:web:a/space/a.b.c", NULL, "");
	space_is("at://did:web:a/space/a.b.c/d/did:web:e", NULL, "");
	space_is("at://did:web:a/Space/a.b.c/d", NULL, "");
	space_is("at://a.b/space/a.b.c/d", NULL, "");
	return done_testing();
}
