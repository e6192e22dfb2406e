# 359_links_hostile.pl
#		Hostile records with a huge number of links.  Memory stays bounded, links beyond the limits are
#		counted and left out, the record itself is stored, and the stored links are exact.  Then many
#		accounts invent new sources until link_source is full: the consumer goes on and counts the links
#		that found no place.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use Test::More;

my $capture = make_capture('links.py', 'hostile');
my $last    = read_capture($capture);
my $server  = AtprotoTest::Server->start($capture);
my $node    = make_node('main', conf => "max_worker_processes = 30\n");

sub problems
{
	my ($schema) = @_;
	return query("SELECT count(*) FROM atproto.link_problems('$schema')");
}

sub skips
{
	my ($name) = @_;
	return query("SELECT concat_ws(' ', skips -> 'link_target', skips -> 'link_path', skips -> 'link_source', stopped) FROM atproto.stat_subscription
		JOIN atproto.subscription USING (name) WHERE name = '$name'");
}

foreach my $way ('direct', 'statements')
{
	my $most = 0;

	query("CREATE SCHEMA $way; SELECT atproto.create_tables('$way')");
	query("ALTER TABLE $way.link ADD FOREIGN KEY (source) REFERENCES $way.link_source") if $way eq 'statements';
	query(subscribe_sql($way, $server, cursor => 0, target => "'$way'", links => "'all'"));
	wait_until(
		sub {
			my $kb = private_memory(query("SELECT COALESCE(pid, 0) FROM atproto.stat_subscription WHERE name = '$way'"));

			$most = $kb if $kb > $most;
			return query("SELECT COALESCE(bool_and(seq = $last), false) FROM atproto.cursor WHERE subscription = '$way'") eq 't';
		},
		"the commits of $way");
	cmp_ok($most, '<', 2 * $MEMORY_MAX, "$way: memory stays bounded");
	is(query("SELECT count(*) FROM $way.record"), '7', "$way: the records are there");
	is(query("SELECT count(*) FROM atproto.dead_letter WHERE subscription = '$way'"), '0', "$way: nothing was refused");
	is(problems($way), '0', "$way: links are those of the records");
	is(query("SELECT r.rkey, count(*) FROM $way.record r JOIN $way.link USING (did, rkey) GROUP BY 1 ORDER BY 1"),
		"long|1\nmany|50000\nnames|1\nnul|2\nodd|4\npaths|16\nsame0|1000", "$way: as many as there should be");
	# two targets; three places with too long names; 45000 places, of which 16 have become sources
	is(skips($way), '2 3 ' . (45_000 - 16), "$way: what there is no room for is counted");
	is(query("SELECT string_agg(path, ' ' ORDER BY path COLLATE \"C\") FROM $way.link_source JOIN $way.link ON source = id WHERE rkey = 'odd'"),
		'%5B%5D[%5D].%25 a%2Eb a.% a.b', "$way: each place has its own path");
}
query('SELECT atproto.unsubscribe(name) FROM atproto.subscription');

# --- sources ---

my $n = 800;
$server = AtprotoTest::Server->start(make_capture('links.py', 'sources', $n), '--hold-at', $n + 1);
query("CREATE SCHEMA first; CREATE SCHEMA second");
my $log = -s $node->logfile;
query(subscribe_sql('first', $server, cursor => 0, target => "'first'", links => "'all'", workers => 4));
# two subscriptions for one target
query(subscribe_sql("second$_", $server, cursor => 0, target => "'second'", links => "'all'", workers => 2)) foreach 1, 2;
foreach my $name ('first', 'second1', 'second2')
{
	wait_for_seq($node, $name, $n);
	is(query("SELECT stopped IS NULL, drops FROM atproto.stat_subscription JOIN atproto.subscription USING (name) WHERE name = '$name'"), 't|{}', "$name: it went on");
}
foreach my $schema ('first', 'second')
{
	is(query("SELECT count(*), min(id), max(id), count(DISTINCT id) FROM $schema.link_source"), '10000|1|10000|10000', "$schema: as many sources as there is room for");
	is(query("SELECT count(*) FROM $schema.link_source WHERE path LIKE 'all%'"), '3', "$schema: those that all have are there");
	is(problems($schema), '0', "$schema: links are those of the records");
	# of each record the first 16 places may become sources: 3 that all records have, and 13 of its own
	is(query("SELECT count(*) FROM $schema.link"), 9_997 + 3 * $n, "$schema: each source has its links");
}
is(query("SELECT (skips ->> 'link_source')::int FROM atproto.stat_subscription WHERE name = 'first'"), 20 * $n - 9_997, 'others are counted');
unlike(PostgreSQL::Test::Utils::slurp_file($node->logfile, $log), qr/deadlock detected|ended because|terminated by/, 'no process waited in vain');

# a source that the option links names has a place
query("UPDATE atproto.subscription SET links = '{com.example.links:all0,com.example.links:named}' WHERE name = 'first'");
$node->poll_query_until('postgres', "SELECT bool_and(settings_after = $n) FROM atproto.cursor WHERE subscription = 'first'") or BAIL_OUT('the settings did not change');
$server->release;
wait_for_seq($node, 'first', $n + 1);
is(query("SELECT s.id, s.path FROM first.link JOIN first.link_source s ON s.id = source WHERE rkey = 'named'"), '10001|named', 'what somebody names has a place');

# a session that adds sources waits for a second session that does, and wastes no numbers on sources that the
# second has added
query("SELECT atproto.unsubscribe(name) FROM atproto.subscription; CREATE SCHEMA third; SELECT atproto.create_tables('third')");
my $session = $node->background_psql('postgres');
$session->query_safe(q{BEGIN; LOCK TABLE third.link_source IN SHARE UPDATE EXCLUSIVE MODE; INSERT INTO third.link_source VALUES (1, 'com.example.links', 'all1')});
$server->restart;
query(subscribe_sql('third', $server, cursor => 0, target => "'third'", links => "'all'"));
wait_for(q{SELECT count(*) > 0 FROM pg_stat_activity WHERE backend_type LIKE 'atproto%' AND wait_event_type = 'Lock'});
$session->query_safe('COMMIT');
$session->quit;
wait_for_seq($node, 'third', $n + 1);
is(query('SELECT count(*), max(id) FROM third.link_source'), '10000|10000', 'sources that others bring take no numbers twice');
is(problems('third'), '0', 'third: links are those of the records');

done_testing();
