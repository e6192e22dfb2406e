/*
 * plc_op.c
 *		Reader of the directory's operations: see plc_op.h.
 */
#include "core/codec/cbor_write.h"
#include "core/codec/dagcbor.h"
#include "core/codec/field.h"
#include "core/codec/json_dagcbor.h"
#include "core/plc/plc_op.h"
#include "core/syntax/base64.h"
#include "core/syntax/handle.h"

typedef enum OpMember
{
	TYPE,
	PREV,
	SIG,
	ROTATION_KEYS,
	METHODS,
	ALIASES,
	SERVICES,
	SIGNING_KEY,
	RECOVERY_KEY,
	HANDLE,
	SERVICE,
	NMEMBERS
} OpMember;

static const char *const names[NMEMBERS] = {
	"type", "prev", "sig", "rotationKeys", "verificationMethods", "alsoKnownAs", "services",
	"signingKey", "recoveryKey", "handle", "service"
};

/* The members of each kind, as bits. */
#define BIT(member)	(1u << (member))
#define EVERY		(BIT(TYPE) | BIT(PREV) | BIT(SIG))

static const struct
{
	const char *type;
	unsigned	members;
}			kinds[] = {
	[ATP_PLC_OPERATION] = {"plc_operation", EVERY | BIT(ROTATION_KEYS) | BIT(METHODS) | BIT(ALIASES) | BIT(SERVICES)},
	[ATP_PLC_TOMBSTONE] = {"plc_tombstone", EVERY},
	[ATP_PLC_CREATE] = {"create", EVERY | BIT(SIGNING_KEY) | BIT(RECOVERY_KEY) | BIT(HANDLE) | BIT(SERVICE)}
};

/* The members of an operation. */
typedef struct OpMembers
{
	unsigned	seen;			/* the known members, as bits */
	unsigned	all;			/* number of members */
	AtpCborItem item[NMEMBERS]; /* first item of the value */
	AtpBytes	value[NMEMBERS];	/* the whole value */
	AtpBytes	before_sig;		/* the bytes before and behind "sig" */
	AtpBytes	behind_sig;
	bool		has_nul;		/* U+0000 is in some text */
} OpMembers;

/* Reads the next value to its end; first is the value's first item. */
static AtpErr
read_value(AtpCborReader *r, AtpCborItem *first, bool *has_nul, size_t *at)
{
	unsigned	depth = r->depth;
	AtpCborItem item;
	AtpErr		err = atp_cbor_next(r, first, at);

	for (item = *first; err == ATP_OK; err = atp_cbor_next(r, &item, at))
	{
		*has_nul |= item.kind == ATP_CBOR_TEXT && item.has_nul;
		if (r->depth <= depth)
			break;
	}
	return err;
}

static unsigned
member_of(AtpSpan key)
{
	unsigned	i = 0;

	while (i < NMEMBERS && !atp_span_is(key, names[i]))
		i++;
	return i;
}

/* Finds the members of the operation, and the two pieces around "sig". */
static AtpErr
find_members(AtpBytes cbor, OpMembers *found, size_t *at)
{
	AtpCborReader r;
	AtpCborItem item;
	size_t		first;
	AtpErr		err;

	*found = (OpMembers) {.seen = 0};
	atp_cbor_init(&r, cbor.ptr, cbor.len, ATP_CBOR_DEPTH_DEFAULT);
	if ((err = atp_cbor_next(&r, &item, at)) != ATP_OK)
		return err;
	if (item.kind != ATP_CBOR_MAP)
		return ATP_E_PLC_OBJECT;
	found->all = (unsigned) item.u;
	first = r.pos;
	found->before_sig = (AtpBytes) {cbor.ptr + first, cbor.len - first};
	for (unsigned n = found->all; n > 0; n--)
	{
		size_t		key = r.pos;
		size_t		value;
		unsigned	which;

		if ((err = atp_cbor_next(&r, &item, at)) != ATP_OK)
			return err;
		found->has_nul |= item.has_nul;
		which = member_of(atp_cbor_span(&item));
		value = r.pos;
		if ((err = read_value(&r, &item, &found->has_nul, at)) != ATP_OK)
			return err;
		if (which == SIG)
		{
			found->before_sig.len = key - first;
			found->behind_sig = (AtpBytes) {cbor.ptr + r.pos, cbor.len - r.pos};
		}
		if (which < NMEMBERS)
		{
			found->seen |= BIT(which);
			found->item[which] = item;
			found->value[which] = (AtpBytes) {cbor.ptr + value, r.pos - value};
		}
	}
	return ATP_OK;
}

