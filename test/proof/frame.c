/*
 * frame.c
 *		Frames and signed commits, with any DAG-CBOR: their parts lie in the input, and errors have an offset there.
 *
 * proves: atp_frame_parse read_header read_error read_field atp_fields_next atp_sig_check
 * sources: core/repo/sig.c test/proof/lib/any_cbor.c core/codec/cid.c
 * replaces: atp_span_is:any_is
 * wraps: atp_fields_next
 * short: -DN=6 --unwind 5 --unwindset memcmp.0:37,is_in_range.0:9,is_in_range.1:5
 * long: -DN=10 --unwind 7 --unwindset memcmp.0:37,is_in_range.0:9,is_in_range.1:5
 * assumes: DAG-CBOR's readers do what lib/any_cbor.c says; any key may be any of a frame's or a commit's; DIDs and TIDs are checked by functions that only read
 */
#include "core/wire/frame.c"
#include "core/repo/commit.c"
#include "core/repo/sig.h"
#include "lib/proof.h"

bool
any_is(AtpSpan s, const char *literal)
{
	return any_bool();
}

AtpErr
atp_did_check(const char *s, size_t n, size_t *at)
{
	LAW(n == 0 || __CPROVER_r_ok(s, n));
	return any_bool() ? ATP_OK : ATP_E_DID_CHAR;
}

AtpErr
atp_tid_parse(const char *s, size_t n, uint64_t *tid, size_t *at)
{
	LAW(n == 0 || __CPROVER_r_ok(s, n));
	*tid = any_u64();
	return any_bool() ? ATP_OK : ATP_E_TID_CHAR;
}

static void
frame(void)
{
	AtpFrame	frame;
	size_t		at;
	AtpErr		err;

	ANY_BUFFER(s, n, N);
	err = atp_frame_parse(s, n, &frame, &at);
	LAW_OF_ERRORS(err, at, n);
	LAW(frame.payload_at <= n);
	if (err != ATP_OK)
		return;
	LAW(frame.payload.ptr == s + frame.payload_at && frame.payload.len == n - frame.payload_at);
	LAW(frame.kind != ATP_FRAME_MESSAGE || (frame.t.ptr > (const char *) s && frame.t.ptr + frame.t.len <= (const char *) s + frame.payload_at));
	LAW(frame.kind != ATP_FRAME_MESSAGE || (!frame.op_negative && frame.op_u == 1));
	LAW(frame.kind != ATP_FRAME_ERROR || (frame.op_negative && frame.op_u == 0 && frame.error.ptr != NULL));
	if (frame.kind == ATP_FRAME_MESSAGE)
		REACHED("a message");
}

/* The orders, as SEC 2 has them. */
static const uint64_t order_k256[4] = {0xffffffffffffffff, 0xfffffffffffffffe, 0xbaaedce6af48a03b, 0xbfd25e8cd0364141};
static const uint64_t order_p256[4] = {0xffffffff00000000, 0xffffffffffffffff, 0xbce6faada7179e84, 0xf3b9cac2fc632551};

/* Is the number at s at least 1, and less than the order shifted right? */
static bool
is_in_range(const uint8_t *s, const uint64_t order[4], bool half)
{
	bool		less = false;
	bool		same = true;
	bool		zero = true;

	for (int i = 0; i < 4; i++)
	{
		uint64_t	limit = half ? order[i] >> 1 | (i > 0 ? order[i - 1] << 63 : 0) : order[i];
		uint64_t	word = 0;

		for (int j = 0; j < 8; j++)
			word = word << 8 | s[8 * i + j];
		less = less || (same && word < limit);
		same = same && word == limit;
		zero = zero && word == 0;
	}
	/* the orders are odd: half of one is rounded down, and no order is itself in range */
	return !zero && (less || (half && same));
}

static void
signature(void)
{
	uint8_t		sig[64];
	size_t		n = any_size(64);
	bool		is_k256 = any_bool();
	const uint64_t *order = is_k256 ? order_k256 : order_p256;
	AtpErr		err = atp_sig_check(is_k256 ? ATP_K256 : ATP_P256, (AtpBytes) {sig, n});

	LAW((err == ATP_E_SIG_LENGTH) == (n != 64));
	LAW((err == ATP_OK) == (n == 64 && is_in_range(sig, order, false) && is_in_range(sig + 32, order, true)));
	if (err == ATP_OK)
		REACHED("a signature in range");
}

/* One field of a signed commit. */
static void
field(void)
{
	uint8_t		bytes[ATP_COMMIT_SIG_LEN + 1];
	AtpCborItem item = {.kind = (AtpCborKind) any_size(ATP_CBOR_FLOAT), .u = any_u64(), .str = {bytes, any_size(sizeof(bytes))}};
	AtpCommit	commit = {0};
	bool		has_version = false;
	bool		has_rev = false;
	bool		has_prev = false;
	AtpErr		err = read_field((AtpSpan) {"", 0}, &item, &commit, &has_version, &has_rev, &has_prev);

	LAW(err >= ATP_OK && err < ATP_ERR_COUNT);
	if (err != ATP_OK)
		return;
	LAW(commit.sig.ptr == NULL || commit.sig.len == 64);
	LAW(commit.data.ptr == NULL || (commit.data.len == ATP_CID_BLESSED_LEN && bytes[1] == ATP_CID_CODEC_DAG_CBOR && bytes[2] == ATP_CID_SHA2_256));
	LAW(commit.prev.ptr == NULL || (commit.prev.len == ATP_CID_BLESSED_LEN && has_prev));
	LAW(!has_version || (item.kind == ATP_CBOR_UINT && item.u == 3));
	if (commit.data.ptr != NULL)
		REACHED("the tree's root");
}

int
main(void)
{
	frame();
	field();
	signature();
	return 0;
}
