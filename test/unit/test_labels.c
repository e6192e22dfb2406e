/*
 * test_labels.c
 *		Messages of com.atproto.label.subscribeLabels (F-30, F-31).
 */
#include "core/codec/cbor_write.h"
#include "core/wire/labels_message.h"
#include "protocol/cbor.h"
#include "unit.h"

static uint8_t buf[8192];
static AtpCborWriter w;
static AtpFrame frame;
static AtpLabelsMessage msg;
static AtpLabel label;
static size_t at;

/* Writes the head of a message, up to its payload. */
static void
begin(const char *t)
{
	w = (AtpCborWriter) {buf, sizeof(buf), 0};
	atp_cbor_put_map(&w, 2);
	atp_cbor_put_key(&w, "t");
	atp_cbor_put_text(&w, t, strlen(t));
	atp_cbor_put_key(&w, "op");
	atp_cbor_put_int(&w, 1);
}

static void
begin_labels(int64_t seq, int n)
{
	begin("#labels");
	atp_cbor_put_map(&w, 2);
	atp_cbor_put_key(&w, "seq");
	atp_cbor_put_int(&w, seq);
	atp_cbor_put_key(&w, "labels");
	atp_cbor_put_array(&w, n);
}

/* A label with the required fields except those given as NULL. */
static void
put_label(const char *src, const char *uri, const char *val, const char *cts)
{
	int			n = (src != NULL) + (uri != NULL) + (val != NULL) + (cts != NULL);

	atp_cbor_put_map(&w, n);
	if (cts != NULL)
	{
		atp_cbor_put_key(&w, "cts");
		atp_cbor_put_text(&w, cts, strlen(cts));
	}
	if (src != NULL)
	{
		atp_cbor_put_key(&w, "src");
		atp_cbor_put_text(&w, src, strlen(src));
	}
	if (uri != NULL)
	{
		atp_cbor_put_key(&w, "uri");
		atp_cbor_put_text(&w, uri, strlen(uri));
	}
	if (val != NULL)
	{
		atp_cbor_put_key(&w, "val");
		atp_cbor_put_text(&w, val, strlen(val));
	}
}

static AtpErr
parse(void)
{
	AtpErr		err = atp_frame_parse(buf, w.len, &frame, &at);

	ok(err == ATP_OK, "the frame is well-formed (%s)", atp_err_text(err));
	return atp_labels_parse(&frame, &msg, &at);
}

#define SRC "did:plc:ewvi7nxzyoun6zhxrhs64oiz"
#define CTS "2026-01-31T12:00:00Z"

static void
test_full(void)
{
	begin_labels(7, 1);
	atp_cbor_put_map(&w, 9);
	atp_cbor_put_key(&w, "cid");
	atp_cbor_put_text(&w, "bafyreidfayvfuwqa7qlnopdjiqrxzs6blmoeu4rujcjtnci5beludirz2a", 59);
	atp_cbor_put_key(&w, "cts");
	atp_cbor_put_text(&w, CTS, strlen(CTS));
	atp_cbor_put_key(&w, "exp");
	atp_cbor_put_text(&w, CTS, strlen(CTS));
	atp_cbor_put_key(&w, "neg");
	atp_cbor_put_bool(&w, true);
	atp_cbor_put_key(&w, "sig");
	atp_cbor_put_bytes(&w, (const uint8_t *) "abc", 3);
	atp_cbor_put_key(&w, "src");
	atp_cbor_put_text(&w, SRC, strlen(SRC));
	atp_cbor_put_key(&w, "uri");
	atp_cbor_put_text(&w, "at://" SRC "/app.bsky.feed.post/3jwdwj2ctlk26", 5 + 32 + 33);
	atp_cbor_put_key(&w, "val");
	atp_cbor_put_text(&w, "spam", 4);
	atp_cbor_put_key(&w, "ver");
	atp_cbor_put_int(&w, 1);
	ok(parse() == ATP_OK && msg.kind == ATP_LABELS_LABELS && msg.seq == 7 && msg.nlabels == 1, "F-30: a message");
	ok(atp_labels_next(&msg, &label, &at) == ATP_OK, "F-31: all fields");
	ok(atp_span_is(label.src, SRC) && atp_span_is(label.val, "spam") && label.neg, "src, val, neg");
	ok(label.cid_len == 36 && label.cid[0] == 1, "cid, binary");
	ok(label.has_exp && label.exp == label.cts && label.cts == INT64_C(1769860800000000), "cts, exp");
	ok(label.has_ver && label.ver == 1 && label.sig.len == 3, "ver, sig");
}