/* Is the value an array of texts, or a map whose values are texts? */
static bool
has_only_texts(AtpBytes value, AtpCborKind kind)
{
	AtpCborReader r;
	AtpCborItem item;
	size_t		at;

	atp_cbor_init(&r, value.ptr, value.len, ATP_CBOR_DEPTH_DEFAULT);
	if (atp_cbor_next(&r, &item, &at) != ATP_OK || item.kind != kind)
		return false;
	while (atp_cbor_next(&r, &item, &at) == ATP_OK)
		if (item.kind != ATP_CBOR_TEXT)
			return false;
	return true;
}

/* Is this value a service?  The reader stands before the members.  Unknown members are allowed: the signature covers them. */
static bool
is_service(AtpCborReader *r, const AtpCborItem *head)
{
	AtpFields	fields = atp_fields(r, head);
	AtpCborItem item;
	AtpSpan		key;
	unsigned	seen = 0;
	size_t		at;
	AtpErr		err;

	if (head->kind != ATP_CBOR_MAP)
		return false;
	while ((err = atp_fields_next(&fields, &key, &item, &at)) == ATP_OK)
	{
		unsigned	bit = atp_span_is(key, "type") ? 1 : atp_span_is(key, "endpoint") ? 2 : 0;

		if (bit != 0 && item.kind != ATP_CBOR_TEXT)
			return false;
		seen |= bit;
	}
	return err == ATP_E_CBOR_END && seen == 3;
}

/* Begins to walk over the members of a map; false: the value is no map. */
static bool
begin_map(AtpBytes value, AtpCborReader *r, AtpFields *fields)
{
	AtpCborItem item;
	size_t		at;

	atp_cbor_init(r, value.ptr, value.len, ATP_CBOR_DEPTH_DEFAULT);
	if (atp_cbor_next(r, &item, &at) != ATP_OK || item.kind != ATP_CBOR_MAP)
		return false;
	*fields = atp_fields(r, &item);
	return true;
}

static bool
has_only_services(AtpBytes value)
{
	AtpCborReader r;
	AtpCborItem item;
	AtpFields	fields;
	AtpSpan		key;
	size_t		at;

	if (!begin_map(value, &r, &fields))
		return false;
	while (atp_fields_next(&fields, &key, &item, &at) == ATP_OK)
		if (!is_service(&r, &item))
			return false;
	return true;
}

/* M-07: of a key that is no did:key of k256 or p256 the first byte is 0. */
static void
put_rotation_key(AtpPlcOp *op, AtpSpan text)
{
	uint8_t    *key = op->keys[op->nkeys++];
	size_t		at;

	if (!atp_span_begins(text, "did:key:") || atp_multikey_parse(text.ptr, text.len, key, &at) != ATP_OK)
		key[0] = 0;
}

static AtpErr
read_rotation_keys(AtpBytes value, AtpPlcOp *op)
{
	AtpCborReader r;
	AtpCborItem item;
	size_t		at;

	if (!has_only_texts(value, ATP_CBOR_ARRAY))
		return ATP_E_PLC_ROTATION_KEYS;
	atp_cbor_init(&r, value.ptr, value.len, ATP_CBOR_DEPTH_DEFAULT);
	if (atp_cbor_next(&r, &item, &at) == ATP_OK && item.u > ATP_PLC_KEYS_MAX)
		return ATP_E_PLC_KEYS;
	while (atp_cbor_next(&r, &item, &at) == ATP_OK)
		put_rotation_key(op, atp_cbor_span(&item));
	return ATP_OK;
}

/* M-06: a create operation has texts, and no prev. */
static AtpErr
read_create(const OpMembers *m, AtpPlcOp *op)
{
	static const OpMember texts[] = {SIGNING_KEY, RECOVERY_KEY, HANDLE, SERVICE};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		if (m->item[texts[i]].kind != ATP_CBOR_TEXT)
			return ATP_E_PLC_CREATE;
	if (m->item[PREV].kind != ATP_CBOR_NULL)
		return ATP_E_PLC_CREATE;
	put_rotation_key(op, atp_cbor_span(&m->item[RECOVERY_KEY]));
	put_rotation_key(op, atp_cbor_span(&m->item[SIGNING_KEY]));
	return ATP_OK;
}

static AtpErr
read_operation(const OpMembers *m, AtpPlcOp *op)
{
	if (!has_only_texts(m->value[METHODS], ATP_CBOR_MAP))
		return ATP_E_PLC_METHODS;
	if (!has_only_texts(m->value[ALIASES], ATP_CBOR_ARRAY))
		return ATP_E_PLC_ALIASES;
	if (!has_only_services(m->value[SERVICES]))
		return ATP_E_PLC_SERVICES;
	if (m->item[PREV].kind != ATP_CBOR_TEXT && m->item[PREV].kind != ATP_CBOR_NULL)
		return ATP_E_PLC_PREV_TYPE;
	return read_rotation_keys(m->value[ROTATION_KEYS], op);
}

