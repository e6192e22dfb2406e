/*
 * car.c
 *		CAR version 1 files, rules B-50 to B-53: the reader, and the index from CID to block.  A sender
 *		chooses the CIDs: no choice may make the index slow (see first_slot()).
 */
#include "core/repo/car.h"
#include "core/codec/cid.h"
#include "core/codec/dagcbor.h"
#include "core/codec/field.h"
#include "core/codec/varint.h"

/* Reads the varint at car->pos and the section of so many bytes after it. */
static AtpErr
read_section(AtpCar *car, AtpBytes *section, size_t *at)
{
	size_t		pos = car->pos;
	uint64_t	len;
	AtpErr		err;

	*at = car->pos;
	if ((err = atp_varint_read(car->buf, car->len, &pos, &len)) != ATP_OK)
		return err;
	if (len == 0)
		return ATP_E_CAR_SECTION_EMPTY;
	if (len > car->len - pos)
		return ATP_E_CAR_TRUNCATED;
	*section = (AtpBytes) {car->buf + pos, (size_t) len};
	car->pos = pos + (size_t) len;
	return ATP_OK;
}

/* Reads the members of "roots" behind its head; stores the first, and the offset of the members. */
static AtpErr
read_roots(AtpCar *car, AtpCborReader *r, const AtpCborItem *head, size_t header_at, size_t *at)
{
	AtpCborItem item;
	AtpErr		err;

	if (head->kind != ATP_CBOR_ARRAY)
		return ATP_E_CAR_ROOTS;
	car->nroots = head->u;
	car->roots_at = header_at + r->pos;
	for (uint64_t i = 0; i < car->nroots; i++)
	{
		if ((err = atp_cbor_next(r, &item, at)) != ATP_OK)
			return err;
		if (item.kind != ATP_CBOR_LINK)
			return ATP_E_CAR_ROOTS;
		if (i == 0)
			car->root = item.str;
	}
	return ATP_OK;
}

/* A map with version 1 and roots; other keys are tolerated (B-50). */
static AtpErr
read_header(AtpCar *car, AtpBytes header, size_t header_at, size_t *at)
{
	AtpCborReader r;
	AtpFields	fields;
	AtpSpan		key;
	AtpCborItem item;
	AtpErr		err;
	bool		has_roots = false;
	bool		has_version = false;

	atp_cbor_init(&r, header.ptr, header.len, ATP_CBOR_DEPTH_DEFAULT);
	if ((err = atp_cbor_next(&r, &item, at)) != ATP_OK)
		return err;
	if (item.kind != ATP_CBOR_MAP)
		return ATP_E_CAR_HEADER;
	fields = atp_fields(&r, &item);
	while ((err = atp_fields_next(&fields, &key, &item, at)) == ATP_OK)
	{
		if (atp_span_is(key, "roots"))
		{
			if ((err = read_roots(car, &r, &item, header_at, at)) != ATP_OK)
				return err;
			has_roots = true;
		}
		else if (atp_span_is(key, "version"))
		{
			if (item.kind != ATP_CBOR_UINT || item.u != 1)
				return ATP_E_CAR_VERSION;
			has_version = true;
		}
	}
	if (err != ATP_E_CBOR_END)
		return err;
	*at = r.pos;
	if (r.pos != header.len)
		return ATP_E_CBOR_TRAILING;
	return has_roots && has_version ? ATP_OK : ATP_E_CAR_HEADER;
}

AtpErr
atp_car_header(AtpCar *car, AtpBytes header, size_t header_at, size_t *at)
{
	AtpErr		err;

	if (header.len > ATP_CAR_HEADER_MAX)
		return ATP_E_CAR_HEADER_SIZE;
	if ((err = read_header(car, header, header_at, at)) != ATP_OK)
		*at += header_at;
	return err;
}

AtpErr
atp_car_open(AtpCar *car, const uint8_t *buf, size_t len, size_t *at)
{
	AtpBytes	header;
	AtpErr		err;

	*car = (AtpCar) {.buf = buf, .len = len};
	if ((err = read_section(car, &header, at)) != ATP_OK)
		return err;
	if (header.len > ATP_CAR_HEADER_MAX)
		return ATP_E_CAR_HEADER_SIZE;
	if ((err = read_header(car, header, header.ptr - buf, at)) != ATP_OK)
		*at += header.ptr - buf;
	return err;
}

AtpErr
atp_car_next(AtpCar *car, AtpCarBlock *block, size_t *at)
{
	AtpBytes	section;
	AtpCid		cid;
	size_t		cid_len;
	AtpErr		err;

	block->at = *at = car->pos;
	if (car->pos == car->len)
		return ATP_E_CAR_END;
	if ((err = read_section(car, &section, at)) != ATP_OK)
		return err;
	if ((err = atp_cid_prefix(section.ptr, section.len, &cid, &cid_len, at)) != ATP_OK)
	{
		*at += section.ptr - car->buf;
		return err;
	}
	*at = block->at;
	block->cid = (AtpBytes) {section.ptr, cid_len};
	block->data = (AtpBytes) {section.ptr + cid_len, section.len - cid_len};
	return ATP_OK;
}

