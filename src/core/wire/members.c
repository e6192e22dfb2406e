/*
 * members.c
 *		The members of a message that this version does not know: see members.h.
 */
#include "core/codec/dagcbor.h"
#include "core/codec/field.h"
#include "core/codec/json.h"
#include "core/wire/members.h"

/*
 * S-11: what names a space and its author in proposal 0016 (19 August 2026), and "kind", of which every value is
 * unknown to this version.
 */
#define SPACE	"space", "spaceDid", "spaceType", "skey", "authorDid", "kind"

/* The members of a space's signed commit that a public commit does not have. */
#define SPACE_COMMIT	SPACE, "hash", "ikm", "mac"

#define NAMES_MAX	16

/* D25: "rebase", "tooBig" and "blobs" of a #commit are known, though no reader needs them any more. */
static const struct
{
	const char *name;
	const char *known[NAMES_MAX];
	const char *qualifies[NAMES_MAX];
}			kinds[ATP_OF_COUNT] = {
	[ATP_OF_FRAME] = {"frame", {"t", "op", "$type", "error", "message", "payload"}, {SPACE}},
	[ATP_OF_JSON_FRAME] = {"frame", {"$type", "payload", "error", "message"}, {SPACE}},
	[ATP_OF_COMMIT] = {
		"#commit",
		{"ops", "rev", "seq", "repo", "time", "$type", "blobs", "since", "blocks", "commit", "rebase", "tooBig", "prevData"},
		{SPACE_COMMIT}
	},
	[ATP_OF_SYNC] = {"#sync", {"did", "rev", "seq", "time", "$type", "blocks"}, {SPACE_COMMIT}},
	[ATP_OF_IDENTITY] = {"#identity", {"did", "seq", "time", "$type", "handle"}, {SPACE}},
	[ATP_OF_ACCOUNT] = {"#account", {"did", "seq", "time", "$type", "active", "status"}, {SPACE}},
	[ATP_OF_INFO] = {"#info", {"seq", "name", "$type", "message"}, {SPACE}},
	[ATP_OF_OP] = {"op", {"cid", "path", "prev", "$type", "action"}, {SPACE}},
	[ATP_OF_SIGNED] = {"signed", {"did", "rev", "sig", "data", "prev", "version"}, {SPACE_COMMIT}},
	[ATP_OF_JETSTREAM_V1] = {
		"jetstream", {"did", "kind", "commit", "cursor", "account", "time_us", "identity"},
		{"space", "spaceDid", "spaceType", "skey", "authorDid"}
	},
	[ATP_OF_JETSTREAM_V1_COMMIT] = {"#commit", {"cid", "rev", "rkey", "record", "operation", "collection"}, {SPACE}},
	[ATP_OF_JETSTREAM_V2] = {
		"jetstream",
		{
			"cid", "did", "rev", "seq", "name", "rkey", "sync", "time", "$type", "record", "account", "message", "identity",
			"operation", "collection"
		},
		{SPACE}
	},
	[ATP_OF_LABELS] = {"#labels", {"seq", "$type", "labels"}, {SPACE}},
	[ATP_OF_LABEL] = {"label", {"cid", "cts", "exp", "neg", "sig", "src", "uri", "val", "ver", "$type"}, {SPACE}},
};

static bool
has_name(const char *const *names, AtpSpan name)
{
	for (unsigned i = 0; i < NAMES_MAX && names[i] != NULL; i++)
		if (atp_span_is(name, names[i]))
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