/* M-06. */
static AtpErr
read_form(const OpMembers *m, AtpPlcOp *op)
{
	unsigned	kind = 0;

	if (!(m->seen & BIT(TYPE)) || m->item[TYPE].kind != ATP_CBOR_TEXT)
		return ATP_E_PLC_TYPE;
	while (kind <= ATP_PLC_CREATE && !atp_span_is(atp_cbor_span(&m->item[TYPE]), kinds[kind].type))
		kind++;
	if (kind > ATP_PLC_CREATE)
		return ATP_E_PLC_TYPE;
	op->kind = (AtpPlcKind) kind;
	op->others = m->all;
	for (unsigned i = 0; i < NMEMBERS; i++)
	{
		if (!(kinds[kind].members & BIT(i)))
			continue;
		if (!(m->seen & BIT(i)))
			return ATP_E_PLC_MEMBER;
		op->others--;
	}
	if (m->item[SIG].kind != ATP_CBOR_TEXT)
		return ATP_E_PLC_SIG_TYPE;
	if (kind == ATP_PLC_CREATE)
		return read_create(m, op);
	if (kind == ATP_PLC_TOMBSTONE)
		return m->item[PREV].kind == ATP_CBOR_TEXT ? ATP_OK : ATP_E_PLC_PREV_TYPE;
	return read_operation(m, op);
}

/* M-03: prev is a CID of DAG-CBOR with SHA-256; sig is strict base64url. */
static AtpErr
read_encoded(const OpMembers *m, AtpPlcOp *op)
{
	AtpSpan		text = atp_cbor_span(&m->item[SIG]);
	uint8_t		cid[ATP_CID_MAX];
	size_t		n;
	size_t		at;
	bool		exact;

	if (m->has_nul)
		return ATP_E_MSG_NUL;
	if (!atp_base64url_decode(text.ptr, text.len, NULL, &n, &exact) || !exact)
		return ATP_E_PLC_SIG_TEXT;
	op->has_sig = n == ATP_SIG_LEN;
	if (op->has_sig)
		atp_base64url_decode(text.ptr, text.len, op->sig, &n, &exact);
	op->has_prev = m->item[PREV].kind == ATP_CBOR_TEXT;
	if (!op->has_prev)
		return ATP_OK;
	text = atp_cbor_span(&m->item[PREV]);
	if (atp_cid_parse(text.ptr, text.len, cid, &n, &at) != ATP_OK || !atp_cid_is_node((AtpBytes) {cid, n}))
		return ATP_E_PLC_PREV_TEXT;
	memcpy(op->prev, cid, sizeof(op->prev));
	return ATP_OK;
}

bool
atp_plc_op_stored(AtpBytes cbor, AtpPlcOp *op)
{
	OpMembers	members;
	size_t		at;

	op->nkeys = 0;
	return find_members(cbor, &members, &at) == ATP_OK && read_form(&members, op) == ATP_OK;
}

/* The text of a member of a map of texts; ptr NULL: absent. */
static AtpSpan
text_in(AtpBytes map, const char *name)
{
	AtpCborReader r;
	AtpCborItem item;
	AtpFields	fields;
	AtpSpan		key;
	size_t		at;

	if (!begin_map(map, &r, &fields))
		return (AtpSpan) {NULL, 0};
	while (atp_fields_next(&fields, &key, &item, &at) == ATP_OK)
		if (atp_span_is(key, name))
			return item.kind == ATP_CBOR_TEXT ? atp_cbor_span(&item) : (AtpSpan) {NULL, 0};
	return (AtpSpan) {NULL, 0};
}

/* W-15: the first alias with at:// and the syntax of a handle; where no alias has the syntax, the first alias with at://. */
static AtpSpan
find_handle(AtpBytes aliases)
{
	AtpCborReader r;
	AtpCborItem item;
	AtpSpan		first = {NULL, 0};
	size_t		at;

	atp_cbor_init(&r, aliases.ptr, aliases.len, ATP_CBOR_DEPTH_DEFAULT);
	(void) atp_cbor_next(&r, &item, &at);
	while (atp_cbor_next(&r, &item, &at) == ATP_OK)
	{
		AtpSpan		handle = atp_cbor_span(&item);

		if (!atp_span_begins(handle, "at://"))
			continue;
		handle = (AtpSpan) {handle.ptr + 5, handle.len - 5};
		if (atp_handle_check(handle.ptr, handle.len, &at) == ATP_OK)
			return handle;
		if (first.ptr == NULL)
			first = handle;
	}
	return first;
}

