/*
 * subscription_check.c
 *		The trigger that validates and completes rows of atproto.subscription.
 *
 * A role with rights on the table may do by hand what subscribe() does; so all checks are in this
 * trigger, and not in subscribe().  This file checks owner, target, URL and file names; stream_options.c and option.c
 * check the options.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/namespace.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "common/quotable.h"
#include "config/extension.h"
#include "config/known_collection.h"
#include "config/option.h"
#include "config/owner.h"
#include "config/role_limits.h"
#include "config/row_trigger.h"
#include "config/spi.h"
#include "config/stream_options.h"
#include "config/subscription.h"
#include "config/subscription_check.h"
#include "config/subscription_neighbours.h"
#include "config/target.h"
#include "config/target_rename.h"
#include "fmgr.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "net/ca_file.h"
#include "net/endpoint.h"
#include "source.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/syscache.h"

#define URL_MAX		8192		/* bytes */

PG_FUNCTION_INFO_V1(atp_subscription_check);

/*
 * True while subscribe() inserts its row.  A row inserted in another way, above all by pg_restore, is
 * stopped: it must not start a consumer before all rows that belong to the subscription are restored, nor in
 * a copy of the database which nobody watches.
 */
static bool subscribing = false;

static uint64
insert_row(const char *const *columns, const AtpArg *values, int n)
{
	StringInfoData names,
				params;

	initStringInfo(&names);
	initStringInfo(&params);
	for (int i = 0; i < n; i++)
	{
		appendStringInfo(&names, "%s%s", i > 0 ? ", " : "", quote_identifier(columns[i]));
		appendStringInfo(&params, "%s$%d", i > 0 ? ", " : "", i + 1);
	}
	return atp_run_unnamed(psprintf("INSERT INTO atproto.subscription (%s) VALUES (%s) ON CONFLICT DO NOTHING",
									names.data, params.data), values, n);
}

bool
atp_subscription_insert(const char *const *columns, const AtpArg *values, int n)
{
	uint64		inserted;

	subscribing = true;
	PG_TRY();
	{
		inserted = insert_row(columns, values, n);
	}
	PG_FINALLY();
	{
		subscribing = false;
	}
	PG_END_TRY();
	return inserted > 0;
}

/* E-01: plain ws:// only to this machine, or where the subscription allows it. */
static void
check_endpoint(const AtpEndpoint *ep, bool allow_insecure)
{
	if (!ep->tls && !ep->loopback && !allow_insecure)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("the stream's connection would not be encrypted"),
				 errhint("Use wss://. In a network that you trust, allow_insecure => true permits ws://.")));
}

static void
check_proxy(AtpTuple row)
{
	char	   *proxy = atp_get_text_or_null(row, "proxy");

	if (proxy != NULL)
		atp_proxy_check(proxy);
}

/* A warning, not an error: the operator may write the file later. */
static void
warn_of_ca_file(const char *ca_file)
{
	const char *why;
	size_t		len;
	char	   *file = atp_ca_file_read(ca_file, &len, &why);

	if (file == NULL)
		ereport(WARNING,
				(errmsg("%s", why),
				 errdetail("The consumer cannot connect until the file is right, and tries again and again."),
				 errhint("\"ca_file\" is the path of a file of certificates in PEM format on the server's machine, which the server's user may read.%s",
						 is_absolute_path(ca_file) ? "" : " A path without a slash at its beginning is in the data directory: give the whole path.")));
	else
		pfree(file);
}

/*
 * A role that names a file makes the server read the file, so the role needs the rights to read files. old: the
 * row before an update, or NULL.
 */
static void
check_ca_file(const AtpTuple *old, AtpTuple row)
{
	char	   *ca_file = atp_get_text_or_null(row, "ca_file");
	char	   *before = old ? atp_get_text_or_null(*old, "ca_file") : NULL;

	if (ca_file == NULL || (before != NULL && strcmp(ca_file, before) == 0))
		return;
	if (!has_privs_of_role(GetUserId(), ROLE_PG_READ_SERVER_FILES))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied to set \"%s\"", "ca_file"),
				 errdetail("Only roles with privileges of the role \"%s\" may name a file of the server.",
						   "pg_read_server_files")));
	/* no warning for restored and replicated rows: their files may be copied later */
	if (subscribing || (old != NULL && SessionReplicationRole != SESSION_REPLICATION_ROLE_REPLICA))
		warn_of_ca_file(ca_file);
}

