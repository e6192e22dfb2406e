/*
 * labels.c
 *		Messages of labelers and their labels, with any DAG-CBOR: one field, one label, one message.
 *
 * proves: atp_labels_parse atp_labels_next set_field set_subject atp_field_text atp_field_did atp_field_seq
 * sources: core/codec/field.c test/proof/lib/any_cbor.c
 * replaces: atp_span_is:any_is
 * wraps: atp_fields_next
 * short: -DN=5 --unwind 5 --unwindset memset.0:300
 * by hand: 14 s
 * long: -DN=10 --unwind 8 --unwindset memset.0:300
 * assumes: DAG-CBOR's readers do what lib/any_cbor.c says; any key may be any field's; DIDs, URIs, CIDs and datetimes are checked by functions that only read
 */
#include "core/wire/labels_message.c"
#include "lib/proof.h"

static unsigned required;		/* which required fields the label has, as bits */

bool
any_is(AtpSpan s, const char *literal)
{
	bool		is = any_bool();

	if (is)
		required |= memcmp(literal, "sr", 2) == 0 ? 1 : memcmp(literal, "ur", 2) == 0 ? 2 : memcmp(literal, "va", 2) == 0 ? 4 :
			memcmp(literal, "ct", 2) == 0 ? 8 : 0;
	return is;
}

static AtpErr
only_reads(const char *s, size_t n, AtpErr err)
{
	LAW(n == 0 || __CPROVER_r_ok(s, n));
	return any_bool() ? ATP_OK : err;
}

AtpErr
atp_did_check(const char *s, size_t n, size_t *at)
{
	return only_reads(s, n, ATP_E_DID_CHAR);
}

AtpErr
atp_uri_parse(AtpScheme scheme, const char *s, size_t n, AtpUri *uri, size_t *at)
{
	return only_reads(s, n, ATP_E_CHAR);
}

AtpErr
atp_datetime_parse(const char *s, size_t n, int64_t *micros, size_t *at)
{
	*micros = (int64_t) any_u64();
	return only_reads(s, n, ATP_E_DATETIME);
}

AtpErr
atp_cid_parse(const char *restrict s, size_t n, uint8_t *restrict out, size_t *on, size_t *at)
{
	LAW(__CPROVER_w_ok(out, ATP_CID_MAX));
	*on = any_size(ATP_CID_MAX);
	return only_reads(s, n, ATP_E_CID_VERSION);
}

static void
field(void)
{
	uint8_t		bytes[4];
	AtpCborItem item = {.kind = (AtpCborKind) any_size(ATP_CBOR_FLOAT), .u = any_u64(), .str = {bytes, any_size(sizeof(bytes))}};
	AtpLabel	label = {0};
	unsigned	seen = 0;
	AtpErr		err = set_field(&label, (AtpSpan) {"", 0}, &item, &seen);

	LAW(err >= ATP_OK && err < ATP_ERR_COUNT && seen <= L_ALL);
	if (err != ATP_OK)
		return;
	LAW(!label.has_ver || (label.ver >= 0 && label.ver <= INT32_MAX));
	LAW(label.val.ptr == NULL || (label.val.len > 0 && label.val.len <= sizeof(bytes)));
	LAW(seen != L_VAL || label.val.ptr != NULL);
	for (size_t i = 0; i < sizeof(bytes); i++)
		LAW(label.val.ptr == NULL || i >= label.val.len || bytes[i] != 0);
	LAW(!label.neg || item.kind == ATP_CBOR_TRUE);
	LAW(label.sig.ptr == NULL || item.kind == ATP_CBOR_BYTES);
	if (label.val.len == 1)
		REACHED("a label's value");
}

static void
seq(void)
{
	AtpCborItem item = {.kind = (AtpCborKind) any_size(ATP_CBOR_FLOAT), .u = any_u64()};
	int64_t		seq = -1;
	AtpErr		err = atp_field_seq(&item, &seq);

	LAW((err == ATP_OK) == (item.kind == ATP_CBOR_UINT && item.u > 0 && item.u < (UINT64_C(1) << 53)));
	LAW(err == ATP_OK ? (uint64_t) seq == item.u : seq == -1);
}

static void
message(void)
{
	AtpLabelsMessage msg;
	AtpFrame	frame = {.t = {any_bool() ? "#labels" : "#inform", 7}, .payload_at = any_size(100)};
	size_t		at;
	AtpErr		err;

	ANY_BUFFER(s, n, N);
	ASSUME(n > 0);
	frame.payload = (AtpBytes) {s, n};
	err = atp_labels_parse(&frame, &msg, &at);
	if (err != ATP_OK || msg.kind != ATP_LABELS_LABELS)
		return;
	REACHED("labels");
	LAW(at <= frame.payload_at + n && msg.seq > 0 && msg.nlabels <= n);
}

/* A label from any bytes of a message. */
static void
label(void)
{
	AtpLabelsMessage msg = {.base = any_size(100)};
	AtpLabel	label;
	size_t		at;
	AtpErr		err;

	ANY_BUFFER(s, n, 4);
	atp_cbor_init(&msg.reader, s, n, ATP_CBOR_DEPTH_MAX);
	required = 0;
	err = atp_labels_next(&msg, &label, &at);
	/* F-31: none without all four, for which these bytes are too few */
	LAW(err != ATP_OK || (required == 15 && label.map.len > 0));
	LAW(label.map.ptr == NULL || (label.map.ptr == s && label.map.len <= n));
	if (label.map.len == 3)
		REACHED("a label without some fields");
}

int
main(void)
{
	field();
	seq();
	message();
	label();
	return 0;
}
