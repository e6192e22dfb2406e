/*
 * members.c
 *		The members of a message that this version does not know: see members.h.
 */
#include "core/codec/dagcbor.h"
#include "core/codec/field.h"
#include "core/codec/json.h"
#include "core/wire/members.h"

/* A name with its length: each member of a message is compared with up to NAMES_MAX names. */
typedef struct MemberName
{
	size_t		len;
	char		text[12];
} MemberName;

#define N(text)		{sizeof(text) - 1, text}

/*
 * S-11: what names a space and its author in proposal 0016 (19 August 2026), and "kind", of which every value is
 * unknown to this version.
 */
#define SPACE	N("space"), N("spaceDid"), N("spaceType"), N("skey"), N("authorDid"), N("kind")

/* The members of a space's signed commit that a public commit does not have. */
#define SPACE_COMMIT	SPACE, N("hash"), N("ikm"), N("mac")

#define NAMES_MAX	16

/* D25: "rebase", "tooBig" and "blobs" of a #commit are known, though no reader needs them any more. */
static const struct
{
	const char *name;
	MemberName	known[NAMES_MAX];
	MemberName	qualifies[NAMES_MAX];
}			kinds[ATP_OF_COUNT] = {
	[ATP_OF_FRAME] = {"frame", {N("t"), N("op"), N("$type"), N("error"), N("message"), N("payload")}, {SPACE}},
	[ATP_OF_JSON_FRAME] = {"frame", {N("$type"), N("payload"), N("error"), N("message")}, {SPACE}},
	[ATP_OF_COMMIT] = {
		"#commit",
		{N("ops"), N("rev"), N("seq"), N("repo"), N("time"), N("$type"), N("blobs"), N("since"), N("blocks"), N("commit"), N("rebase"), N("tooBig"), N("prevData")},
		{SPACE_COMMIT}
	},
	[ATP_OF_SYNC] = {"#sync", {N("did"), N("rev"), N("seq"), N("time"), N("$type"), N("blocks")}, {SPACE_COMMIT}},
	[ATP_OF_IDENTITY] = {"#identity", {N("did"), N("seq"), N("time"), N("$type"), N("handle")}, {SPACE}},
	[ATP_OF_ACCOUNT] = {"#account", {N("did"), N("seq"), N("time"), N("$type"), N("active"), N("status")}, {SPACE}},
	[ATP_OF_INFO] = {"#info", {N("seq"), N("name"), N("$type"), N("message")}, {SPACE}},
	[ATP_OF_OP] = {"op", {N("cid"), N("path"), N("prev"), N("$type"), N("action")}, {SPACE}},
	[ATP_OF_SIGNED] = {"signed", {N("did"), N("rev"), N("sig"), N("data"), N("prev"), N("version")}, {SPACE_COMMIT}},
	[ATP_OF_JETSTREAM_V1] = {
		"jetstream", {N("did"), N("kind"), N("commit"), N("cursor"), N("account"), N("time_us"), N("identity")},
		{N("space"), N("spaceDid"), N("spaceType"), N("skey"), N("authorDid")}
	},
	[ATP_OF_JETSTREAM_V1_COMMIT] = {"#commit", {N("cid"), N("rev"), N("rkey"), N("record"), N("operation"), N("collection")}, {SPACE}},
	[ATP_OF_JETSTREAM_V2] = {
		"jetstream",
		{
			N("cid"), N("did"), N("rev"), N("seq"), N("name"), N("rkey"), N("sync"), N("time"), N("$type"), N("record"), N("account"), N("message"), N("identity"),
			N("operation"), N("collection")
		},
		{SPACE}
	},
	[ATP_OF_LABELS] = {"#labels", {N("seq"), N("$type"), N("labels")}, {SPACE}},
	[ATP_OF_LABEL] = {"label", {N("cid"), N("cts"), N("exp"), N("neg"), N("sig"), N("src"), N("uri"), N("val"), N("ver"), N("$type")}, {SPACE}},
};

static bool
has_name(const MemberName *names, AtpSpan name)
{
	for (unsigned i = 0; i < NAMES_MAX && names[i].len > 0; i++)
		if (names[i].len == name.len && memcmp(names[i].text, name.ptr, name.len) == 0)
			return true;
	return false;
}

const char *
atp_member_of_name(AtpMemberOf of)
{
	return kinds[of].name;
}

bool
atp_member_is_known(AtpMemberOf of, AtpSpan name)
{
	return has_name(kinds[of].known, name);
}

bool
atp_member_qualifies(AtpMemberOf of, AtpSpan name)
{
	return has_name(kinds[of].qualifies, name);
}

/* Walks through a map whose head r has delivered. */
static AtpErr
walk_map(AtpCborReader *r, const AtpCborItem *head, AtpMemberOf of, AtpMemberSee see, void *ctx)
{
	AtpFields	fields = atp_fields(r, head);
	AtpSpan		key;
	AtpCborItem item;
	AtpErr		err;
	size_t		at;

	while ((err = atp_fields_next(&fields, &key, &item, &at)) == ATP_OK)
	{
		if (!atp_member_is_known(of, key))
			see(ctx, of, key, item.kind == ATP_CBOR_NULL);
		if (of != ATP_OF_COMMIT || item.kind != ATP_CBOR_ARRAY || !atp_span_is(key, "ops"))
			continue;
		for (uint64_t n = item.u; n > 0; n--)
		{
			unsigned	depth = r->depth;
			AtpCborItem op;

			if ((err = atp_cbor_next(r, &op, &at)) != ATP_OK)
				return err;
			err = op.kind == ATP_CBOR_MAP ? walk_map(r, &op, ATP_OF_OP, see, ctx) : atp_cbor_finish(r, depth, &at);
			if (err != ATP_OK)
				return err;
		}
	}
	return err == ATP_E_CBOR_END ? ATP_OK : err;
}

void
atp_members_cbor(AtpBytes map, AtpMemberOf of, AtpMemberSee see, void *ctx)
{
	AtpCborReader r;
	AtpCborItem item;
	size_t		at;

	atp_cbor_init(&r, map.ptr, map.len, ATP_CBOR_DEPTH_MAX);
	if (atp_cbor_next(&r, &item, &at) == ATP_OK && item.kind == ATP_CBOR_MAP)
		(void) walk_map(&r, &item, of, see, ctx);
}

void
atp_members_json(AtpSpan object, AtpMemberOf of, AtpMemberSee see, void *ctx)
{
	AtpJsonReader r;
	AtpJsonItem key;
	AtpJsonItem value;
	size_t		at;

	atp_json_init(&r, object.ptr, object.len, ATP_JSON_DEPTH_DEFAULT);
	if (atp_json_next(&r, &key, &at) != ATP_OK || key.kind != ATP_JSON_OBJECT)
		return;
	while (atp_json_next(&r, &key, &at) == ATP_OK && key.kind == ATP_JSON_KEY &&
		   atp_json_next(&r, &value, &at) == ATP_OK && atp_json_measure(&r, &value, &at) == ATP_OK)
	{
		char		text[128];
		AtpSpan		name = key.raw;
		size_t		n;

		/* a key that is too long for text, or no text, is no known member, whatever its escapes mean */
		if (key.escaped && atp_json_text(&key, text, sizeof(text), &n))
			name = (AtpSpan) {text, n};
		if (!atp_member_is_known(of, name))
			see(ctx, of, name, value.kind == ATP_JSON_NULL);
		else if (of == ATP_OF_JETSTREAM_V1 && atp_span_is(name, "commit"))
			atp_members_json(value.raw, ATP_OF_JETSTREAM_V1_COMMIT, see, ctx);
	}
}
