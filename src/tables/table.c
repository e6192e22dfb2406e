/*
 * table.c
 *		The data tables that consumers fill: their definitions.
 */
#include "postgres.h"

#include "catalog/namespace.h"
#include "config/extension.h"
#include "config/spi.h"
#include "fmgr.h"
#include "tables/table.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

PG_FUNCTION_INFO_V1(atp_create_tables_sql);

/* One relation: its name, and the statements that make it. */
typedef struct TableDef
{
	const char *name;
	const char *sql;
} TableDef;

static const TableDef tables[] = {
	{"record",
		"CREATE TABLE #.record ("
		"  did @.did NOT NULL,"
		"  collection @.nsid NOT NULL,"
		"  rkey @.recordkey NOT NULL,"
		"  cid @.cidlink NOT NULL,"
		"  rev atproto.tid NOT NULL,"
		"  indexed_at timestamptz NOT NULL DEFAULT now(),"
		"  value jsonb,"
		"  raw bytea,"
		"  PRIMARY KEY (did, collection, rkey));"
		"COMMENT ON TABLE #.record IS 'current records of all repositories seen';"
		"COMMENT ON COLUMN #.record.rev IS 'revision of the commit that last wrote the record';"
		"COMMENT ON COLUMN #.record.indexed_at IS 'when this database took it in';"
		"COMMENT ON COLUMN #.record.value IS 'the record; NULL where jsonb cannot hold it, see raw';"
		"COMMENT ON COLUMN #.record.raw IS 'the record''s DAG-CBOR, where value is NULL or the subscription keeps it'"
	},
	{"repo",
		"CREATE TABLE #.repo ("
		"  did @.did PRIMARY KEY,"
		"  rev atproto.tid,"
		"  first_rev atproto.tid,"
		"  commit @.cidlink,"
		"  data @.cidlink,"
		"  active boolean NOT NULL DEFAULT true,"
		"  status text,"
		"  status_at timestamptz,"
		"  status_endpoint text,"
		"  status_seq bigint,"
		"  host text,"
		"  handle @.handle,"
		"  desynchronized boolean NOT NULL DEFAULT false,"
		"  purge_rev atproto.tid,"
		"  purge_seq bigint,"
		"  deleted_rev atproto.tid,"
		"  refill_by text,"
		"  refill_rev atproto.tid,"
		"  updated_at timestamptz NOT NULL DEFAULT now())"
		"  WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02);"
		"CREATE INDEX repo_purge ON #.repo (did) WHERE purge_rev IS NOT NULL;"
		"COMMENT ON TABLE #.repo IS 'state of each repository seen';"
		"COMMENT ON COLUMN #.repo.rev IS 'revision of the last commit processed; older ones are ignored';"
		"COMMENT ON COLUMN #.repo.first_rev IS 'of what was before this revision nothing is known: that of the first commit processed, or what follows the first #sync';"
		"COMMENT ON COLUMN #.repo.commit IS 'CID of that commit';"
		"COMMENT ON COLUMN #.repo.data IS 'root of its Merkle search tree';"
		"COMMENT ON COLUMN #.repo.active IS 'false while the host does not serve the repository';"
		"COMMENT ON COLUMN #.repo.status IS 'why it is not active: takendown, suspended, deleted, deactivated, ...';"
		"COMMENT ON COLUMN #.repo.status_at IS 'time of the event that said so';"
		"COMMENT ON COLUMN #.repo.status_endpoint IS 'the stream that said so, as in atproto.cursor';"
		"COMMENT ON COLUMN #.repo.status_seq IS 'its event: older ones of the same stream are ignored; of another stream, those before status_at';"
		"COMMENT ON COLUMN #.repo.host IS 'host that said so';"
		"COMMENT ON COLUMN #.repo.handle IS 'last handle announced; unverified';"
		"COMMENT ON COLUMN #.repo.desynchronized IS 'events were missed: a commit did not continue the one before, or #sync announced other contents';"
		"COMMENT ON COLUMN #.repo.purge_rev IS 'records up to this revision are being removed: the account was deleted';"
		"COMMENT ON COLUMN #.repo.purge_seq IS 'event that said so';"
		"COMMENT ON COLUMN #.repo.deleted_rev IS 'when the account was last deleted, this was rev: records up to here do not come back';"
		"COMMENT ON COLUMN #.repo.refill_by IS 'subscription that reads the events up to rev again: see atproto.refill()';"
		"COMMENT ON COLUMN #.repo.refill_rev IS 'it has come as far as this'"
	},
	{"visible_record",
		"CREATE VIEW #.visible_record AS SELECT r.* FROM #.record r JOIN #.repo p ON p.did OPERATOR(@.=) r.did"
		" WHERE p.active AND (p.purge_rev IS NULL OR r.rev OPERATOR(@.>) p.purge_rev);"
		"COMMENT ON VIEW #.visible_record IS 'records of active repositories'"
	},
	{"record_event",
		"CREATE TABLE #.record_event ("
		"  subscription text NOT NULL,"
		"  seq bigint NOT NULL,"
		"  action text NOT NULL,"
		"  did @.did NOT NULL,"
		"  collection @.nsid NOT NULL,"
		"  rkey @.recordkey NOT NULL,"
		"  rev atproto.tid NOT NULL,"
		"  cid @.cidlink,"
		"  value jsonb,"
		"  raw bytea,"
		"  old_cid @.cidlink,"
		"  old_value jsonb,"
		"  received_at timestamptz NOT NULL DEFAULT now());"
		/* without a key, a publication would forbid to delete what was handed to triggers */
		"ALTER TABLE #.record_event REPLICA IDENTITY FULL;"
		"COMMENT ON TABLE #.record_event IS 'each operation on a record, for subscriptions that keep events or hand them to triggers';"
		"COMMENT ON COLUMN #.record_event.seq IS 'event that it comes from; of records that go with their account: that of the deletion';"
		"COMMENT ON COLUMN #.record_event.action IS 'create, update or delete';"
		"COMMENT ON COLUMN #.record_event.rev IS 'revision of the commit; of records that go with their account: their own';"
		"COMMENT ON COLUMN #.record_event.old_cid IS 'what was in the table record before; NULL: no such record';"
		"COMMENT ON COLUMN #.record_event.old_value IS 'likewise; NULL also where jsonb cannot hold it'"
	},
	{"label",
		"CREATE TABLE #.label ("
		"  src @.did NOT NULL,"
		"  uri text NOT NULL,"
		"  val text NOT NULL,"
		"  cid @.cidlink,"
		"  neg boolean NOT NULL,"
		"  cts timestamptz NOT NULL,"
		"  exp timestamptz,"
		"  ver integer,"
		"  sig bytea,"
		"  seq bigint,"
		"  indexed_at timestamptz NOT NULL DEFAULT now(),"
		"  PRIMARY KEY (uri, src, val));"
		"COMMENT ON TABLE #.label IS 'the last label of each labeler on each subject with each value, negations included';"
		"COMMENT ON COLUMN #.label.src IS 'labeler';"
		"COMMENT ON COLUMN #.label.uri IS 'subject: an AT URI or a DID';"
		"COMMENT ON COLUMN #.label.cid IS 'version of the subject that is meant; NULL: all';"
		"COMMENT ON COLUMN #.label.neg IS 'true: the label was taken back';"
		"COMMENT ON COLUMN #.label.sig IS 'signature, not verified'"
	},
	{"current_label",
		"CREATE VIEW #.current_label AS SELECT * FROM #.label"
		" WHERE NOT neg AND (exp IS NULL OR exp > now());"
		"COMMENT ON VIEW #.current_label IS 'labels that hold now: not taken back, not expired'"
	},
	{"message",
		"CREATE TABLE #.message ("
		"  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,"
		"  subscription text NOT NULL,"
		"  endpoint text NOT NULL,"
		"  seq bigint,"
		"  type text NOT NULL,"
		"  payload jsonb,"
		"  raw bytea,"
		"  received_at timestamptz NOT NULL DEFAULT now(),"
		"  UNIQUE (subscription, endpoint, seq));"
		"COMMENT ON TABLE #.message IS 'messages of streams that this extension has no tables for';"
		"COMMENT ON COLUMN #.message.endpoint IS 'stream that it is of, as in atproto.cursor';"
		"COMMENT ON COLUMN #.message.seq IS 'its number there: one that comes again is passed over; NULL: the stream has none';"
		"COMMENT ON COLUMN #.message.type IS 'short form, such as #event';"
		"COMMENT ON COLUMN #.message.payload IS 'the message; NULL where jsonb cannot hold it, see raw';"
		"COMMENT ON COLUMN #.message.raw IS 'its DAG-CBOR, where payload is NULL or the subscription keeps it'"
	},
};

char *
atp_expand_sql(const char *sql, const char *target)
{
	const char *schema = atp_extension_schema();
	StringInfoData out;
	bool		quoted = false;

	initStringInfo(&out);
	for (; *sql; sql++)
	{
		if (*sql == '\'')
			quoted = !quoted;
		if (*sql == '@' && !quoted)
			appendStringInfoString(&out, schema);
		else if (*sql == '#' && !quoted)
			appendStringInfoString(&out, quote_identifier(target));
		else
			appendStringInfoChar(&out, *sql);
	}
	return out.data;
}

void
atp_create_tables(const char *target)
{
	Oid			schema = get_namespace_oid(target, false);

	for (int i = 0; i < lengthof(tables); i++)
		if (!OidIsValid(get_relname_relid(tables[i].name, schema)))
			atp_run(atp_expand_sql(tables[i].sql, target), ATP_NO_ARGS);
}

/* SQL: atproto.create_tables(schema) */
Datum
atp_create_tables_sql(PG_FUNCTION_ARGS)
{
	SPI_connect();
	atp_create_tables(NameStr(*PG_GETARG_NAME(0)));
	SPI_finish();
	PG_RETURN_VOID();
}
