/*
 * filler.c
 *		Which subscription's settings and rights count for an account's export.
 */
#include "postgres.h"

#include "config/spi.h"
#include "core/did.h"
#include "stream/format.h"
#include "tables/filler.h"

const AtpSubscription *
atp_filler_of(const char *target, const struct varlena *did)
{
	AtpResult	found = atp_query("SELECT name FROM atproto.subscription WHERE target = $1::name"
								  " AND by_repo ORDER BY backfill = 'none', name",
								  ATP_ARGS(atp_text_arg(target)));
	const AtpSubscription *sub = NULL;
	char		text[ATP_DID_MAX];

	for (uint64 i = 0; i < found.n && sub == NULL; i++)
	{
		sub = atp_subscription_borrow(atp_get_text(atp_result_row(found, i), "name"), CurrentMemoryContext);
		if (!sub->settings.keep_records || !atp_wants_did(&sub->settings, did))
			sub = NULL;
	}
	atp_result_free(found);
	if (sub == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("no subscription keeps records of account \"%.*s\" in schema \"%s\"",
						(int) atp_did_text((const uint8_t *) VARDATA_ANY(did), VARSIZE_ANY_EXHDR(did), text), text, target),
				 errhint("Exports are brought in as a subscription says, with its owner's rights; it may be disabled.")));
	return sub;
}
