/*
 * plc_pack.c
 *		Packs and unpacks operations: see plc_pack.h.
 *
 * A token begins with a byte:
 *
 * LITERAL: a varint n and n bytes, which stand for themselves.
 *
 * SHARED: the varint of an id, for the text with the id.  0x80 to 0xff: 15 bits of an id in two bytes.
 *
 * AFFIXED and one of the prefixes: the varint of an id or 0, a byte n, and n bytes, for the text of the prefix, the bytes, and
 * (with an id) a dot and the text with the id.  So is a handle packed, whose domain is shared.
 *
 * PHRASE and one of the phrases: for bytes that most operations have, and for the signature, prev or key among them.
 *
 * Stored operations have these numbers: prefixes and phrases are only added, at the end.
 */
#include "core/codec/cbor_write.h"
#include "core/codec/varint.h"
#include "core/plc/plc_pack.h"
#include "core/syntax/base64.h"

enum
{
	LITERAL = 0x00, SHARED = 0x01, AFFIXED = 0x08, PHRASE = 0x20, SHORT_ID = 0x80
};

#define SHORT_IDS	0x8000

static const char *const prefixes[] = {"", "at://", "https://"};

#define NPREFIXES	(sizeof(prefixes) / sizeof(prefixes[0]))
#define BARE		0
#define AT			1
#define HTTPS		2

/* What stands in the middle of a phrase, and is written behind the token's first byte. */
typedef enum Hole
{
	NOTHING,
	SIG,						/* 64 bytes, as text of base64url */
	PREV,						/* no bytes: the caller has the CID */
	K256,						/* 33 bytes, as did:key */
	P256
} Hole;

#define TEXT_OF_SIG		ATP_BASE64URL_LEN(ATP_SIG_LEN)
#define TEXT_OF_PREV	59

typedef struct Phrase
{
	AtpBytes	before;
	Hole		hole;
	AtpBytes	behind;
} Phrase;

#define B(literal)	{(const uint8_t *) (literal), sizeof(literal) - 1}
#define NONE		{NULL, 0}

/* Pieces of canonical DAG-CBOR: a text after its head. */
#define PDS			"\x6b" "atproto_pds" "\xa2" "\x64" "type" "\x78\x19" "AtprotoPersonalDataServer" "\x68" "endpoint"
#define LABELER		"\x6f" "atproto_labeler" "\xa2" "\x64" "type" "\x6e" "AtprotoLabeler" "\x68" "endpoint"
#define OPERATION	"\x64" "type" "\x6d" "plc_operation" "\x68" "services"
#define METHODS		"\x73" "verificationMethods"
#define ATPROTO		"\x67" "atproto"

/* Of phrases that begin alike the longer stands first: the first that fits is taken. */
static const Phrase phrases[] = {
	{B("\xa7" "\x63" "sig"), SIG, NONE},
	{B("\xa3" "\x63" "sig"), SIG, NONE},
	{B("\x64" "prev"), PREV, B(OPERATION "\xa1" PDS)},
	{B("\x64" "prev"), PREV, B(OPERATION)},
	{B("\x64" "prev"), PREV, B("\x64" "type" "\x6d" "plc_tombstone")},
	{B("\x64" "prev" "\xf6" OPERATION "\xa1" PDS), NOTHING, NONE},
	{B("\x64" "prev" "\xf6" OPERATION), NOTHING, NONE},
	{B("\x64" "prev" "\xf6" "\x64" "type" "\x66" "create" "\x66" "handle"), NOTHING, NONE},
	{B("\x67" "service"), NOTHING, NONE},
	{B("\x6a" "signingKey"), K256, NONE},
	{B("\x6a" "signingKey"), NOTHING, NONE},
	{B("\x6b" "recoveryKey"), NOTHING, NONE},
	{B("\x6b" "alsoKnownAs" "\x81"), NOTHING, NONE},
	{B("\x6b" "alsoKnownAs"), NOTHING, NONE},
	{B("\x6c" "rotationKeys" "\x82"), NOTHING, NONE},
	{B("\x6c" "rotationKeys"), NOTHING, NONE},
	{B(METHODS "\xa1" ATPROTO), K256, NONE},
	{B(METHODS "\xa1" ATPROTO), NOTHING, NONE},
	{B(METHODS), NOTHING, NONE},
	{B(ATPROTO), NOTHING, NONE},
	{B("\x6d" "atproto_label"), NOTHING, NONE},
	{B(PDS), NOTHING, NONE},
	{B(LABELER), NOTHING, NONE},
	{B("\x64" "type"), NOTHING, NONE},
	{B("\x68" "endpoint"), NOTHING, NONE},
	{NONE, SIG, NONE},
	{NONE, PREV, NONE},
	{NONE, K256, NONE},
	{NONE, P256, NONE},
};

