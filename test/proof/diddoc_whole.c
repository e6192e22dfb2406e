/*
 * diddoc_whole.c
 *		A DID document, with any JSON, and anything in its arrays.
 *
 * proves: atp_diddoc_parse
 * sources: test/proof/lib/any_json.c
 * replaces: is_did:any_is_did read_array:any_array
 * short: -DN=6 -DANY_TEXT_MAX=1 --unwind 7 --unwindset strlen.0:20
 * long: -DN=8 -DANY_TEXT_MAX=1 --unwind 9 --unwindset strlen.0:20
 * assumes: JSON's readers do what lib/any_json.c says; arrays are read as diddoc_array.c proves
 */
#include "core/wire/diddoc.c"
#include "lib/proof.h"

static unsigned ids;			/* members "id" */
static bool is_its;				/* the answer about the last of them */

bool
any_is_did(const DocReader *d, const AtpJsonItem *item, const char *fragment)
{
	ids++;
	is_its = item->kind == ATP_JSON_TEXT && any_bool();
	return is_its;
}

AtpErr
any_array(DocReader *d, const AtpJsonItem *head, void (*take) (DocReader *d, const DocEntry *entry))
{
	return any_bool() ? ATP_E_DOC_TWICE : atp_json_finish(&d->r, head, d->at);
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
	/* W-06, W-08: a member that is read comes once */
	LAW(err != ATP_OK || (ids == 1 && is_its));
	if (err == ATP_OK)
		REACHED("a document");
	return 0;
}
