/*
 * handle_txt.c
 *		Which account a handle's domain names: see handle_txt.h.
 */
#include "core/syntax/handle_txt.h"

#define MARK		"did="
#define MARK_LEN	4

void
atp_handle_txt_begin(AtpHandleTxt *txt)
{
	txt->found = ATP_HANDLE_NONE;
	txt->did_len = txt->record_len = 0;
}

/* A TXT record is complete: does it name an account, and a different one than an earlier record?  (W-20) */
static void
end_record(AtpHandleTxt *txt)
{
	const char *did = txt->record + MARK_LEN;
	size_t		n = txt->record_len;
	size_t		at;

	txt->record_len = 0;
	if (n < MARK_LEN || n > sizeof(txt->record) || memcmp(txt->record, MARK, MARK_LEN) != 0)
		return;
	n -= MARK_LEN;
	if (atp_did_check(did, n, &at) != ATP_OK)
		return;
	if (txt->found == ATP_HANDLE_NONE)
	{
		txt->found = ATP_HANDLE_DID;
		txt->did_len = n;
		memcpy(txt->did, did, n);
	}
	else if (n != txt->did_len || memcmp(txt->did, did, n) != 0)
		txt->found = ATP_HANDLE_SEVERAL;
}

void
atp_handle_txt_string(AtpHandleTxt *txt, const char *s, size_t n, bool first)
{
	size_t		room;

	if (first)
		end_record(txt);
	room = txt->record_len < sizeof(txt->record) ? sizeof(txt->record) - txt->record_len : 0;
	if (n > room)
	{
		/* A record of this length can name no DID: ignore the rest of it. */
		txt->record_len = sizeof(txt->record) + 1;
		return;
	}
	if (n > 0)
		memcpy(txt->record + txt->record_len, s, n);
	txt->record_len += n;
}

AtpHandleFound
atp_handle_txt_end(AtpHandleTxt *txt)
{
	end_record(txt);
	return txt->found;
}

static bool
is_space(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

AtpSpan
atp_handle_file(const char *s, size_t n)
{
	size_t		at;

	if (n > ATP_HANDLE_FILE_MAX)
		n = ATP_HANDLE_FILE_MAX;
	while (n > 0 && is_space(s[0]))
		s++, n--;
	while (n > 0 && is_space(s[n - 1]))
		n--;
	return atp_did_check(s, n, &at) == ATP_OK ? (AtpSpan) {s, n} : (AtpSpan) {0};
}