#define NPHRASES	(sizeof(phrases) / sizeof(phrases[0]))

/* --- pack --- */

typedef struct Packer
{
	AtpCborWriter out;
	const AtpPlcTexts *texts;
	char		prev[ATP_CID_TEXT_MAX];
	bool		has_prev;
	bool		noting;			/* only ids are asked for: nothing is written, nor decoded */
	const uint8_t *literal;		/* the bytes from here to the present item have no token yet */
} Packer;

static void
put_byte(Packer *p, unsigned byte)
{
	uint8_t		one = (uint8_t) byte;

	atp_cbor_put_raw(&p->out, &one, 1);
}

static void
put_varint(Packer *p, uint64_t value)
{
	uint8_t		bytes[ATP_VARINT_MAX];

	atp_cbor_put_raw(&p->out, bytes, atp_varint_write(value, bytes));
}

/* Writes the bytes before the item as a literal. */
static void
put_literal(Packer *p, const uint8_t *item)
{
	size_t		n = (size_t) (item - p->literal);

	if (n == 0)
		return;
	put_byte(p, LITERAL);
	put_varint(p, n);
	atp_cbor_put_raw(&p->out, p->literal, n);
	p->literal = item;
}

/* Length of the head of an item. */
static size_t
head_len(uint8_t first)
{
	unsigned	info = first & 0x1f;

	return info < 24 || info > 27 ? 1 : 1 + ((size_t) 1 << (info - 24));
}

/* Bytes from the item's begin to the next item, which of a container is the first member. */
static size_t
item_len(AtpBytes in)
{
	size_t		head = head_len(in.ptr[0]);
	uint64_t	n = in.ptr[0] & 0x1f;

	if (head > in.len)
		return in.len;
	if (in.ptr[0] >> 5 != 2 && in.ptr[0] >> 5 != 3)
		return head;
	for (size_t i = 1; i < head; i++)
		n = (i == 1 ? 0 : n << 8) | in.ptr[i];
	return n > in.len - head ? in.len : head + (size_t) n;
}

/* The text of a text item whose head is as the writer writes it; ptr NULL: the item is no such text. */
static AtpSpan
text_at(AtpBytes in)
{
	size_t		whole = item_len(in);
	size_t		head = head_len(in.ptr[0]);
	size_t		n = whole - head;

	if (in.ptr[0] >> 5 != 3 || head > 3 || whole < head)
		return (AtpSpan) {NULL, 0};
	if (head == 1 ? n >= 24 || n != (in.ptr[0] & 0x1f) : head == 2 ? n != in.ptr[1] || n < 24 : n != ((size_t) in.ptr[1] << 8 | in.ptr[2]) || n < 256)
		return (AtpSpan) {NULL, 0};
	return (AtpSpan) {(const char *) in.ptr + head, n};
}

static uint32_t
id_of(const Packer *p, AtpSpan text)
{
	if (text.len < ATP_PLC_SHARED_MIN || text.len > ATP_PLC_SHARED_MAX)
		return 0;
	return p->texts->id(p->texts->ctx, text);
}

/* A handle is not shared, but its domain may be. */
static uint32_t
id_of_whole(const Packer *p, AtpSpan text)
{
	return atp_span_begins(text, prefixes[AT]) ? 0 : id_of(p, text);
}

#define DID_KEY	"did:key:"

#define TEXT_OF_KEY	(sizeof(DID_KEY) - 1 + ATP_MULTIKEY_TEXT)

/* Does the text begin and end as a key of the curve does? */
static bool
resembles_key(AtpSpan text, Hole hole)
{
	return text.len == TEXT_OF_KEY && atp_span_begins(text, hole == K256 ? DID_KEY "zQ3s" : DID_KEY "zDn");
}

/* The bytes of a key.  Of this length no two texts are the same key: base58 is a number of 48 digits. */
static bool
key_of(AtpSpan text, Hole hole, uint8_t bytes[ATP_POINT_LEN])
{
	uint8_t		key[ATP_MULTIKEY_LEN];
	size_t		at;

	if (atp_multikey_parse(text.ptr, text.len, key, &at) != ATP_OK || atp_multikey_curve(key) != (hole == K256 ? ATP_K256 : ATP_P256))
		return false;
	memcpy(bytes, key + 2, ATP_POINT_LEN);
	return true;
}