static void
check_owner(AtpTuple row)
{
	AtpArg		owner = atp_get_arg(row, "owner", OIDOID);

	if (owner.isnull)
		ereport(ERROR,
				(errcode(ERRCODE_NOT_NULL_VIOLATION), errmsg("owner must not be null")));
	/* a row applied by logical replication is stopped; resume() will check the owner */
	if (SessionReplicationRole != SESSION_REPLICATION_ROLE_REPLICA)
		atp_owner_check(DatumGetObjectId(owner.value));
}

/* Does a consumer run for this row?  A NULL in enabled is reported by the NOT NULL constraint. */
static bool
is_runnable(AtpTuple row)
{
	return atp_is_true(row, "enabled") && atp_get_text_or_null(row, "stopped") == NULL;
}

/*
 * Rows that belong to a subscription refer to its id, which stays when the name changes.  So the id must not
 * change.
 */
static void
check_id(const AtpTuple *old, AtpTuple row)
{
	AtpArg		id = atp_get_arg(row, "id", UUIDOID);

	if (old != NULL && !id.isnull && !DatumGetBool(DirectFunctionCall2(uuid_eq, atp_get_arg(*old, "id", UUIDOID).value, id.value)))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("the id of a subscription cannot be changed")));
}

static bool
same_owner_and_target(AtpTuple a, AtpTuple b)
{
	const char *x = atp_get_text_or_null(a, "target");
	const char *y = atp_get_text_or_null(b, "target");

	return x != NULL && y != NULL && strcmp(x, y) == 0 &&
		DatumGetObjectId(atp_get_arg(a, "owner", OIDOID).value) == DatumGetObjectId(atp_get_arg(b, "owner", OIDOID).value);
}

/*
 * Returns the value of target_owner: the owner of the target's schema when the target was named.  The column
 * is written here alone.  A restored row, or a row from another server, gets InvalidOid: the numbers of
 * roles are another server's there.
 *
 * Check whether the owner may fill the target: when the owner or the target is new, and when a row that does
 * not run becomes runnable. pg_restore inserts rows before it restores the grants on the data tables, as a
 * role that bypasses row security: its rows are not checked here but stopped, and resume() checks.
 */
static Oid
check_target(const AtpTuple *old, AtpTuple row)
{
	const char *target = atp_get_text_or_null(row, "target");
	Oid			known = old != NULL ? DatumGetObjectId(atp_get_arg(*old, "target_owner", OIDOID).value) : InvalidOid;

	if (target == NULL || atp_target_is_renamed() || SessionReplicationRole == SESSION_REPLICATION_ROLE_REPLICA)
		return known;
	if (old == NULL && !subscribing && has_bypassrls_privilege(GetUserId()))
		return known;
	if (old != NULL && same_owner_and_target(*old, row) && (is_runnable(*old) || !is_runnable(row)))
		return known;
	return atp_target_check(DatumGetObjectId(atp_get_arg(row, "owner", OIDOID).value), target);
}

/* As check_target(), when a row is to run: a restored row is stopped, and resume() checks the row. */
static void
check_keep_raw(const AtpTuple *old, AtpTuple row, const AtpStreamKind *source)
{
	const char *target = atp_get_text_or_null(row, "target");
	char	   *fault;

	if (!source->by_repo || target == NULL || !atp_is_true(row, "keep_raw") || !is_runnable(row) || (old == NULL && !subscribing) ||
		SessionReplicationRole == SESSION_REPLICATION_ROLE_REPLICA)
		return;
	if ((fault = atp_target_raw_fault(target)) != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("%s", fault),
				 errdetail("Such a value is the DAG-CBOR: %s gives the bytes.", "value::bytea"),
				 errhint("Leave \"%s\" out, or set it to \"%s\".", "keep_raw", "false")));
}

