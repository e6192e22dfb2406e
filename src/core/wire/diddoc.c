/*
 * diddoc.c
 *		Parser of DID documents: W-06 to W-15.  See diddoc.h.
 */
#include "core/syntax/chars.h"
#include "core/wire/diddoc.h"
#include "core/codec/json.h"

/*
 * The members that are read of an entry of verificationMethod or service.  Each may be absent, or not a text.
 */
typedef enum DocField
{
	ID,
	TYPE,
	CONTROLLER,
	KEY,
	ENDPOINT,
	NFIELDS
} DocField;

static const char *const field_names[NFIELDS] = {
	"id", "type", "controller", "publicKeyMultibase", "serviceEndpoint"
};

typedef struct DocEntry
{
	AtpJsonItem field[NFIELDS]; /* kind ATP_JSON_NULL: absent */
} DocEntry;

typedef struct DocReader
{
	AtpJsonReader r;
	AtpSpan		did;
	AtpPointFn	point;
	void	   *ctx;
	AtpDidDoc  *doc;
	bool		pds_seen;
	size_t	   *at;
} DocReader;

static bool
is_text(const AtpJsonItem *item, const char *text)
{
	return item->kind == ATP_JSON_TEXT && atp_json_is(item, text, strlen(text));
}

/* Is the text the DID followed by this fragment?  A fragment that is not empty may also stand alone. */
static bool
is_did(const DocReader *d, const AtpJsonItem *item, const char *fragment)
{
	char		text[ATP_DID_MAX + 32];
	size_t		n;
	size_t		f = strlen(fragment);

	if (item->kind != ATP_JSON_TEXT || !atp_json_text(item, text, sizeof(text), &n))
		return false;
	if (f > 0 && n == f && memcmp(text, fragment, f) == 0)
		return true;
	return n == d->did.len + f && memcmp(text, d->did.ptr, d->did.len) == 0 &&
		memcmp(text + d->did.len, fragment, f) == 0;
}

/*
 * W-08: a document in which a member that we read is repeated is refused: another reader could take the other
 * value, and see another key or PDS.
 */
static AtpErr
read_doc_entry(DocReader *d, DocEntry *entry)
{
	bool		repeated;
	AtpErr		err = atp_json_members(&d->r, field_names, NFIELDS, entry->field, &repeated, d->at);

	return err == ATP_OK && repeated ? ATP_E_DOC_TWICE : err;
}

/* W-09, W-11: a Multikey whose point lies on its curve. */
static bool
take_multikey(const char *text, size_t n, AtpPointFn point, void *ctx, uint8_t key[ATP_MULTIKEY_LEN])
{
	size_t		at;

	return atp_multikey_parse(text, n, key, &at) == ATP_OK && point(ctx, atp_multikey_curve(key), key + 2, ATP_POINT_LEN);
}

/* W-09: a Multikey; W-10: older forms; W-11: the point lies on the curve; W-12: at most so many characters. */
static bool
read_key(const DocReader *d, const DocEntry *entry, uint8_t key[ATP_MULTIKEY_LEN])
{
	char		text[1 + ATP_BASE58_MAX];
	uint8_t		point[ATP_POINT_LONG_LEN];
	size_t		n;
	size_t		at;
	size_t		len;
	AtpCurve	curve;

	if (entry->field[KEY].kind != ATP_JSON_TEXT || !atp_json_text(&entry->field[KEY], text, sizeof(text), &n) ||
		n == 0 || text[0] != 'z')
		return false;
	if (is_text(&entry->field[TYPE], "Multikey"))
		return take_multikey(text, n, d->point, d->ctx, key);
	if (is_text(&entry->field[TYPE], "EcdsaSecp256r1VerificationKey2019"))
		curve = ATP_P256;
	else if (is_text(&entry->field[TYPE], "EcdsaSecp256k1VerificationKey2019"))
		curve = ATP_K256;
	else
		return false;
	if (atp_multikey_parse_bare(text, n, curve, key, point, &len, &at) != ATP_OK)
		return false;
	return d->point(d->ctx, curve, point, len);
}

/* W-08: of each kind of key, the first valid entry counts. */
static void
take_key(DocReader *d, const DocEntry *entry)
{
	static const char *const fragments[2] = {"#atproto", "#atproto_label"};
	AtpDidDoc  *doc = d->doc;

	for (int i = 0; i < 2; i++)
	{
		bool	   *has = i == 0 ? &doc->has_key : &doc->has_label_key;

		if (!*has && is_did(d, &entry->field[ID], fragments[i]) &&
			is_did(d, &entry->field[CONTROLLER], ""))
			*has = read_key(d, entry, i == 0 ? doc->key : doc->label_key);
	}
}

/* W-14: scheme://host[:port][/] */
static bool
read_endpoint(AtpDidDoc *doc, const char *s, size_t n)
{
	static const char *const schemes[2] = {"https://", "http://"};
	const char *end = s + n;

	for (int i = 0; i < 2; i++)
	{
		size_t		len = strlen(schemes[i]);

		if ((size_t) (end - s) < len || memcmp(s, schemes[i], len) != 0)
			continue;
		doc->pds_is_plain = i == 1;
		doc->pds_port = i == 1 ? 80 : 443;
		s += len;
		break;
	}
	if (s == end - n)
		return false;
	if (end > s && end[-1] == '/')
		end--;
	return atp_host_port_parse(s, end - s, doc->pds, &doc->pds_len, &doc->pds_port);
}