/* The bad label is refused alone, and the next label of the message is read. */
static void
refuses(const char *what, AtpErr expected, const char *src, const char *uri, const char *val, const char *cts)
{
	AtpErr		err;

	begin_labels(1, 2);
	put_label(src, uri, val, cts);
	put_label(SRC, SRC, "good", CTS);
	ok(parse() == ATP_OK, "the message is accepted");
	err = atp_labels_next(&msg, &label, &at);
	ok(err == expected && at < w.len, "F-31: %s: %s", what, atp_err_text(err));
	ok(atp_labels_next(&msg, &label, &at) == ATP_OK && atp_span_is(label.val, "good"), "the next one is read");
}

static void
test_refusals(void)
{
	char		long_val[ATP_LABEL_VAL_MAX + 2];

	memset(long_val, 'v', sizeof(long_val));
	long_val[ATP_LABEL_VAL_MAX + 1] = '\0';
	refuses("src is missing", ATP_E_MSG_FIELD, NULL, SRC, "x", CTS);
	refuses("uri is missing", ATP_E_MSG_FIELD, SRC, NULL, "x", CTS);
	refuses("val is missing", ATP_E_MSG_FIELD, SRC, SRC, NULL, CTS);
	refuses("cts is missing", ATP_E_MSG_FIELD, SRC, SRC, "x", NULL);
	refuses("src is no DID", ATP_E_MSG_DID, "example.com", SRC, "x", CTS);
	refuses("cts is no datetime", ATP_E_DATETIME, SRC, SRC, "x", "yesterday");
	refuses("val is empty", ATP_E_LABEL_VAL, SRC, SRC, "", CTS);
	refuses("val has 129 bytes", ATP_E_LABEL_VAL, SRC, SRC, long_val, CTS);
	long_val[ATP_LABEL_VAL_MAX] = '\0';
	begin_labels(1, 1);
	put_label(SRC, SRC, long_val, CTS);
	ok(parse() == ATP_OK && atp_labels_next(&msg, &label, &at) == ATP_OK, "F-31: val of 128 bytes");

	begin_labels(1, 2);
	atp_cbor_put_array(&w, 1);
	atp_cbor_put_int(&w, 5);
	put_label(SRC, SRC, "good", CTS);
	ok(parse() == ATP_OK && atp_labels_next(&msg, &label, &at) == ATP_E_MSG_TYPE, "a label that is no map");
	ok(atp_labels_next(&msg, &label, &at) == ATP_OK, "the next one is read");
}

static void
test_messages(void)
{
	begin_labels(0, 0);
	ok(parse() == ATP_E_SEQ_RANGE, "E-40: seq 0");
	begin("#labels");
	atp_cbor_put_map(&w, 1);
	atp_cbor_put_key(&w, "labels");
	atp_cbor_put_array(&w, 0);
	ok(parse() == ATP_E_SEQ_MISSING, "E-40: no seq");
	begin("#labels");
	atp_cbor_put_map(&w, 1);
	atp_cbor_put_key(&w, "seq");
	atp_cbor_put_int(&w, 9);
	ok(parse() == ATP_E_MSG_FIELD && msg.seq == 9, "E-50: no labels; the seq is known");
	begin("#labels");
	atp_cbor_put_map(&w, 2);
	atp_cbor_put_key(&w, "seq");
	atp_cbor_put_int(&w, 9);
	atp_cbor_put_key(&w, "labels");
	atp_cbor_put_null(&w);
	ok(parse() == ATP_E_MSG_TYPE && msg.seq == 9, "E-50: labels of another type");
	begin_labels(3, 0);
	ok(parse() == ATP_OK && msg.nlabels == 0, "no labels at all");
	begin("#info");
	atp_cbor_put_map(&w, 1);
	atp_cbor_put_key(&w, "name");
	atp_cbor_put_text(&w, "OutdatedCursor", 14);
	ok(parse() == ATP_OK && msg.kind == ATP_LABELS_INFO && msg.seq == 0 &&
	   atp_span_is(msg.name, "OutdatedCursor"), "E-42: #info");
	begin("#other");
	atp_cbor_put_map(&w, 1);
	atp_cbor_put_key(&w, "seq");
	atp_cbor_put_int(&w, 4);
	ok(parse() == ATP_OK && msg.kind == ATP_LABELS_UNKNOWN && msg.seq == 4, "E-22: unknown type");
	begin_labels(3, 0);
	ok(parse() == ATP_OK && msg.kind == ATP_LABELS_LABELS, "E-61: labels");
	frame.type = (AtpSpan) {"com.example.label.x#labels", 26};
	ok(atp_labels_parse(&frame, &msg, &at) == ATP_OK && msg.kind == ATP_LABELS_UNKNOWN, "S-10: labels of another Lexicon");
	frame.type = (AtpSpan) {ATP_NSID_LABELS "#labels", strlen(ATP_NSID_LABELS) + 7};
	ok(atp_labels_parse(&frame, &msg, &at) == ATP_OK && msg.kind == ATP_LABELS_LABELS, "S-10: labels of this Lexicon");
}

int
main(void)
{
	test_full();
	test_refusals();
	test_messages();
	return done_testing();
}
