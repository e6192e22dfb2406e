/*
 * get_blocks.c
 *		One request com.atproto.sync.getBlocks: see get_blocks.h.
 */
#include "core/repo/get_blocks.h"

void
atp_get_blocks_begin(AtpGetBlocks *request, size_t url_len, size_t block_max)
{
	size_t		room = url_len < ATP_GET_BLOCKS_URL_MAX ? ATP_GET_BLOCKS_URL_MAX - url_len : 0;

	request->block_max = block_max;
	request->max = ATP_GET_BLOCKS_MAX;
	if (room < ATP_GET_BLOCKS_QUERY_MAX)
		request->max = (unsigned) (room / ATP_GET_BLOCKS_PARAM);
	request->n = 0;
	request->missing = 0;
}

/* The number of the block in the request, or n. */
static unsigned
find_asked(const AtpGetBlocks *request, AtpBytes cid)
{
	unsigned	i = 0;

	while (i < request->n && memcmp(request->cid[i], cid.ptr, ATP_CID_BLESSED_LEN) != 0)
		i++;
	return i;
}

AtpErr
atp_get_blocks_add(AtpGetBlocks *request, AtpBytes cid)
{
	if (!atp_cid_is_node(cid))
		return ATP_E_FETCH_CODEC;
	if (find_asked(request, cid) < request->n)
		return ATP_OK;
	if (request->n >= request->max)
		return ATP_E_FETCH_FULL;
	memcpy(request->cid[request->n], cid.ptr, ATP_CID_BLESSED_LEN);
	request->came[request->n++] = false;
	request->missing++;
	return ATP_OK;
}

size_t
atp_get_blocks_query(const AtpGetBlocks *request, char out[ATP_GET_BLOCKS_QUERY_MAX])
{
	static const char name[] = "&cids=";
	size_t		len = 0;

	for (unsigned i = 0; i < request->n; i++)
	{
		char		text[ATP_CID_TEXT_MAX];
		size_t		n = atp_cid_format(request->cid[i], ATP_CID_BLESSED_LEN, text);

		memcpy(out + len, name, sizeof(name) - 1);
		len += sizeof(name) - 1;
		memcpy(out + len, text, n);
		len += n;
	}
	return len;
}

AtpErr
atp_get_blocks_take(AtpGetBlocks *request, const AtpCarBlock *block, bool *taken)
{
	unsigned	i;

	*taken = false;
	if (!atp_cid_is_node(block->cid))
		return ATP_OK;
	i = find_asked(request, block->cid);
	if (i == request->n || request->came[i])
		return ATP_OK;
	if (block->data.len > request->block_max)
		return ATP_E_FETCH_SIZE;
	request->came[i] = true;
	request->missing--;
	*taken = true;
	return ATP_OK;
}
