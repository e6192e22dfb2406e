/*
 * parts.c
 *		Times, references, pictures.
 */
#include "parts.h"

void
put_now(const Network *net, Values *v, Value *parent)
{
	char		now[TIME_TEXT];

	time_text(net->micros, now);
	value_text(v, parent, "createdAt", "%s", now);
}

/* A strong reference to a record. */
void
put_strong_ref(Values *v, Value *parent, const char *key, const char *did, Kind kind, const char *rkey,
			   const uint8_t digest[DIGEST_LEN])
{
	Value	   *ref = value_map(v, parent, key);
	uint8_t		cid[ATP_CID_BLESSED_LEN];
	char		text[ATP_CID_TEXT_MAX];
	size_t		len;

	cid_of_digest(digest, cid);
	len = atp_cid_format(cid, sizeof cid, text);
	value_text(v, ref, "cid", "%.*s", (int) len, text);
	value_text(v, ref, "uri", "at://%s/%s/%.*s", did, collections[kind], ATP_TID_TEXT, rkey);
}

void
put_ref(const Network *net, Values *v, Value *parent, const char *key, const PostRef *post)
{
	put_strong_ref(v, parent, key, net->accounts[post->account].did, KIND_POST, post->rkey, post->digest);
}

void
put_blob(Network *net, Values *v, Value *parent, const char *key)
{
	Value	   *blob = value_map(v, parent, key);
	uint8_t		cid[ATP_CID_BLESSED_LEN];
	uint8_t		digest[DIGEST_LEN];

	random_bytes(&net->random, digest, sizeof digest);
	cid_of_digest(digest, cid);
	cid[1] = ATP_CID_CODEC_RAW;
	value_text(v, blob, "$type", "blob");
	value_link(v, blob, "ref", cid);
	value_text(v, blob, "mimeType", "image/jpeg");
	value_integer(v, blob, "size", (int64_t) random_below(&net->random, 1000000));
}

void
put_aspect(Network *net, Values *v, Value *image)
{
	Value	   *ratio = value_map(v, image, "aspectRatio");

	value_integer(v, ratio, "height", (int64_t) random_below(&net->random, 4000) + 1);
	value_integer(v, ratio, "width", (int64_t) random_below(&net->random, 4000) + 1);
}
