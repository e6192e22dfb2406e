/*
 * car_section.c
 *		CARs: a section at any place of a file, a block in it, and the header, with any items in place of DAG-CBOR's.
 *
 * proves: read_section atp_car_next atp_car_header read_header read_roots
 * sources: test/proof/lib/any_cbor.c
 * replaces: atp_span_is:any_is
 * short: -DN=5 --unwind 5 --unwindset atp_varint_read.0:7
 * by hand: 8 s
 * long: -DN=9 --unwind 10
 * wraps: atp_fields_next
 * assumes: atp_cid_prefix() does what cid.c proves; DAG-CBOR's readers what lib/any_cbor.c says; any key may be "roots" or "version"
 */
#include "core/repo/car.c"
#include "lib/proof.h"

bool
any_is(AtpSpan s, const char *literal)
{
	return any_bool();
}

AtpErr
atp_cid_prefix(const uint8_t *b, size_t n, AtpCid *cid, size_t *len, size_t *at)
{
	LAW(n > 0 && __CPROVER_r_ok(b, n));
	*at = any_size(n);
	if (any_bool())
		return ATP_E_CID_VERSION;
	*len = any_size(n);
	ASSUME(*len > 0);
	return ATP_OK;
}

AtpErr
atp_cid_check(const uint8_t *b, size_t n, AtpCid *cid, size_t *at)
{
	cid->hash = any_u64();
	return any_bool() ? ATP_OK : ATP_E_CID_VERSION;
}

static void
block(void)
{
	AtpCarBlock block;
	size_t		at;
	AtpErr		err;

	ANY_BUFFER(s, n, N);
	{
		AtpCar		car = {.buf = s, .len = n, .pos = any_size(n)};
		const size_t before = car.pos;

		err = atp_car_next(&car, &block, &at);
		LAW_OF_ERRORS(err, at, n);
		LAW(car.pos >= before && car.pos <= n && block.at == before);
		LAW((err == ATP_E_CAR_END) == (before == n));
		if (err != ATP_OK)
			return;
		/* nothing lies between two sections, and nothing is in none */
		LAW(block.cid.ptr > s + before && block.cid.ptr + block.cid.len == block.data.ptr && block.cid.len > 0);
		LAW(block.data.ptr + block.data.len == s + car.pos && at == before);
		if (before == 1 && car.pos == N && block.data.len == 1)
			REACHED("a block");
	}
}

/* By itself, since a header with two roots has more bytes than the bound. */
static void
roots(void)
{
	AtpCar		car;
	AtpCborReader r;
	AtpCborItem head;
	size_t		before = any_size(10);
	size_t		from;
	size_t		at;
	AtpErr		err;

	ANY_BUFFER(s, n, N);
	atp_cbor_init(&r, s, n, ATP_CBOR_DEPTH_DEFAULT);
	if (atp_cbor_next(&r, &head, &at) != ATP_OK)
		return;
	from = r.pos;
	car.root.ptr = NULL;
	err = read_roots(&car, &r, &head, before, &at);
	LAW_OF_ERRORS(err, at, n);
	if (err != ATP_OK)
		return;
	LAW(car.roots_at == before + from && car.nroots == head.u);
	LAW((car.nroots > 0) == (car.root.ptr != NULL));
	/* the root is the first of them */
	LAW(car.nroots == 0 || (car.root.ptr > s + from && car.root.ptr + car.root.len + (car.nroots - 1) <= s + r.pos));
	if (car.nroots == 2)
		REACHED("two roots");
}

static void
header(void)
{
	AtpCar		car;
	size_t		before = any_size(10);	/* the varint */
	size_t		at;
	AtpErr		err;

	ANY_BUFFER(s, n, N);
	car.root.ptr = NULL;
	err = atp_car_header(&car, (AtpBytes) {s, n}, before, &at);
	LAW_OF_ERRORS(err, at, before + n);
	if (err != ATP_OK)
		return;
	LAW(car.roots_at > before && car.roots_at <= before + n && car.nroots < N);
	LAW((car.nroots > 0) == (car.root.ptr != NULL));
	LAW(car.root.ptr == NULL || (car.root.ptr >= s && car.root.ptr + car.root.len <= s + n));
	if (car.nroots == 0)
		REACHED("a header");
}

int
main(void)
{
	block();
	roots();
	header();
	return 0;
}