static bool
sig_of(AtpSpan text, uint8_t bytes[ATP_SIG_LEN])
{
	size_t		n;
	bool		exact;

	return atp_base64url_decode(text.ptr, text.len, bytes, &n, &exact) && exact && n == ATP_SIG_LEN;
}

/* Does the item fit the hole?  *whole is the item's length, *n the number of bytes that are to be written. */
static bool
fits_hole(const Packer *p, AtpBytes in, Hole hole, uint8_t bytes[ATP_SIG_LEN], size_t *n, size_t *whole)
{
	AtpSpan		text = in.len > 0 ? text_at(in) : (AtpSpan) {NULL, 0};

	if (text.ptr == NULL)
		return false;
	*whole = item_len(in);
	*n = hole == SIG ? ATP_SIG_LEN : hole == PREV ? 0 : ATP_POINT_LEN;
	if (hole == SIG)
		return text.len == TEXT_OF_SIG && (p->noting || sig_of(text, bytes));
	if (hole == PREV)
		return p->has_prev && text.len == TEXT_OF_PREV && memcmp(text.ptr, p->prev, TEXT_OF_PREV) == 0;
	return resembles_key(text, hole) && id_of_whole(p, text) == 0 && (p->noting || key_of(text, hole, bytes));
}

static bool
begins_with(AtpBytes in, AtpBytes piece)
{
	return piece.len == 0 || (in.len >= piece.len && memcmp(in.ptr, piece.ptr, piece.len) == 0);
}

static AtpBytes
skip_bytes(AtpBytes in, size_t n)
{
	return (AtpBytes) {in.ptr + n, in.len - n};
}

/* Packs the phrase at the head of these bytes; returns their number, 0: they are not this phrase. */
static size_t
pack_phrase(Packer *p, AtpBytes in, unsigned number)
{
	const Phrase *phrase = &phrases[number];
	uint8_t		bytes[ATP_SIG_LEN] = {0};
	size_t		n = 0;
	size_t		whole = 0;

	if (!begins_with(in, phrase->before) ||
		(phrase->hole != NOTHING && !fits_hole(p, skip_bytes(in, phrase->before.len), phrase->hole, bytes, &n, &whole)) ||
		!begins_with(skip_bytes(in, phrase->before.len + whole), phrase->behind))
		return 0;
	put_literal(p, in.ptr);
	put_byte(p, PHRASE + number);
	atp_cbor_put_raw(&p->out, bytes, n);
	return phrase->before.len + whole + phrase->behind.len;
}

static bool
pack_shared(Packer *p, const uint8_t *item, uint32_t id)
{
	if (id == 0)
		return false;
	put_literal(p, item);
	if (id < SHORT_IDS)
	{
		put_byte(p, SHORT_ID | id >> 8);
		put_byte(p, id & 0xff);
		return true;
	}
	put_byte(p, SHARED);
	put_varint(p, id);
	return true;
}

/* Packs a text with a prefix, or with a shared text behind its first dot. */
static bool
pack_affixed(Packer *p, const uint8_t *item, AtpSpan text)
{
	unsigned	prefix = atp_span_begins(text, prefixes[AT]) ? AT : atp_span_begins(text, prefixes[HTTPS]) ? HTTPS : BARE;
	AtpSpan		label = {text.ptr + strlen(prefixes[prefix]), text.len - strlen(prefixes[prefix])};
	const char *dot = prefix == HTTPS ? NULL : memchr(label.ptr, '.', label.len);
	uint32_t	id = dot != NULL ? id_of(p, (AtpSpan) {dot + 1, (size_t) (label.ptr + label.len - dot - 1)}) : 0;

	if (id != 0)
		label.len = (size_t) (dot - label.ptr);
	if ((prefix == BARE && id == 0) || label.len > UINT8_MAX)
		return false;
	put_literal(p, item);
	put_byte(p, AFFIXED + prefix);
	put_varint(p, id);
	put_byte(p, (unsigned) label.len);
	atp_cbor_put_raw(&p->out, (const uint8_t *) label.ptr, label.len);
	return true;
}