static Oid
owner_of_identities(void)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(atp_relation("identity")));
	Oid			owner;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "table \"%s\" does not exist", "identity");
	owner = ((Form_pg_class) GETSTRUCT(tuple))->relowner;
	ReleaseSysCache(tuple);
	return owner;
}

static void
refuse_identities(const char *what)
{
	ereport(ERROR,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			 errmsg("%s lacks the rights of role \"%s\"", what, GetUserNameFromId(owner_of_identities(), true)),
			 errdetail("The table \"%s\" serves the subscriptions of all roles, so no other role may fill it or the log that it follows.", "atproto.identity"),
			 errhint("Leave \"%s\" out, or let this role own the subscription and the schema.", "identities")));
}

/* The log is not fresh before each of the workers' positions is, and one process fills the identities: the positions of former workers have to meet first. */
static void
refuse_several_positions(AtpTuple old)
{
	AtpCaller	caller;
	uint64		positions;

	SPI_connect();
	caller = atp_owner_begin(owner_of_identities());
	positions = atp_run("SELECT FROM atproto.cursor WHERE subscription = $1 AND endpoint = $2",
						ATP_ARGS(atp_get_arg(old, "name", TEXTOID), atp_get_arg(old, "endpoint", TEXTOID)));
	atp_owner_end(caller);
	SPI_finish();
	if (positions > 1)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("subscription \"%s\" has the positions of several workers", atp_quotable(atp_get_text(old, "name"))),
				 errhint("Set \"%s\" to 1 first. Set \"%s\" to true when \"%s\" has one row of the subscription.", "workers", "identities", "atproto.cursor")));
}

/*
 * M-30: a subscription that fills atproto.identity.  Later the log is believed only while nobody else may write the log
 * (atproto.log_is_believed()).
 */
static void
check_identities(const AtpTuple *old, AtpTuple row, const AtpStreamKind *source, const AtpEndpoint *ep)
{
	Oid			owner = DatumGetObjectId(atp_get_arg(row, "owner", OIDOID).value);
	Oid			schema = get_namespace_oid(atp_get_text(row, "target"), true);

	if (!atp_is_true(row, "identities"))
		return;
	if (source->pages == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("subscriptions to %s cannot have \"%s\"", ep->stream, "identities"),
				 errdetail("Only a directory of did:plc has the log of identities.")));
	if (SessionReplicationRole == SESSION_REPLICATION_ROLE_REPLICA || (old == NULL && !subscribing) ||
		(old != NULL && atp_is_true(*old, "identities") && same_owner_and_target(*old, row)))
		return;
	if (old != NULL && !atp_is_true(*old, "identities"))
		refuse_several_positions(*old);
	if (!has_privs_of_role(owner, owner_of_identities()))
		refuse_identities("the owner of the subscription");
	if (OidIsValid(schema) && !has_privs_of_role(atp_owner_of_schema(schema), owner_of_identities()))
		refuse_identities("the owner of the target's schema");
}

static AtpEndpoint *
check_url(AtpTuple row)
{
	char	   *url = atp_get_text_or_null(row, "url");
	AtpEndpoint *ep;

	if (url == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_NOT_NULL_VIOLATION), errmsg("url must not be null"),
				 errhint("If the URL comes from atproto.resolve(), CALL atproto.await() first.")));
	if (strstr(atp_get_text(row, "name"), "://") != NULL && strstr(url, "://") == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("name and URL are exchanged: the URL is \"%s\"", atp_quotable(url)),
				 errhint("The name comes first: atproto.subscribe('name', 'wss://host').")));
	if (strlen(url) > URL_MAX)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("the URL is too long"),
				 errhint("Use at most %d bytes.", URL_MAX)));
	if (subscribing && (strstr(url, "?cursor=") != NULL || strstr(url, "&cursor=") != NULL))
		ereport(NOTICE,
				(errmsg("the cursor in the URL has no effect"),
				 errhint("Use the argument \"%s\" of atproto.subscribe().", "cursor")));
	ep = atp_endpoint_parse(url);
	check_endpoint(ep, atp_is_true(row, "allow_insecure"));
	return ep;
}

