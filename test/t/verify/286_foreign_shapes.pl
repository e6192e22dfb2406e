# 286_foreign_shapes.pl
#		The owner of the tables may change a column's type, constraints, or the whole table, so the consumer
#		must not trust what its queries return.  A table that the stream does not use may be missing, and a
#		foreign key to a repository does not delay the stream.  F-15, B-29.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $pds  = capture('pds.frames.gz');
my $node = make_node(
	'shapes', conf => <<'CONF');
max_worker_processes = 40
max_prepared_transactions = 2
atproto.reconnect_delay = 100ms
CONF
my $server = AtprotoTest::Server->start($pds);

# The error of a statement.
sub refusal
{
	my ($sql) = @_;
	my ($rc, undef, $error) = $node->psql('postgres', $sql);

	isnt($rc, 0, 'it fails');
	return $error;
}

# Subscribes in a separate schema, whose tables were changed before the first event.
sub follow
{
	my ($schema, $changes, %args) = @_;
	my $from = delete $args{from} // $server;

	query("BEGIN; CREATE SCHEMA $schema; "
		. subscribe_sql($schema, $from, cursor => 0, target => "'$schema'", %args)
		. "; SET LOCAL search_path = $schema, public; $changes; COMMIT");
	return;
}

# The subscription of follow() stops before the first event, with this reason, until the statement mends the
# table.
sub stops_until
{
	my ($schema, $reason, $stopped, $mend, $mended) = @_;

	$node->poll_query_until('postgres', "SELECT coalesce(stopped, '') ~ '$reason' FROM atproto.subscription WHERE name = '$schema'") or die;
	is(query("SELECT seq FROM atproto.cursor WHERE subscription = '$schema'"), '0', $stopped);
	query("$mend; SELECT atproto.resume('$schema')");
	wait_for_seq($node, $schema, $PDS_LAST);
	tables_match($node, $pds, $mended, schema => $schema);
	return;
}

query(<<'SQL');
CREATE FUNCTION stay() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN new; END';
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION $$not this one$$ USING ERRCODE = $$P0001$$; END';
SQL

# --- names of types, as the owner's settings print them ---