/* Packs what begins with the next item; returns the number of bytes, 0: they have no token. */
static size_t
pack_item(Packer *p, AtpBytes in)
{
	AtpSpan		text = text_at(in);
	size_t		n;

	for (unsigned i = 0; i < NPHRASES; i++)
		if ((n = pack_phrase(p, in, i)) > 0)
			return n;
	if (text.ptr != NULL && (pack_shared(p, in.ptr, id_of_whole(p, text)) || pack_affixed(p, in.ptr, text)))
		return item_len(in);
	return 0;
}

/* A literal costs five bytes at most, and only a shared text that is shorter than its id costs more than it replaces. */
size_t
atp_plc_pack_room(size_t n)
{
	return 3 * n + 16;
}

static void
pack_items(Packer *p, AtpBytes in, const uint8_t *prev)
{
	p->literal = in.ptr;
	p->has_prev = prev != NULL && atp_cid_format(prev, ATP_CID_BLESSED_LEN, p->prev) == TEXT_OF_PREV;
	while (in.len > 0)
	{
		size_t		n = pack_item(p, in);

		in = skip_bytes(in, n > 0 ? n : item_len(in));
		if (n > 0)
			p->literal = in.ptr;
	}
	put_literal(p, in.ptr);
}

size_t
atp_plc_op_pack(AtpBytes cbor, uint8_t signer, const uint8_t *prev, const AtpPlcTexts *texts, uint8_t *out)
{
	Packer		p = {.out = {.buf = out, .cap = atp_plc_pack_room(cbor.len)}, .texts = texts};

	put_byte(&p, signer);
	pack_items(&p, cbor, prev);
	return p.out.len;
}

void
atp_plc_op_note(AtpBytes cbor, const uint8_t *prev, const AtpPlcTexts *texts)
{
	Packer		p = {.texts = texts, .noting = true};

	pack_items(&p, cbor, prev);
}

/* --- unpack --- */

/* A token, read. */
typedef struct Token
{
	uint8_t		first;
	uint32_t	id;				/* 0: none */
	AtpBytes	bytes;			/* of a literal, a label, or a phrase's hole */
} Token;

static bool
read_id(AtpBytes packed, size_t *pos, uint32_t *id)
{
	uint64_t	value;

	if (atp_varint_read(packed.ptr, packed.len, pos, &value) != ATP_OK || value > UINT32_MAX)
		return false;
	*id = (uint32_t) value;
	return true;
}

static bool
read_bytes(AtpBytes packed, size_t *pos, uint64_t n, AtpBytes *bytes)
{
	if (n > packed.len - *pos)
		return false;
	*bytes = (AtpBytes) {packed.ptr + *pos, (size_t) n};
	*pos += (size_t) n;
	return true;
}

/* Reads the rest of a token that consists of an id and a label. */
static bool
read_affixed(AtpBytes packed, size_t *pos, Token *token)
{
	if (token->first >= AFFIXED + NPREFIXES || !read_id(packed, pos, &token->id) || *pos == packed.len)
		return false;
	return read_bytes(packed, pos, packed.ptr[(*pos)++], &token->bytes);
}

static bool
read_phrase(AtpBytes packed, size_t *pos, Token *token)
{
	static const size_t lengths[] = {[NOTHING] = 0, [SIG] = ATP_SIG_LEN, [PREV] = 0, [K256] = ATP_POINT_LEN, [P256] = ATP_POINT_LEN};
	size_t		number = token->first - PHRASE;

	return number < NPHRASES && read_bytes(packed, pos, lengths[phrases[number].hole], &token->bytes);
}

/* Reads the token at *pos; false: there is none. */
static bool
read_token(AtpBytes packed, size_t *pos, Token *token)
{
	uint64_t	n;

	if (*pos >= packed.len)
		return false;
	*token = (Token) {.first = packed.ptr[(*pos)++]};
	if (token->first >= SHORT_ID)
	{
		if (*pos == packed.len)
			return false;
		token->id = (uint32_t) (token->first & 0x7f) << 8 | packed.ptr[(*pos)++];
		return true;
	}
	if (token->first >= PHRASE)
		return read_phrase(packed, pos, token);
	if (token->first >= AFFIXED)
		return read_affixed(packed, pos, token);
	if (token->first == SHARED)
		return read_id(packed, pos, &token->id);
	return token->first == LITERAL && atp_varint_read(packed.ptr, packed.len, pos, &n) == ATP_OK &&
		read_bytes(packed, pos, n, &token->bytes);
}