/* W-13: the directory makes the service's id of the member's name. */
static AtpSpan
find_server(AtpBytes services)
{
	AtpCborReader r;
	AtpCborItem item;
	AtpFields	fields;
	AtpSpan		key;
	size_t		at;

	if (!begin_map(services, &r, &fields))
		return (AtpSpan) {NULL, 0};
	while (atp_fields_next(&fields, &key, &item, &at) == ATP_OK)
	{
		AtpBytes	service = {services.ptr + item.at, services.len - item.at};

		if (atp_span_is(key, "atproto_pds") && atp_span_is(text_in(service, "type"), "AtprotoPersonalDataServer"))
			return text_in(service, "endpoint");
	}
	return (AtpSpan) {NULL, 0};
}

/* M-06: a scheme before the handle of a create operation is left out. */
static AtpSpan
handle_of_create(AtpSpan handle)
{
	static const char *const schemes[] = {"at://", "https://", "http://"};

	for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++)
		if (atp_span_begins(handle, schemes[i]))
			return (AtpSpan) {handle.ptr + strlen(schemes[i]), handle.len - strlen(schemes[i])};
	return handle;
}

bool
atp_plc_op_state(AtpBytes cbor, AtpPlcState *state)
{
	OpMembers	members;
	AtpPlcOp	op;
	size_t		at;

	*state = (AtpPlcState) {.kind = ATP_PLC_TOMBSTONE};
	op.nkeys = 0;
	if (find_members(cbor, &members, &at) != ATP_OK || read_form(&members, &op) != ATP_OK)
		return false;
	state->kind = op.kind;
	if (op.kind == ATP_PLC_CREATE)
	{
		state->key = atp_cbor_span(&members.item[SIGNING_KEY]);
		state->server = atp_cbor_span(&members.item[SERVICE]);
		state->handle = handle_of_create(atp_cbor_span(&members.item[HANDLE]));
	}
	else if (op.kind == ATP_PLC_OPERATION)
	{
		state->key = text_in(members.value[METHODS], "atproto");
		state->label_key = text_in(members.value[METHODS], "atproto_label");
		state->server = find_server(members.value[SERVICES]);
		state->handle = find_handle(members.value[ALIASES]);
	}
	return true;
}

/* The DAG-CBOR is at most half as large as the memory of the conversion, so that another half holds the signed bytes. */
size_t
atp_plc_op_room(size_t n)
{
	size_t		room = atp_json_dagcbor_room(n);

	return room + room / 2;
}

AtpErr
atp_plc_op_read(AtpSpan json, uint8_t *room, size_t size, AtpSha256Fn sha256, void *ctx, AtpPlcOp *op, size_t *at)
{
	size_t		conversion = atp_json_dagcbor_room(json.len);
	AtpCborWriter w;
	OpMembers	members;
	AtpErr		encoding;
	AtpErr		err;
	size_t		unused;

	*op = (AtpPlcOp) {.nkeys = 0};
	*at = 0;
	if (size < atp_plc_op_room(json.len))
		return ATP_E_JSON_LARGE;
	encoding = atp_json_to_dagcbor_plain(json.ptr, json.len, room, conversion, &op->cbor, at);
	if (op->cbor.ptr == NULL)
		return encoding;
	err = op->cbor.len > ATP_PLC_OP_MAX ? ATP_E_PLC_SIZE : find_members(op->cbor, &members, &unused);
	if (err == ATP_OK)
		err = read_form(&members, op);
	if (err == ATP_OK && encoding != ATP_OK)
		return encoding;
	*at = 0;
	if (err != ATP_OK || (err = read_encoded(&members, op)) != ATP_OK)
		return err;

	w = (AtpCborWriter) {.buf = room + conversion, .cap = size - conversion};
	atp_cbor_put_map(&w, members.all - 1);
	atp_cbor_put_raw(&w, members.before_sig.ptr, members.before_sig.len);
	atp_cbor_put_raw(&w, members.behind_sig.ptr, members.behind_sig.len);
	sha256(ctx, w.buf, w.len, op->digest);
	atp_cid_of(ATP_CID_CODEC_DAG_CBOR, op->cbor.ptr, op->cbor.len, sha256, ctx, op->cid);
	return ATP_OK;
}

void
atp_plc_op_did(const AtpPlcOp *op, char did[ATP_DID_PLC_TEXT])
{
	char		text[ATP_CID_TEXT_MAX];

	/* 24 characters of base32 are 15 bytes; atp_cid_format() writes a "b" before them. */
	atp_cid_format(op->cid + 4, 15, text);
	memcpy(did, "did:plc:", 8);
	memcpy(did + 8, text + 1, ATP_DID_PLC_TEXT - 8);
}
