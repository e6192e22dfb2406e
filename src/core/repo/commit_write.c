/*
 * commit_write.c
 *		A writer of a repository's commits (B-60, O-02).
 */
#include "core/repo/commit_write.h"
#include "core/syntax/tid.h"

void
atp_commit_put(AtpCborWriter *w, const AtpCommit *commit)
{
	char		rev[ATP_TID_TEXT];

	atp_tid_format(commit->rev, rev);
	atp_cbor_put_map(w, commit->sig.ptr != NULL ? 6 : 5);
	atp_cbor_put_key(w, "did");
	atp_cbor_put_text(w, commit->did.ptr, commit->did.len);
	atp_cbor_put_key(w, "rev");
	atp_cbor_put_text(w, rev, sizeof(rev));
	if (commit->sig.ptr != NULL)
	{
		atp_cbor_put_key(w, "sig");
		atp_cbor_put_bytes(w, commit->sig.ptr, commit->sig.len);
	}
	atp_cbor_put_key(w, "data");
	atp_cbor_put_link(w, commit->data.ptr, commit->data.len);
	atp_cbor_put_key(w, "prev");
	if (commit->prev.ptr != NULL)
		atp_cbor_put_link(w, commit->prev.ptr, commit->prev.len);
	else
		atp_cbor_put_null(w);
	atp_cbor_put_key(w, "version");
	atp_cbor_put_uint(w, 3);
}
