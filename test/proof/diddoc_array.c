/*
 * diddoc_array.c
 *		Arrays of a DID document, with any JSON and any entries.
 *
 * proves: read_array read_doc_entry
 * sources: test/proof/lib/any_json.c
 * replaces: take_key:any_take take_service:any_take take_alias:any_alias
 * short: -DN=3 -DANY_TEXT_MAX=1 --unwind 6
 * long: -DN=6 -DANY_TEXT_MAX=1 --unwind 8
 * assumes: JSON's readers do what lib/any_json.c says; entries are taken as diddoc.c proves
 */
#include "core/wire/diddoc.c"
#include "lib/proof.h"

static unsigned aliases;

void
any_take(DocReader *d, const DocEntry *entry)
{
	LAW(entry->field[ENDPOINT].kind <= ATP_JSON_NULL);
	REACHED("an entry");
}

void
any_alias(DocReader *d, const AtpJsonItem *item)
{
	LAW(item->kind != ATP_JSON_END && item->kind != ATP_JSON_KEY);
	aliases++;
}

int
main(void)
{
	AtpDidDoc	doc = {0};
	size_t		at;
	DocReader	d = {.doc = &doc, .at = &at};
	AtpJsonItem head;
	AtpErr		err;

	ANY_TEXT(s, n, N);
	atp_json_init(&d.r, s, n, ATP_JSON_DEPTH_DEFAULT);
	if (atp_json_next(&d.r, &head, &at) != ATP_OK)
		return 0;
	err = read_array(&d, &head, any_bool() ? take_key : NULL);
	LAW_OF_ERRORS(err, at, n);
	LAW(err != ATP_OK || d.r.depth == 0);
	if (err == ATP_OK && aliases == 1)
		REACHED("an alias");
	return 0;
}
