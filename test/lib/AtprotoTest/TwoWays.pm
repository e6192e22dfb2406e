# AtprotoTest/TwoWays.pm
#		A subscription into two schemas with the same triggers: new records go directly into
#		case_direct, and by statements into case_statement, whose table record has a
#		generated column.  The tables, the notes of the triggers in the table log of each schema,
#		and the dead letters must be equal.
#
#		my ($node, $server, $capture) = two_ways('name');	# a cluster of that name, and the capture's server
#		both('name', 'CREATE TRIGGER ... EXECUTE FUNCTION note()', keep_raw => 'true');
#		again();	# both schemas are dropped

package AtprotoTest::TwoWays;

use strict;
use warnings FATAL => 'all';

use AtprotoTest;
use Test::More;

use Exporter 'import';
our @EXPORT = qw(two_ways make_case both again own $PARTS $ROWS $WHOLE);

my ($node, $server);

# Triggers that note each row; and what is done as a whole.
our $ROWS = 'CREATE TRIGGER a BEFORE INSERT OR UPDATE OR DELETE ON record FOR EACH ROW EXECUTE FUNCTION note();
	CREATE TRIGGER b AFTER INSERT OR UPDATE OR DELETE ON record FOR EACH ROW EXECUTE FUNCTION note()';
our $WHOLE = q{CREATE TRIGGER c BEFORE INSERT ON record FOR EACH STATEMENT EXECUTE FUNCTION note();
	CREATE TRIGGER d AFTER INSERT ON record REFERENCING NEW TABLE AS rows FOR EACH STATEMENT EXECUTE FUNCTION note('rows')};

my $columns = join ', ', map { "$_->[0] $_->[1] NOT NULL" } [ did => 'did' ], [ collection => 'nsid' ],
  [ rkey => 'recordkey' ], [ cid => 'cidlink' ], [ rev => 'atproto.tid' ], [ indexed_at => 'timestamptz DEFAULT now()' ];

# By collection, likes by repository below; all others lie in another order of columns.
our $PARTS = "DROP VIEW visible_record; DROP TABLE record;
	CREATE TABLE record ($columns, value jsonb, raw bytea, fault text, PRIMARY KEY (did, collection, rkey)) PARTITION BY LIST (collection);
	CREATE TABLE record_like PARTITION OF record FOR VALUES IN ('app.bsky.feed.like') PARTITION BY HASH (did);
	CREATE TABLE record0 PARTITION OF record_like FOR VALUES WITH (MODULUS 2, REMAINDER 0);
	CREATE TABLE record1 PARTITION OF record_like FOR VALUES WITH (MODULUS 2, REMAINDER 1);
	CREATE TABLE record2 (fault text, hole int, raw bytea, value jsonb, $columns, PRIMARY KEY (did, collection, rkey)); ALTER TABLE record2 DROP hole;
	ALTER TABLE record ATTACH PARTITION record2 DEFAULT";

# note(): what a trigger sees, in the table log of its schema.  n: rows that this transaction has put into
# record so far; asked for now and then, since that is slow.
sub two_ways
{
	my ($name) = @_;
	my $pds = capture('pds.frames.gz');

	$node = make_node(
		$name, conf => <<'CONF');
max_worker_processes = 40
atproto.reconnect_delay = 20ms
atproto.reconnect_max_delay = 100ms
CONF
	$server = AtprotoTest::Server->start($pds);
	query(<<'SQL');
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
	n bigint;
BEGIN
	IF TG_LEVEL = 'STATEMENT' THEN
		IF TG_NARGS > 0 THEN
			SELECT count(*) INTO n FROM rows;
			EXECUTE format('INSERT INTO %I.log (name, key, cid, value) SELECT $1, concat_ws(''/'', did, collection, rkey), cid::text, value FROM rows', TG_TABLE_SCHEMA)
				USING TG_NAME;
		END IF;
		EXECUTE format('INSERT INTO %I.log (name, moment, op, tab, depth, n) VALUES ($1, $2, $3, $4, $5, $6)', TG_TABLE_SCHEMA)
			USING TG_NAME, TG_WHEN, TG_OP, TG_TABLE_NAME, pg_trigger_depth(), n;
		RETURN NULL;
	END IF;
	IF TG_OP = 'INSERT' AND hashtext(new.rkey::text) % 40 = 0 THEN
		EXECUTE format('SELECT count(*) FROM %I.record WHERE xmin = pg_current_xact_id()::xid', TG_TABLE_SCHEMA) INTO n;
	END IF;
	EXECUTE format('INSERT INTO %I.log (name, moment, op, tab, depth, who, path, key, cid, value, n) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)', TG_TABLE_SCHEMA)
		USING TG_NAME, TG_WHEN, TG_OP, TG_TABLE_NAME, pg_trigger_depth(), concat_ws(' ', session_user, current_user),
			replace(current_setting('search_path'), TG_TABLE_SCHEMA, '#'),
			concat_ws('/', coalesce(new.did, old.did), coalesce(new.collection, old.collection), coalesce(new.rkey, old.rkey)),
			coalesce(new.cid, old.cid)::text, new.value, n;
	RETURN coalesce(new, old);
END $$;
SQL
	return ($node, $server, $pds);
}

