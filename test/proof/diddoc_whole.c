/*
 * diddoc_whole.c
 *		Arrays of a DID document, and the document, with any JSON and any entries.
 *
 * proves: atp_diddoc_parse read_array read_doc_entry
 * sources: test/proof/lib/any_json.c
 * replaces: is_did:any_is_did take_key:any_take take_service:any_take take_alias:any_alias
 * short: -DN=5 -DANY_TEXT_MAX=1 --unwind 6 --unwindset strlen.0:20
 * long: -DN=8 -DANY_TEXT_MAX=1 --unwind 9 --unwindset strlen.0:20
 * assumes: JSON's readers do what lib/any_json.c says; entries are taken as diddoc.c proves
 */
#include "core/wire/diddoc.c"
#include "lib/proof.h"

static unsigned aliases;

bool
any_is_did(const DocReader *d, const AtpJsonItem *item, const char *fragment)
{
	return item->kind == ATP_JSON_TEXT && any_bool();
}

void
any_take(DocReader *d, const DocEntry *entry)
{
	LAW(entry->field[ENDPOINT].kind <= ATP_JSON_NULL);
}

void
any_alias(DocReader *d, const AtpJsonItem *item)
{
	LAW(item->kind != ATP_JSON_END && item->kind != ATP_JSON_KEY);
	aliases++;
}

static bool
point(void *ctx, AtpCurve curve, const uint8_t *point, size_t n)
{
	return any_bool();
}

int
main(void)
{
	AtpDidDoc	doc;
	size_t		at;
	AtpErr		err;

	ANY_TEXT(s, n, N);
	err = atp_diddoc_parse(s, n, (AtpSpan) {"did:x:y", 7}, point, NULL, &doc, &at);
	LAW_OF_ERRORS(err, at, n);
	LAW(!doc.has_key && !doc.has_pds && doc.handle_len == 0);
	if (aliases > 0)
		REACHED("an alias");
	if (err == ATP_OK)
		REACHED("a document");
	return 0;
}
