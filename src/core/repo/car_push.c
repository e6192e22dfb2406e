/*
 * car_push.c
 *		CAR version 1 files that arrive in pieces, rules: see
 *		car_push.h.
 */
#include "core/repo/car_push.h"
#include "core/syntax/chars.h"

void
atp_car_push_begin(AtpCarPush *push, const AtpCarTaker *taker)
{
	*push = (AtpCarPush) {.taker = *taker};
}

/* Refuses a section's length as soon as it is known, before memory is taken for the section. */
static AtpErr
check_length(const AtpCarPush *push, uint64_t len)
{
	if (len == 0)
		return ATP_E_CAR_SECTION_EMPTY;
	if (push->nroots == 0)
		return len > ATP_CAR_HEADER_MAX ? ATP_E_CAR_HEADER_SIZE : ATP_OK;
	return len > ATP_CAR_PUSH_ROOM ? ATP_E_CAR_SECTION_SIZE : ATP_OK;
}

/* Takes bytes up to the end of the section's varint; returns their number. */
static size_t
take_varint(AtpCarPush *push, const uint8_t *data, size_t n)
{
	size_t		taken = 0;
	size_t		pos = 0;
	uint64_t	len;

	while (taken < n && push->nvarint < ATP_VARINT_MAX && !push->counted)
	{
		push->varint[push->nvarint++] = data[taken];
		push->counted = data[taken++] < 0x80;
	}
	if (!push->counted && push->nvarint < ATP_VARINT_MAX)
		return taken;
	push->err = atp_varint_read(push->varint, push->nvarint, &pos, &len);
	if (push->err == ATP_OK)
		push->err = check_length(push, len);
	push->len = push->err == ATP_OK ? (size_t) len : 0;
	push->have = 0;
	push->buf = NULL;
	return taken;
}

static AtpErr
take_header(AtpCarPush *push, AtpBytes header, size_t *at)
{
	AtpCar		car = {0};
	AtpErr		err = atp_car_header(&car, header, (size_t) push->at + push->nvarint, at);

	if (err != ATP_OK)
		return err;
	*at = (size_t) push->at;
	if (car.nroots == 0)
		return ATP_E_CAR_NO_ROOT;
	if (!atp_cid_is_node(car.root))
		return ATP_E_COMMIT_ROOT;
	push->nroots = car.nroots;
	memcpy(push->root, car.root.ptr, sizeof(push->root));
	return ATP_OK;
}

static AtpErr
take_block(AtpCarPush *push, AtpBytes section, size_t *at)
{
	AtpCarBlock block = {.at = (size_t) push->at};
	AtpCid		cid;
	size_t		cid_len;
	AtpErr		err;

	if ((err = atp_cid_prefix(section.ptr, section.len, &cid, &cid_len, at)) != ATP_OK)
	{
		*at += (size_t) push->at + push->nvarint;
		return err;
	}
	*at = (size_t) push->at;
	block.cid = (AtpBytes) {section.ptr, cid_len};
	block.data = (AtpBytes) {section.ptr + cid_len, section.len - cid_len};
	if (block.data.len > ATP_CAR_BLOCK_MAX)
		return ATP_E_CAR_SECTION_SIZE;
	if ((err = atp_car_verify(&block, push->taker.sha256, push->taker.sha_ctx)) != ATP_OK)
		return err;
	if (!atp_cid_is_blessed(block.cid.ptr, block.cid.len))
		return ATP_E_CID_NOT_BLESSED;
	if ((err = push->taker.block(push->taker.ctx, &block)) != ATP_OK)
		return err;
	push->blocks++;
	return ATP_OK;
}

/*
 * Takes bytes of the section; returns their number.  When the section is
 * complete, *section is set: it points into the piece if the piece has all of
 * the section, else into the taker's memory.
 */
static size_t
take_section(AtpCarPush *push, const uint8_t *data, size_t n, AtpBytes *section)
{
	size_t		taken = push->len - push->have;

	if (taken > n)
		taken = n;
	*section = (AtpBytes) {NULL, push->len};
	if (taken == push->len)
	{
		section->ptr = data;
		return taken;
	}
	if (push->buf == NULL && (push->buf = push->taker.room(push->taker.ctx, push->len)) == NULL)
	{
		push->err = ATP_E_CAR_ROOM;
		return 0;
	}
	memcpy(push->buf + push->have, data, taken);
	push->have += taken;
	if (push->have == push->len)
		section->ptr = push->buf;
	return taken;
}

AtpErr
atp_car_push(AtpCarPush *push, const uint8_t *data, size_t n, size_t *at)
{
	*at = (size_t) push->at;
	while (n > 0 && push->err == ATP_OK)
	{
		AtpBytes	section = {NULL, 0};
		size_t		taken;

		if (!push->counted)
			taken = take_varint(push, data, n);
		else
			taken = take_section(push, data, n, &section);
		push->bytes += taken;
		data += taken;
		n -= taken;
		*at = (size_t) push->at;
		if (section.ptr == NULL)
			continue;
		push->err = push->nroots == 0 ? take_header(push, section, at) : take_block(push, section, at);
		if (push->err != ATP_OK)
			break;
		push->at = push->bytes;
		push->nvarint = 0;
		push->counted = false;
	}
	return push->err;
}

AtpErr
atp_car_push_end(AtpCarPush *push, size_t *at)
{
	*at = (size_t) push->at;
	if (push->err == ATP_OK)
	{
		if (push->counted)
			push->err = ATP_E_CAR_TRUNCATED;
		else if (push->nvarint > 0 || push->nroots == 0)
			push->err = ATP_E_VARINT_TRUNCATED;
	}
	return push->err;
}
