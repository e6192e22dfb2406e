/*
 * export_owner.c
 *		Selects the subscription whose settings and rights count for an account's export.
 */
#include "postgres.h"

#include "catalog/namespace.h"
#include "core/syntax/did.h"
#include "stream/format.h"
#include "tables/export/export_owner.h"
#include "types/types.h"
#include "utils/builtins.h"

const AtpSubscription *
atp_export_owner_of(const char *target, const struct varlena *did)
{
	List	   *names = atp_subscriptions_filling(target, "by_repo", "backfill = 'none', name");
	const AtpSubscription *sub = NULL;
	ListCell   *name;
	char		text[ATP_DID_MAX];
	int			len = (int) atp_did_copy(did, text);

	foreach(name, names)
	{
		sub = atp_subscription_borrow(lfirst(name), CurrentMemoryContext);
		if (sub->settings.keep_records && atp_wants_did(&sub->settings, did))
			break;
		sub = NULL;
	}
	if (sub == NULL && !OidIsValid(get_namespace_oid(target, true)))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_SCHEMA),
				 errmsg("schema \"%s\" does not exist", target),
				 errhint("Name the target of a subscription: SELECT DISTINCT target FROM atproto.subscription. For a new one, CREATE SCHEMA %s, and subscribe with target => %s.",
						 quote_identifier(target), quote_literal_cstr(target))));
	if (sub == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("no subscription keeps records of account \"%.*s\" in schema \"%s\"",
						len, text, target),
				 errhint("Subscribe to the account first: atproto.subscribe('name', 'wss://host', target => %s, dids => '{%.*s}'). For load_car() the subscription may rest: SELECT atproto.pause('name'). Or name the schema of a subscription with the account: SELECT DISTINCT target FROM atproto.subscription.",
						 quote_literal_cstr(target), len, text)));
	return sub;
}