bool
atp_car_can_verify(const AtpCarBlock *block)
{
	AtpCid		cid;
	size_t		at;

	return atp_cid_check(block->cid.ptr, block->cid.len, &cid, &at) == ATP_OK &&
		cid.hash == ATP_CID_SHA2_256;
}

AtpErr
atp_car_verify(const AtpCarBlock *block, AtpSha256Fn sha256, void *ctx)
{
	uint8_t		digest[32];

	if (!atp_car_can_verify(block))
		return ATP_E_CAR_HASH_FUNCTION;
	sha256(ctx, block->data.ptr, block->data.len, digest);
	/* The digest is the end of the CID. */
	return memcmp(digest, block->cid.ptr + block->cid.len - sizeof(digest), sizeof(digest)) == 0 ? ATP_OK : ATP_E_CAR_HASH;
}

/* The i-th of a series of numbers that only the secret seed determines (splitmix64). */
static inline uint64_t
secret_number(uint64_t seed, uint64_t i)
{
	uint64_t	z = seed + (i + 1) * UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

/* Computing the secret numbers takes longer than a search: the index keeps the numbers of its seed for all files. */
static inline void
keep_secrets(AtpCarIndex *index)
{
	if (index->secrets[0] == secret_number(index->seed, 0))
		return;
	for (size_t i = 0; i < ATP_CAR_SECRETS; i++)
		index->secrets[i] = secret_number(index->seed, i);
}

/*
 * Where the search for a CID begins.  A sender chooses CIDs: one block under many codecs has one digest.  So
 * each four bytes of the whole CID are multiplied by a secret number, a different one for each position, and
 * the upper half of the sum decides.  Without the secret, a sender could put all CIDs into one slot, and each
 * search would read the whole index.
 */
static inline size_t
first_slot(const AtpCarIndex *index, AtpBytes cid)
{
	const uint64_t *secret = index->secrets;
	uint64_t	sum = secret[0] + cid.len * secret[1];
	size_t		nwords = cid.len / 4;
	uint32_t	word;

	/* atp_car_next() gives no longer CID, so the index has none */
	if (cid.len > ATP_CID_MAX)
		return 0;
	for (size_t i = 0; i < nwords; i++)
	{
		memcpy(&word, cid.ptr + 4 * i, 4);
		sum += word * secret[2 + i];
	}
	if (cid.len % 4 != 0)
	{
		word = 0;
		memcpy(&word, cid.ptr + 4 * nwords, cid.len % 4);
		sum += word * secret[2 + nwords];
	}
	return (size_t) (((sum >> 32) * index->nslots) >> 32);
}

/* The slot of this CID, or the free slot where it would be stored. */
static inline uint32_t *
find_slot(const AtpCarIndex *index, AtpBytes cid)
{
	size_t		i = first_slot(index, cid);

	for (;; i = (i + 1) & (index->nslots - 1))
	{
		const AtpCarBlock *block;

		if (index->slots[i] == 0)
			return &index->slots[i];
		block = &index->blocks[index->slots[i] - 1];
		if (block->cid.len == cid.len && memcmp(block->cid.ptr, cid.ptr, cid.len) == 0)
			return &index->slots[i];
	}
}

/* B-52: blocks may come in any order, more than once, and without being needed. */
bool
atp_car_index_add(AtpCarIndex *index, const AtpCarBlock *block)
{
	uint32_t   *slot;

	if (index->n >= index->cap)
		return false;
	if (index->n == 0)
		keep_secrets(index);
	slot = find_slot(index, block->cid);
	if (*slot == 0)
	{
		index->blocks[index->n++] = *block;
		*slot = (uint32_t) index->n;
	}
	return true;
}

AtpErr
atp_car_index_next(AtpCarIndex *index, AtpCar *car, AtpSha256Fn sha256, void *ctx, size_t *at)
{
	AtpCarBlock block;
	AtpErr		err;

	if ((err = atp_car_next(car, &block, at)) != ATP_OK ||
		(err = atp_car_verify(&block, sha256, ctx)) != ATP_OK)
		return err;
	return atp_car_index_add(index, &block) ? ATP_OK : ATP_E_CAR_BLOCKS;
}

const AtpCarBlock *
atp_car_index_find(const AtpCarIndex *index, AtpBytes cid)
{
	uint32_t   *slot;

	if (index->n == 0)
		return NULL;
	slot = find_slot(index, cid);
	return *slot == 0 ? NULL : &index->blocks[*slot - 1];
}
