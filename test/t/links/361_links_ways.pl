# 361_links_ways.pl
#		The table link follows record by whatever way records come and go: by exports, by dead letters that
#		are tried again, in pieces, and while rebuild_links() runs.  A role without the right to write
#		link_source cannot keep links.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use IPC::Run;
use PostgreSQL::Test::Utils;
use Test::More;

my ($capture) = simulate(
	'--events' => 4000, '--accounts' => 60, '--history' => 0,
	'--mix' => 'account=4,delete=8,update=6,sync=0,like=40,post=30,profile=3');
my $last = read_capture($capture);
my $node = make_node('ways', conf => "max_worker_processes = 30\natproto.reconnect_delay = 100ms");

sub exact
{
	my ($schema, $name) = @_;
	is(query("SELECT count(*) || ' ' || COALESCE(string_agg(DISTINCT problem, ','), '') FROM atproto.link_problems('$schema')"), '0 ', $name);
	return;
}

# --- rebuilt while the stream goes on ---

my $server = AtprotoTest::Server->start($capture, '--rate', 1000);
query("CREATE SCHEMA rebuilt; " . subscribe_sql('rebuilt', $server, cursor => 0, target => "'rebuilt'", links => "'all'", workers => 3));
foreach my $i (1 .. 10)
{
	wait_for_seq($node, 'rebuilt', $i * 350);
	query("SELECT * FROM atproto.rebuild_links('rebuilt')");
}
wait_for_seq($node, 'rebuilt', $last);
exact('rebuilt', 'links are those of the records');
is(query("SELECT drops FROM atproto.stat_subscription WHERE name = 'rebuilt'"), '{}', 'and nobody was in the way');
query("SELECT atproto.unsubscribe('rebuilt')");
$server->restart;

# --- exports ---

my $files = PostgreSQL::Test::Utils::tempdir('exports');
IPC::Run::run([ $ENV{PYTHON} || '/usr/bin/python3', '-B', test_dir() . '/oracle/links.py', 'exports', $files ]) or BAIL_OUT('no exports were made');
my $who = did('a');
query("CREATE SCHEMA loaded; " . subscribe_sql('loaded', $server, target => "'loaded'", links => "'all'"));
foreach my $export ([ 'one', '3000 0 0 0' ], [ 'two', '20 60 300 2640' ], [ 'two', '0 0 0 2720' ])
{
	is(query("SELECT concat_ws(' ', created, updated, deleted, same) FROM atproto.load_car('$who', pg_read_binary_file('$files/$export->[0].car'), 'loaded')"),
		$export->[1], "$export->[0]: what changes");
	exact('loaded', "$export->[0]: links are those of the records");
}
# after a rollback the consumer forgets the added sources
query("BEGIN; TRUNCATE loaded.record, loaded.repo, loaded.link; SELECT atproto.load_car('$who', pg_read_binary_file('$files/one.car'), 'loaded'); ROLLBACK");
exact('loaded', 'rolled back');
query("BEGIN; TRUNCATE loaded.record, loaded.repo, loaded.link, loaded.link_source; SELECT atproto.load_car('$who', pg_read_binary_file('$files/one.car'), 'loaded'); ROLLBACK;"
	. "TRUNCATE loaded.record, loaded.repo, loaded.link, loaded.link_source; SELECT atproto.load_car('$who', pg_read_binary_file('$files/two.car'), 'loaded');");
exact('loaded', 'and again, with other sources');
query("SELECT atproto.unsubscribe('loaded')");

# --- letters ---

query(<<'SQL');
CREATE SCHEMA letters;
SELECT atproto.create_tables('letters');
CREATE FUNCTION letters.refuse() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN
	IF hashtext(NEW.rkey::text) % 20 = 0 THEN RAISE 'not this one'; END IF; RETURN NEW; END$$;
CREATE TRIGGER refuse BEFORE INSERT OR UPDATE ON letters.record FOR EACH ROW EXECUTE FUNCTION letters.refuse();
SQL
query(subscribe_sql('letters', $server, cursor => 0, target => "'letters'", links => "'all'"));
wait_for_seq($node, 'letters', $last);
cmp_ok(query('SELECT count(*) FROM atproto.dead_letter'), '>', 20, 'some are refused');
exact('letters', 'what was refused has no links');
query('DROP TRIGGER refuse ON letters.record');
query('SELECT atproto.retry(id) FROM atproto.dead_letter ORDER BY id');
exact('letters', 'and has them when it is tried again');
query("SELECT atproto.unsubscribe('letters')");

# --- rights ---

query("CREATE ROLE consumer LOGIN; CREATE SCHEMA strict AUTHORIZATION consumer");
query('GRANT USAGE ON SCHEMA atproto TO consumer; GRANT ALL ON ALL TABLES IN SCHEMA atproto TO consumer; GRANT ALL ON ALL SEQUENCES IN SCHEMA atproto TO consumer; GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA atproto TO consumer');
query("SET ROLE consumer; SELECT atproto.create_tables('strict')");
query('ALTER TABLE strict.link_source OWNER TO postgres; GRANT SELECT ON strict.link_source TO consumer');
my $strict = 'SET ROLE consumer; ' . subscribe_sql('strict', $server, cursor => 0, target => "'strict'", links => "'all'");
like(($node->psql('postgres', $strict))[2], qr/the role lacks INSERT, UPDATE, DELETE on table strict.link_source/, 'who may not write links cannot subscribe to them');
query('GRANT ALL ON strict.link_source TO consumer');
query($strict);
wait_for_seq($node, 'strict', $last);
is(query('SELECT count(*) FROM strict.record'), query('SELECT count(*) FROM rebuilt.record'), 'and can with the right');
exact('strict', 'links are those of the records');

done_testing();