query('CREATE ROLE quoter LOGIN; ALTER ROLE quoter SET quote_all_identifiers = on; GRANT ALL ON SCHEMA public TO quoter;
	GRANT ALL ON ALL TABLES IN SCHEMA atproto TO quoter; GRANT ALL ON ALL FUNCTIONS IN SCHEMA atproto TO quoter;
	GRANT CREATE ON DATABASE postgres TO quoter');
query('CREATE SCHEMA quoter AUTHORIZATION quoter; SET ROLE quoter; ' . subscribe_sql('quoter', $server, cursor => 0, target => "'quoter'"));
wait_for_seq($node, 'quoter', $PDS_LAST);
tables_match($node, $pds, 'quote_all_identifiers: the stream is followed', schema => 'quoter');

# --- other types: with a trigger, so that the rows come through a statement, and without ---

my %type = (
	rev      => 'bigint USING 1', first_rev => 'text', commit      => 'int USING 1',
	data     => 'text',           active    => 'text', status      => 'int USING 1',
	handle   => 'int USING 1',    host      => 'int USING 1', status_at   => 'text',
	refill_by => 'int USING 1',   status_seq => 'text', sync => 'int USING 1',
	status_endpoint => 'int USING 1', deleted_rev => 'bigint USING 1', refill_rev => 'text', rev_paths => 'text');
my %default = (active => "'true'", sync => '0');
foreach my $trigger ('CREATE TRIGGER stay BEFORE UPDATE ON repo FOR EACH ROW EXECUTE FUNCTION stay()', '')
{
	foreach my $column (sort keys %type)
	{
		my $offset = -s $node->logfile;

		follow('shape', "DROP VIEW visible_record, visible_link; DROP INDEX repo_unproven, repo_unclaimed; ALTER TABLE repo ALTER $column DROP DEFAULT, ALTER $column TYPE $type{$column}"
			. ($default{$column} ? ", ALTER $column SET DEFAULT $default{$column}" : '') . "; $trigger");
		$node->wait_for_log(qr/column "$column" .*(is of type|cannot be cast)|(=|CASE|COALESCE|argument|operator)[^\n]*(type|text|integer)/, $offset);
		query("SELECT atproto.unsubscribe('shape'); SET client_min_messages = error; DROP SCHEMA shape CASCADE");
		pass("$column: the type is noticed" . ($trigger ? ', by the statement' : ''));
	}
}
is(query('SELECT count(*) FROM atproto.dead_letter'), '0', 'no event is blamed');
unlike(slurp_file($node->logfile), qr/terminated by signal|server process \(PID \d+\) exited with exit code 2/, 'nothing crashed');

# --- a view whose columns have the names of system columns ---

my $offset = -s $node->logfile;
follow('fake', <<'SQL', events => "'hand'");
ALTER TABLE record_event RENAME TO real_event;
CREATE VIEW record_event AS SELECT *, 3 AS tableoid, 4 AS ctid FROM real_event;
CREATE TRIGGER stay INSTEAD OF INSERT ON record_event FOR EACH ROW EXECUTE FUNCTION stay()
SQL
$node->wait_for_log(qr/column "ctid" .* is of type integer, not tid/, $offset);
query("SELECT atproto.unsubscribe('fake')");
$offset = -s $node->logfile;
follow('faker', <<'SQL', events => "'hand'");
ALTER TABLE record_event RENAME TO real_event;
CREATE VIEW record_event AS SELECT *, 'pg_type'::regclass::oid AS tableoid, '(0,1)'::pg_catalog.tid AS ctid FROM real_event;
CREATE TRIGGER stay INSTEAD OF INSERT ON record_event FOR EACH ROW EXECUTE FUNCTION stay()
SQL
$node->wait_for_log(qr/"faker.record_event" is not a table/, $offset);
query("SELECT atproto.unsubscribe('faker')");
pass('a view is not taken for the table');

# --- a foreign key by columns of other types, with which PostgreSQL deletes nothing ---

my $note = 'CREATE TABLE note (author text, collection nsid, rkey atproto.tid, FOREIGN KEY (author, collection, rkey) REFERENCES record)';
if ($node->pg_version >= 18)
{
	like(refusal("SET search_path = atproto, public; $note"), qr/not both collatable/, 'such a foreign key is refused');
}
else
{
	follow('misfit', $note);
	stops_until('misfit', 'column "author" of table misfit.note is of type text, and refers to a column of type (public.)?did',
		'such a foreign key stops the stream',
		'ALTER TABLE misfit.note ALTER COLUMN author TYPE public.did', 'of the same type, it is in nobody\'s way');
	query("SELECT atproto.unsubscribe('misfit')");
}

# --- rules that replace a statement by nothing ---

follow('ruled', 'CREATE RULE nothing AS ON INSERT TO record DO INSTEAD NOTHING');
stops_until('ruled', 'rules make a statement on a table in schema "ruled" into another one', 'a rule that drops the records stops the stream',
	'DROP RULE nothing ON ruled.record', 'without it, all is there');
query('CREATE RULE nothing AS ON UPDATE TO ruled.repo DO INSTEAD NOTHING');
like(refusal("SELECT atproto.refill('ruled')"), qr/rules make a statement into another one\nDETAIL:  "UPDATE ruled\.repo SET/, 'nor does a refill that marks nothing pass for one');
query("SELECT atproto.unsubscribe('ruled')");

# --- the extension's own table, after a superuser's ALTER: an error, not a crash ---

query('BEGIN; ' . subscribe_sql('altered', $server) . "; SELECT atproto.pause('altered'); COMMIT");
foreach my $case (
	# (a view reads the column, so that its own type cannot be altered)
	['RENAME dids TO before; ALTER TABLE atproto.subscription ADD dids integer[] DEFAULT ARRAY[7, 8]', '', qr/column "dids" is of type integer\[\], not (public\.)?did\[\]/],
	['DROP CONSTRAINT subscription_max_held_events_check, ALTER max_held_events DROP DEFAULT, ALTER max_held_events TYPE text', '',
		qr/column "max_held_events" is of type text, not integer/],
	['ALTER events DROP NOT NULL, DISABLE TRIGGER subscription_check', 'UPDATE atproto.subscription SET events = NULL', qr/column "events" is null/],
	['ALTER workers DROP NOT NULL, DISABLE TRIGGER subscription_check', 'UPDATE atproto.subscription SET workers = NULL', qr/column "workers" is null/])
{
	my ($change, $update, $error) = @$case;

	like(refusal("BEGIN; ALTER TABLE atproto.subscription $change; $update; SELECT atproto.refill('altered'); ROLLBACK"), $error, "subscription: $change");
}
query("SELECT atproto.unsubscribe('altered')");

# --- nulls ---

my $did = query('SELECT did FROM quoter.record GROUP BY did ORDER BY count(*) DESC LIMIT 1');
foreach my $trigger ('CREATE TRIGGER stay BEFORE UPDATE ON repo FOR EACH ROW EXECUTE FUNCTION stay()', '')
{
	my $name = $trigger ? 'nulls_statement' : 'nulls_direct';

	follow($name, "ALTER TABLE repo ALTER active DROP NOT NULL; $trigger; INSERT INTO repo (did, active) VALUES ('$did', NULL)");
	wait_for_seq($node, $name, $PDS_LAST);
	is(query("SELECT count(*) > 0, min(did::text), max(did::text), min(sqlstate), max(sqlstate) FROM atproto.dead_letter WHERE subscription = '$name'"),
		"t|$did|$did|22004|22004", "$name: a repository whose state is not known: its events are kept");
	is(query("SELECT count(*) FROM (SELECT did, collection, rkey, cid FROM quoter.record WHERE did <> '$did'
		EXCEPT SELECT did, collection, rkey, cid FROM $name.record) d"), '0', "$name: all others are there");
	query("SELECT atproto.unsubscribe('$name')");
}

# A consumer looks by itself for repositories of which events wait.
follow('nobody', <<'SQL');
ALTER TABLE repo DROP CONSTRAINT repo_pkey, ALTER did DROP NOT NULL, ADD UNIQUE (did);
INSERT INTO repo (did, hold) VALUES (NULL, 'identity'), (NULL, 'release'), (NULL, 'resync')
SQL
wait_for_seq($node, 'nobody', $PDS_LAST);
is(query("SELECT count(*) FROM ((SELECT did, collection, rkey, cid FROM quoter.record EXCEPT SELECT did, collection, rkey, cid FROM nobody.record)) d"),
	'0', 'a repository that is nobody\'s is in nobody\'s way');
query("SELECT atproto.unsubscribe('nobody')");

# --- tables that the stream does not use ---

follow('few', <<'SQL');
DROP VIEW current_label;
DROP VIEW visible_link, collection_stat;
DROP TABLE label, message, record_event, link, link_source, collection_count;
CREATE TRIGGER refuse BEFORE INSERT ON record FOR EACH ROW WHEN (substr(new.rkey::text, 11, 1) = 'a') EXECUTE FUNCTION refuse()
SQL
wait_for_seq($node, 'few', $PDS_LAST);
cmp_ok(query("SELECT count(*) FROM atproto.dead_letter WHERE subscription = 'few'"), '>', 0, 'records are refused one by one');
is(query("SELECT count(*) FROM (SELECT did, collection, rkey, cid FROM quoter.record WHERE substr(rkey::text, 11, 1) <> 'a'
	EXCEPT SELECT did, collection, rkey, cid FROM few.record) d"), '0', 'a stream of repositories needs no table for labels');

my $labels = AtprotoTest::Server->start(capture('labels.frames.gz'));
follow('labels', 'DROP VIEW visible_record, visible_link, collection_stat; DROP TABLE record, repo, record_event, message, link, link_source, collection_count',
	from => $labels, nsid => 'com.atproto.label.subscribeLabels');
$node->poll_query_until('postgres', "SELECT count(*) > 0 FROM labels.label") or die;
is(query("SELECT stopped FROM atproto.subscription WHERE name = 'labels'"), '', 'nor one of labels a table of records');

# --- an open transaction with a foreign key to a repository ---

my $held = AtprotoTest::Server->start($pds, '--hold-at', 800);
follow('referred', 'CREATE TABLE note (did did REFERENCES repo)', from => $held);
wait_for_seq($node, 'referred', 799);
query("BEGIN; INSERT INTO referred.note SELECT did FROM referred.repo; PREPARE TRANSACTION 'note'");
$held->release;
wait_for_seq($node, 'referred', $PDS_LAST);
tables_match($node, $pds, 'a foreign key to repositories holds nothing up', schema => 'referred');
query("COMMIT PREPARED 'note'");

unlike(slurp_file($node->logfile), qr/terminated by signal/, 'nor did anything crash until the end');
# of nobody's row
expect_check('hold without events', qr/\|nobody\|\|/);
$node->stop;
done_testing();
