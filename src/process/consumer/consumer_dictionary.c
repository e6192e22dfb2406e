/*
 * consumer_dictionary.c
 *		The dictionary with which a stream's server may compress messages, from table
 *		zstd_dictionary.  An operator sets the dictionary, or the task
 *		fetch/servers/dictionary.c fetches it from the server.
 */
#include "postgres.h"

#include "common/compat.h"
#include "config/extension.h"
#include "config/option.h"
#include "config/owner.h"
#include "config/spi.h"
#include "config/transaction.h"
#include "config/wake.h"
#include "fmgr.h"
#include "identity/identity.h"
#include "process/consumer/consumer_private.h"
#include "utils/builtins.h"
#include "utils/inval.h"

PG_FUNCTION_INFO_V1(atp_set_zstd_dictionary);

/* If the server offers a dictionary, and no row exists yet, request the dictionary. */
static void
request_dictionary(const AtpSubscription *sub)
{
	if (sub->source->dictionary_nsid == NULL)
		return;
	if (atp_run("INSERT INTO atproto.zstd_dictionary (subscription, endpoint, url) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
				ATP_ARGS(atp_text_arg(sub->name), atp_text_arg(sub->ep->scope),
						 atp_text_arg(psprintf("%s/xrpc/%s", sub->ep->origin, sub->source->dictionary_nsid)))) > 0)
		atp_wake_fetcher();
}

bytea *
atp_dictionary_get(const AtpSubscription *sub, MemoryContext cxt)
{
	AtpCaller	caller = atp_as_table_owner("zstd_dictionary");
	AtpResult	found = atp_query("SELECT dictionary FROM atproto.zstd_dictionary WHERE subscription = $1 AND endpoint = $2",
								  ATP_ARGS(atp_text_arg(sub->name), atp_text_arg(sub->ep->scope)));
	bytea	   *dictionary = NULL;
	MemoryContext old;

	if (found.n > 0)
	{
		bool		isnull;
		Datum		value = atp_get(atp_result_row(found, 0), "dictionary", BYTEAOID, &isnull);

		old = MemoryContextSwitchTo(cxt);
		dictionary = isnull ? NULL : DatumGetByteaPCopy(value);
		MemoryContextSwitchTo(old);
	}
	else
		request_dictionary(sub);
	atp_result_free(found);
	atp_owner_end(caller);
	return dictionary;
}

void
atp_consumer_take_dictionary(Consumer *c, const bytea *dictionary)
{
	const uint8_t *data = dictionary != NULL ? (const uint8_t *) VARDATA_ANY(dictionary) : NULL;
	size_t		len = dictionary != NULL ? VARSIZE_ANY_EXHDR(dictionary) : 0;
	uint32		id = dictionary != NULL ? atp_zstd_dictionary_id(data, len) : 0;

	if (id == c->dictionary)
		return;
	atp_unzstd_free(c->unzstd);
	c->unzstd = id != 0 ? atp_unzstd_new(data, len) : NULL;
	c->dictionary = c->unzstd != NULL ? id : 0;
}

void
atp_consumer_lose_dictionary(Consumer *c)
{
	AtpCaller	caller;

	atp_begin("forgetting a dictionary");
	if (atp_extension_lock() == ATP_EXTENSION_READY)
	{
		caller = atp_as_table_owner("zstd_dictionary");
		/* a server whose dictionary fails each time is asked at growing intervals */
		atp_run("UPDATE atproto.zstd_dictionary SET dictionary = NULL, failures = f.n, changed_at = $3,"
				" due_at = $3 + least(interval '1 minute' * 2 ^ f.n, interval '1 day')"
				" FROM (SELECT CASE WHEN changed_at < $3 - interval '1 day' THEN 0 ELSE least(failures + 1, 20) END AS n"
				"  FROM atproto.zstd_dictionary WHERE subscription = $1 AND endpoint = $2) f"
				" WHERE subscription = $1 AND endpoint = $2 AND url IS NOT NULL",
				ATP_ARGS(atp_text_arg(c->name), atp_text_arg(c->sub->ep->scope), atp_time_arg(atp_time_of_day())));
		atp_wake_fetcher();
		atp_owner_end(caller);
	}
	atp_commit();
	atp_consumer_take_dictionary(c, NULL);
}

/* SQL: atproto.set_zstd_dictionary(name, dictionary) */
Datum
atp_set_zstd_dictionary(PG_FUNCTION_ARGS)
{
	AtpArg		dictionary = ATP_FUNCTION_ARG(1, BYTEAOID);
	AtpSubscription *sub;
	AtpCaller	caller;
	int			nest;

	if (PG_ARGISNULL(0))
		atp_argument_is_null("name");
	SPI_connect();
	nest = atp_caller_begin();
	sub = atp_subscription_borrow(text_to_cstring(PG_GETARG_TEXT_PP(0)), CurrentMemoryContext);
	if (sub->source->compress == NULL && sub->source->dictionary_nsid == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("messages of %s are not compressed", sub->ep->stream)));
	if (!dictionary.isnull)
	{
		bytea	   *bytes = DatumGetByteaPP(dictionary.value);

		if (!atp_zstd_is_dictionary((const uint8_t *) VARDATA_ANY(bytes), VARSIZE_ANY_EXHDR(bytes)))
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_BINARY_REPRESENTATION),
					 errmsg("this is no zstd dictionary"),
					 errdetail("One begins with its magic number and its own, and has at most %d bytes.", ATP_ZSTD_DICTIONARY_MAX)));
	}
	caller = atp_as_table_owner("zstd_dictionary");
	/* url NULL: no fetched dictionary replaces the operator's */
	atp_run("INSERT INTO atproto.zstd_dictionary (subscription, endpoint, dictionary) VALUES ($1, $2, $3)"
			" ON CONFLICT (subscription, endpoint) DO UPDATE SET url = NULL, dictionary = $3, changed_at = now(), failures = 0, error = NULL",
			ATP_ARGS(atp_text_arg(sub->name), atp_text_arg(sub->ep->scope), dictionary));
	CacheInvalidateRelcacheByRelid(atp_relation("subscription"));
	atp_wake_at_commit();
	atp_owner_end(caller);
	atp_caller_end(nest);
	SPI_finish();
	PG_RETURN_VOID();
}