/* W-13: the first entry of a PDS decides, even if its URL is invalid. */
static void
take_service(DocReader *d, const DocEntry *entry)
{
	char		url[ATP_HOST_MAX + 32];
	size_t		n;

	if (d->pds_seen || !is_did(d, &entry->field[ID], "#atproto_pds") ||
		!is_text(&entry->field[TYPE], "AtprotoPersonalDataServer"))
		return;
	d->pds_seen = true;
	d->doc->has_pds = entry->field[ENDPOINT].kind == ATP_JSON_TEXT &&
		atp_json_text(&entry->field[ENDPOINT], url, sizeof(url), &n) && read_endpoint(d->doc, url, n);
}

/* W-15: the first alias with the syntax of a handle counts. */
static void
take_alias(DocReader *d, const AtpJsonItem *item)
{
	static const char scheme[] = "at://";
	char		text[sizeof(scheme) + ATP_HANDLE_MAX];
	size_t		skip = sizeof(scheme) - 1;
	size_t		n;
	size_t		at;

	if (d->doc->handle_len > 0 || item->kind != ATP_JSON_TEXT ||
		!atp_json_text(item, text, sizeof(text), &n) || n < skip || memcmp(text, scheme, skip) != 0 ||
		atp_handle_check(text + skip, n - skip, &at) != ATP_OK)
		return;
	d->doc->handle_len = n - skip;
	atp_handle_normalize(text + skip, n - skip, d->doc->handle);
}

/*
 * Reads an array of objects; with take NULL, an array of texts (the aliases).  Entries after the first
 * ATP_DIDDOC_ENTRIES are skipped.
 */
static AtpErr
read_array(DocReader *d, const AtpJsonItem *head, void (*take) (DocReader *d, const DocEntry *entry))
{
	AtpJsonItem item;
	DocEntry	entry;
	AtpErr		err;

	if (head->kind != ATP_JSON_ARRAY)
		return atp_json_finish(&d->r, head, d->at);
	for (int i = 0;; i++)
	{
		if ((err = atp_json_next(&d->r, &item, d->at)) != ATP_OK)
			return err;
		if (item.kind == ATP_JSON_END)
			return ATP_OK;
		if (i < ATP_DIDDOC_ENTRIES && take != NULL && item.kind == ATP_JSON_OBJECT)
		{
			if ((err = read_doc_entry(d, &entry)) != ATP_OK)
				return err;
			take(d, &entry);
			continue;
		}
		if (i < ATP_DIDDOC_ENTRIES && take == NULL)
			take_alias(d, &item);
		if ((err = atp_json_finish(&d->r, &item, d->at)) != ATP_OK)
			return err;
	}
}

AtpErr
atp_diddoc_parse(const char *s, size_t n, AtpSpan did, AtpPointFn point, void *ctx,
				 AtpDidDoc *doc, size_t *at)
{
	static const char *const members[] = {"id", "verificationMethod", "service", "alsoKnownAs"};
	DocReader	d = {.did = did, .point = point, .ctx = ctx, .doc = doc, .at = at};
	bool		seen[4] = {false};
	bool		is_its = false;
	AtpJsonItem item;
	AtpErr		err;

	*doc = (AtpDidDoc) {0};
	*at = 0;
	if (n > ATP_DIDDOC_MAX)
		return atp_fail(ATP_E_DOC_SIZE, ATP_DIDDOC_MAX, at);
	atp_json_init(&d.r, s, n, ATP_JSON_DEPTH_DEFAULT);
	if ((err = atp_json_next(&d.r, &item, at)) != ATP_OK)
		return err;
	if (item.kind != ATP_JSON_OBJECT)
		return atp_fail(ATP_E_DOC_OBJECT, 0, at);
	for (;;)
	{
		int			which = 0;

		if ((err = atp_json_next(&d.r, &item, at)) != ATP_OK)
			return err;
		if (item.kind == ATP_JSON_END)
			break;
		while (which < 4 && !atp_json_is(&item, members[which], strlen(members[which])))
			which++;
		if (which < 4 && seen[which])
			return ATP_E_DOC_TWICE;
		if (which < 4)
			seen[which] = true;
		if ((err = atp_json_next(&d.r, &item, at)) != ATP_OK)
			return err;
		if (which == 0)
			is_its = is_did(&d, &item, "");
		if (which == 0 || which == 4)
			err = atp_json_finish(&d.r, &item, at);
		else
			err = read_array(&d, &item, which == 1 ? take_key : which == 2 ? take_service : NULL);
		if (err != ATP_OK)
			return err;
	}
	if ((err = atp_json_next(&d.r, &item, at)) != ATP_E_JSON_END)
		return err;
	return is_its ? ATP_OK : atp_fail(ATP_E_DOC_ID, 0, at); /* W-06 */
}

static bool
take_did_key(AtpSpan text, AtpPointFn point, void *ctx, uint8_t key[ATP_MULTIKEY_LEN])
{
	static const char scheme[] = "did:key:";
	size_t		n = sizeof(scheme) - 1;

	return text.ptr != NULL && text.len > n && memcmp(text.ptr, scheme, n) == 0 &&
		take_multikey(text.ptr, text.len, point, ctx, key);
}

void
atp_diddoc_of_parts(AtpSpan key, AtpSpan label_key, AtpSpan endpoint, AtpSpan handle, AtpPointFn point, void *ctx,
					AtpDidDoc *doc)
{
	size_t		at;

	*doc = (AtpDidDoc) {0};
	doc->has_key = take_did_key(key, point, ctx, doc->key);
	doc->has_label_key = take_did_key(label_key, point, ctx, doc->label_key);
	doc->has_pds = endpoint.ptr != NULL && read_endpoint(doc, endpoint.ptr, endpoint.len);
	if (handle.ptr == NULL || atp_handle_check(handle.ptr, handle.len, &at) != ATP_OK)
		return;
	doc->handle_len = handle.len;
	atp_handle_normalize(handle.ptr, handle.len, doc->handle);
}