static const AtpStreamKind *
check_format(AtpTuple row, const AtpEndpoint *ep)
{
	char	   *format = atp_get_text_or_null(row, "format");
	const AtpStreamKind *source = atp_stream_kind_of(ep->stream, format);

	if (source == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("no stream %s is known in the format \"%s\"", ep->stream, format ? atp_quotable(format) : ""),
				 errhint("Leave \"%s\" out, and the URL tells. For JSON subscribe to a Jetstream, whose URL ends with \"/subscribe\" or \"/xrpc/network.bsky.jetstream.subscribeEvents\". Streams that are not of repositories or labels come as \"%s\" or \"%s\".", "format", "dag-cbor", "json")));
	return source;
}

/* Complete a row with the columns that only this trigger writes. old: the row before an update, or NULL. */
static HeapTuple
complete_row(const AtpTuple *old, AtpTuple row, Oid target_owner, const AtpStreamKind *source, const AtpEndpoint *ep)
{
	int			columns[7];
	Datum		values[7];
	bool		nulls[7] = {false};
	int			n = 0;

	columns[n] = atp_column(row, "target_owner");
	values[n++] = ObjectIdGetDatum(target_owner);

	columns[n] = atp_column(row, "endpoint");
	values[n++] = CStringGetTextDatum(ep->scope);
	columns[n] = atp_column(row, "by_repo");
	values[n++] = BoolGetDatum(source->by_repo);
	columns[n] = atp_column(row, "serves_repos");
	values[n++] = BoolGetDatum(source->has_chain);
	if (atp_get_text_or_null(row, "verify") == NULL)
	{
		columns[n] = atp_column(row, "verify");
		values[n++] = CStringGetTextDatum(source->by_repo && !source->has_chain ? "hash" : "chain");
	}
	if (old == NULL && !subscribing)
	{
		columns[n] = atp_column(row, "stopped");
		values[n++] = CStringGetTextDatum("restored, or inserted by hand; atproto.resume() starts it");
	}
	else if (old != NULL && SessionReplicationRole == SESSION_REPLICATION_ROLE_REPLICA)
	{
		/* under logical replication, the publisher's resume() must not start the subscription here */
		static const char *const kept[] = {"stopped", "stopped_at"};

		for (int i = 0; i < lengthof(kept); i++, n++)
		{
			columns[n] = atp_column(row, kept[i]);
			values[n] = SPI_getbinval(old->tuple, old->desc, columns[n], &nulls[n]);
		}
	}
	return heap_modify_tuple_by_cols(row.tuple, row.desc, n, columns, values, nulls);
}

/* SQL: atproto_internal.subscription_check(), BEFORE INSERT OR UPDATE, for each row */
Datum
atp_subscription_check(PG_FUNCTION_ARGS)
{
	AtpRowTrigger call = atp_row_trigger(fcinfo, "subscription_check", ATP_BEFORE_ROW, ATP_ON_ALL);
	AtpTuple	row = call.row;
	AtpTuple   *old = call.updated ? &call.old : NULL;
	AtpEndpoint *ep;
	const AtpStreamKind *source;
	Oid			target_owner;

	check_owner(row);
	check_id(old, row);
	target_owner = check_target(old, row);
	atp_options_check(row);
	ep = check_url(row);
	source = check_format(row, ep);
	check_proxy(row);
	check_ca_file(old, row);
	atp_stream_options_check(row, source, ep);
	check_identities(old, row, source, ep);
	check_keep_raw(old, row, source);
	atp_role_limits_check(old, row, owner_of_identities());
	if (source->by_repo && !atp_target_is_renamed())
		atp_neighbours_warn(old, row);
	if (source->by_repo && (old != NULL || subscribing))
		atp_collections_notice(old, row);
	return PointerGetDatum(complete_row(old, row, target_owner, source, ep));
}