# A trigger of one's own: its body, and when it fires.
sub own
{
	my ($body, $when) = @_;

	return "CREATE FUNCTION own() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS \$\$BEGIN $body END\$\$;
		CREATE TRIGGER own $when FOR EACH ROW EXECUTE FUNCTION own()";
}

sub make_case
{
	my ($schema, $changes, $statements) = @_;

	query("CREATE SCHEMA $schema; SELECT atproto.create_tables('$schema'); SET search_path = $schema, public; $changes;
		CREATE TABLE log (id bigserial, name text, moment text, op text, tab text, depth int, who text, path text, key text, cid text,
		value jsonb, n bigint, xid xid8 DEFAULT pg_current_xact_id())");
	query("ALTER TABLE $schema.record ADD length int GENERATED ALWAYS AS (octet_length(rkey::text)) STORED") if $statements;
	return;
}

sub differences
{
	my ($a, $b) = map { s/#/case_direct/gr, s/#/case_statement/gr } @_;

	return query("SELECT count(*) FROM (($a EXCEPT ALL $b) UNION ALL ($b EXCEPT ALL $a)) d");
}

# Both ways; with options of the subscriptions.  A trigger tells which it was, but where rows are refused, updated
# or deleted (untold): ON CONFLICT DO UPDATE is an UPDATE to the statement's triggers.
sub both
{
	my ($name, $changes, %o) = @_;
	my $tell = 'CREATE TRIGGER z AFTER UPDATE ON record FOR EACH STATEMENT EXECUTE FUNCTION note()';
	my $told = !delete $o{untold};

	local $Test::Builder::Level = $Test::Builder::Level + 1;

	$o{actions} //= q{ARRAY['create']};
	foreach my $way ('direct', 'statement')
	{
		my $schema = "case_$way";

		make_case($schema, "$changes; $tell", $way eq 'statement');
		query(subscribe_sql($schema, $server, cursor => 0, target => "'$schema'", %o));
		wait_for_seq($node, $schema, $PDS_LAST);
		is(query("SELECT count(*) > 0 FROM $schema.log WHERE name = 'z' AND depth = 1"), $way eq 'direct' ? 'f' : 't', "$name: the $way way") if $told;
	}
	is(differences('SELECT did, collection, rkey, cid, rev, value, raw FROM #.record'), '0', "$name: the same records");
	is(differences('SELECT did, rev, commit, data, active, status, handle, sync FROM #.repo'), '0', "$name: the same repositories");
	is(differences("SELECT seq, path, stage, sqlstate, message FROM atproto.dead_letter WHERE subscription = '#'"), '0', "$name: the same dead letters");
	is(differences('SELECT name, moment, op, tab, depth, who, path, key, cid, value FROM #.log WHERE key IS NOT NULL'), '0', "$name: triggers see the same rows");
	cmp_ok(query('SELECT count(*) FROM case_direct.record'), '>', 0, "$name: there are some");
	return;
}

sub again
{
	query("SELECT atproto.unsubscribe(name) FROM atproto.subscription; DELETE FROM atproto.dead_letter");
	wait_for("SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'atproto consumer'");
	query('DROP SCHEMA case_direct CASCADE; DROP SCHEMA case_statement CASCADE');
	query(q{DELETE FROM atproto.audit_state WHERE target LIKE 'case%'});    # as the fetcher does, which does not run here
	return;
}

1;