typedef struct Unpacker
{
	AtpCborWriter out;
	const AtpPlcTexts *texts;
	const uint8_t *prev;
} Unpacker;

/* The text of an id; false: unknown. */
static bool
find_text(const Unpacker *u, uint32_t id, AtpSpan *text)
{
	*text = id != 0 ? u->texts->text(u->texts->ctx, id) : (AtpSpan) {NULL, 0};
	return text->ptr != NULL && text->len <= ATP_PLC_SHARED_MAX;
}

static bool
write_affixed(Unpacker *u, const Token *token)
{
	const char *prefix = prefixes[token->first - AFFIXED];
	char		text[16 + UINT8_MAX + 1 + ATP_PLC_SHARED_MAX];
	size_t		n = strlen(prefix);
	AtpSpan		behind = {NULL, 0};

	if (token->id != 0 && !find_text(u, token->id, &behind))
		return false;
	memcpy(text, prefix, n);
	memcpy(text + n, token->bytes.ptr, token->bytes.len);
	n += token->bytes.len;
	if (token->id != 0)
	{
		text[n++] = '.';
		memcpy(text + n, behind.ptr, behind.len);
		n += behind.len;
	}
	atp_cbor_put_text(&u->out, text, n);
	return true;
}

static void
write_sig(Unpacker *u, const uint8_t *sig)
{
	char		text[TEXT_OF_SIG];

	atp_base64url_encode(sig, ATP_SIG_LEN, text);
	atp_cbor_put_text(&u->out, text, sizeof(text));
}

static void
write_prev(Unpacker *u)
{
	char		text[ATP_CID_TEXT_MAX];
	size_t		n = u->prev != NULL ? atp_cid_format(u->prev, ATP_CID_BLESSED_LEN, text) : 0;

	atp_cbor_put_text(&u->out, text, n);
}

static void
write_key(Unpacker *u, const uint8_t *point, AtpCurve curve)
{
	uint8_t		key[ATP_MULTIKEY_LEN];
	char		text[TEXT_OF_KEY];

	atp_multikey_make(curve, point, key);
	memcpy(text, DID_KEY, sizeof(DID_KEY) - 1);
	atp_cbor_put_text(&u->out, text, sizeof(DID_KEY) - 1 + atp_multikey_text(key, text + sizeof(DID_KEY) - 1));
}

static void
write_phrase(Unpacker *u, const Token *token)
{
	const Phrase *phrase = &phrases[token->first - PHRASE];

	atp_cbor_put_raw(&u->out, phrase->before.ptr, phrase->before.len);
	if (phrase->hole == SIG)
		write_sig(u, token->bytes.ptr);
	else if (phrase->hole == PREV)
		write_prev(u);
	else if (phrase->hole != NOTHING)
		write_key(u, token->bytes.ptr, phrase->hole == K256 ? ATP_K256 : ATP_P256);
	atp_cbor_put_raw(&u->out, phrase->behind.ptr, phrase->behind.len);
}

static bool
write_token(Unpacker *u, const Token *token)
{
	AtpSpan		text;

	if (token->first == LITERAL)
		atp_cbor_put_raw(&u->out, token->bytes.ptr, token->bytes.len);
	else if (token->first == SHARED || token->first >= SHORT_ID)
	{
		if (!find_text(u, token->id, &text))
			return false;
		atp_cbor_put_text(&u->out, text.ptr, text.len);
	}
	else if (token->first < PHRASE)
		return write_affixed(u, token);
	else
		write_phrase(u, token);
	return true;
}

bool
atp_plc_op_unpack(AtpBytes packed, const uint8_t *prev, const AtpPlcTexts *texts, uint8_t *out, size_t room, size_t *n)
{
	Unpacker	u = {.out = {.buf = out, .cap = room}, .texts = texts, .prev = prev};
	size_t		pos = 1;
	Token		token;

	*n = 0;
	if (packed.len == 0)
		return false;
	while (u.out.len <= room && pos < packed.len)
		if (!read_token(packed, &pos, &token) || !write_token(&u, &token))
			return false;
	*n = u.out.len;
	return u.out.len <= room;
}

bool
atp_plc_packed_id(AtpBytes packed, size_t *pos, uint32_t *id)
{
	Token		token;

	if (*pos == 0)
		*pos = 1;
	while (read_token(packed, pos, &token))
		if ((*id = token.id) != 0)
			return true;
	return false;
}
