/*
 * commit.c
 *		Parser of signed commits (rule B-60): structure only, see commit.h.
 */
#include "core/codec/cid.h"
#include "core/repo/commit.h"
#include "core/codec/dagcbor.h"
#include "core/syntax/did.h"
#include "core/codec/field.h"
#include "core/codec/shape.h"
#include "core/syntax/tid.h"

#define COMMIT_MAX	1000000		/* bytes, as for any record (B-28) */

static AtpErr
read_field(AtpSpan key, const AtpCborItem *value, AtpCommit *commit,
		   bool *has_version, bool *has_rev, bool *has_prev)
{
	size_t		at;

	if (atp_span_is(key, "did"))
	{
		commit->did = atp_cbor_span(value);
		if (value->kind != ATP_CBOR_TEXT ||
			atp_did_check(commit->did.ptr, commit->did.len, &at) != ATP_OK)
			return ATP_E_COMMIT_DID;
	}
	else if (atp_span_is(key, "rev"))
	{
		if (value->kind != ATP_CBOR_TEXT ||
			atp_tid_parse((const char *) value->str.ptr, value->str.len,
						  &commit->rev, &at) != ATP_OK)
			return ATP_E_COMMIT_REV;
		*has_rev = true;
	}
	else if (atp_span_is(key, "sig"))
	{
		if (value->kind != ATP_CBOR_BYTES || value->str.len != ATP_COMMIT_SIG_LEN)
			return ATP_E_COMMIT_SIG;
		commit->sig = value->str;
	}
	else if (atp_span_is(key, "data"))
	{
		if (value->kind != ATP_CBOR_LINK || !atp_cid_is_node(value->str))
			return ATP_E_COMMIT_LINK;
		commit->data = value->str;
	}
	else if (atp_span_is(key, "prev"))
	{
		if (value->kind == ATP_CBOR_LINK && atp_cid_is_node(value->str))
			commit->prev = value->str;
		else if (value->kind != ATP_CBOR_NULL)
			return ATP_E_COMMIT_LINK;
		*has_prev = true;
	}
	else if (atp_span_is(key, "version"))
	{
		if (value->kind != ATP_CBOR_UINT || value->u != 3)
			return ATP_E_COMMIT_VERSION;
		*has_version = true;
	}
	return ATP_OK;
}

/*
 * Reads the block of a plain commit in one pass.  The literals stand in the order of keys in DAG-CBOR: by length, then
 * bytes.  False: the block has another layout or is invalid, and atp_commit_parse() decides.
 */
static bool
read_plain(const uint8_t *block, size_t n, AtpCommit *commit)
{
	AtpShape	s = {block, block + n};
	AtpSpan		rev;
	size_t		at;

	commit->plain = ATP_SHAPE_IS(&s, "\xa6\x63" "did") && atp_shape_text(&s, &commit->did) &&
		ATP_SHAPE_IS(&s, "\x63rev") && atp_shape_text(&s, &rev) &&
		ATP_SHAPE_IS(&s, "\x63sig") && atp_shape_string(&s, 2, &commit->sig) && commit->sig.len == ATP_COMMIT_SIG_LEN &&
		ATP_SHAPE_IS(&s, "\x64" "data") && atp_shape_node_link(&s, &commit->data) &&
		ATP_SHAPE_IS(&s, "\x64prev\xf6\x67version\x03") && s.p == s.end &&
		atp_did_check(commit->did.ptr, commit->did.len, &at) == ATP_OK &&
		atp_tid_parse(rev.ptr, rev.len, &commit->rev, &at) == ATP_OK;
	return commit->plain;
}

/* B-60: a map with did, rev, sig, data, prev and version, the last of which is 3. */
AtpErr
atp_commit_parse(const uint8_t *block, size_t n, AtpCommit *commit, size_t *at)
{
	AtpCborReader r;
	AtpFields	fields;
	AtpSpan		key;
	AtpCborItem item;
	AtpErr		err;
	bool		has_version = false;
	bool		has_rev = false;
	bool		has_prev = false;

	*commit = (AtpCommit) {0};
	*at = 0;
	if (n > COMMIT_MAX)
		return ATP_E_COMMIT_SIZE;
	if (read_plain(block, n, commit))
		return ATP_OK;
	*commit = (AtpCommit) {0};
	atp_cbor_init(&r, block, n, ATP_CBOR_DEPTH_DEFAULT);
	if ((err = atp_cbor_next(&r, &item, at)) != ATP_OK)
		return err == ATP_E_CBOR_END ? ATP_E_CBOR_TRUNCATED : err;
	if (item.kind != ATP_CBOR_MAP)
		return ATP_E_COMMIT_MAP;
	fields = atp_fields(&r, &item);
	while ((err = atp_fields_next(&fields, &key, &item, at)) == ATP_OK)
	{
		if ((err = read_field(key, &item, commit, &has_version, &has_rev, &has_prev)) != ATP_OK)
			return err;
	}
	if (err != ATP_E_CBOR_END)
		return err;
	*at = r.pos;
	if (r.pos != n)
		return ATP_E_CBOR_TRAILING;
	*at = 0;
	if (commit->did.ptr == NULL || commit->data.ptr == NULL || commit->sig.ptr == NULL ||
		!has_version || !has_rev || !has_prev)
		return ATP_E_COMMIT_MAP;
	return ATP_OK;
}
