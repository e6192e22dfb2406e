# 220_filters.pl
#		Filters on collections, repositories and actions: the tables have the rows that the oracle selects,
#		the state of a repository moves with every commit, and a changed filter holds from a known event on,
#		without a new connection.  F-14, H-34, I-06, F-08.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $pds  = capture('pds.frames.gz');
my $node = make_node('filters', conf => 'max_worker_processes = 20');
my $server = AtprotoTest::Server->start($pds);

sub sql_array
{
	return 'ARRAY[' . join(',', map { "'$_'" } @_) . ']';
}

# --- each filter alone, and all together ---

my ($records) = oracle('', 'record', $pds);
my %count;
$count{ (split /\t/)[0] }++ foreach split /\n/, $records;
my @dids = (sort { $count{$b} <=> $count{$a} || $a cmp $b } keys %count)[ 0, 3, 7 ];

my %filters = (
	collection => { collections => ['app.bsky.feed.post'] },
	wildcard   => { collections => [ 'app.bsky.graph.*', 'app.bsky.actor.profile' ] },
	prefix     => { collections => ['app.bsky.*'] },
	everything => { collections => ['*'] },
	dids       => { dids        => \@dids },
	creates    => { actions     => ['create'] },
	removals   => { actions     => [ 'update', 'delete' ] },
	all_three  => { collections => ['app.bsky.feed.*'], dids => \@dids, actions => [ 'create', 'update' ] });
my %empty = (
	no_collection => "'{}'::text[]",
	no_did        => "'{}'::did[]",
	no_action     => "'{}'::text[]");
my %option = (collections => '--collection', dids => '--did', actions => '--action');

foreach my $name (sort keys %filters)
{
	my $filter = $filters{$name};
	my %args = map { $_ => sql_array(@{ $filter->{$_} }) . ($_ eq 'dids' ? '::did[]' : '') } keys %$filter;

	query("CREATE SCHEMA $name;" . subscribe_sql($name, $server, cursor => 0, target => "'$name'", %args));
}
query(join ';', map {
		my ($what) = /no_(.*)/;
		"CREATE SCHEMA $_;" . subscribe_sql($_, $server, cursor => 0, target => "'$_'", "${what}s" => $empty{$_})
	} sort keys %empty);

foreach my $name (sort keys %filters)
{
	my $filter = $filters{$name};
	my @args = map { my $what = $_; map { ($option{$what}, $_) } @{ $filter->{$what} } } keys %$filter;

	wait_for_seq($node, $name, $PDS_LAST);
	tables_match($node, $pds, "$name: as the oracle says", schema => $name, args => \@args,
		modes => [ 'record', ($name =~ /dids|wildcard/ ? 'repo' : ()) ]);
}
my $all = query('SELECT count(*) FROM everything.record');
foreach my $name (grep { $_ ne 'everything' } sort keys %filters)
{
	my $rows = query("SELECT count(*) FROM $name.record");
	cmp_ok($rows, '>', 0, "$name: some records");
	isnt($rows, $all, "$name: not all");
}
foreach my $name (sort keys %empty)
{
	wait_for_seq($node, $name, $PDS_LAST);
	is(query("SELECT count(*) FROM $name.record"), '0', "$name: an empty list is none, not all");
}
tables_match($node, $pds, 'no_collection: F-14: the repositories are there all the same',
	schema => 'no_collection', args => [ '--collection', 'nothing' ], modes => ['repo']);
is(query('SELECT count(*) FROM no_did.repo'), '0', 'no_did: without repositories');
is(query("SELECT skips ->> 'filtered' FROM atproto.stat_subscription WHERE name = 'no_did'"), $PDS_LAST, 'what was passed over is counted');
is(query("SELECT count(*) FROM atproto.stat_subscription WHERE events = $PDS_LAST AND reconnects = 0"),
	keys(%filters) + keys(%empty), 'every event was processed, whatever the filter');

# --- a change while the stream runs ---

query('SELECT atproto.unsubscribe(name) FROM atproto.subscription');
my @holds = (500, 900, 1300);
$server->restart(map { ('--hold-at', $_) } @holds);
query(subscribe_sql('live', $server, cursor => 0, collections => "ARRAY['app.bsky.graph.*']"));

# Waits for the hold, changes the row, waits until the change is taken, goes on.
sub change_at
{
	my ($seq, $set) = @_;
	my $after = $seq - 1;

	wait_for_seq($node, 'live', $after);
	my $log = -s $node->logfile;
	query("UPDATE atproto.subscription SET $set");
	$node->poll_query_until('postgres', "SELECT settings_after = $after FROM atproto.cursor")
	  or BAIL_OUT("the settings did not change after $after");
	$node->wait_for_log(qr/settings of atproto subscription "live" changed after event $after$/m, $log);
	$server->release;
	return;
}

change_at(500, "collections = ARRAY['app.bsky.feed.like', 'app.bsky.feed.repost']");
change_at(900, 'collections = NULL, keep_raw = true');
change_at(1300, "actions = '{}', keep_raw = false");
wait_for_seq($node, 'live', $PDS_LAST);

my @changes = ('--collection', 'app.bsky.graph.*', '--after', 499, 'app.bsky.feed.like,app.bsky.feed.repost', '--after', 899, 'ALL', '--after', 1299);
tables_match($node, $pds, 'each change holds from exactly its event on', modes => ['record'], args => [ @changes, 'nothing' ]);
tables_match($node, $pds, 'F-14: the repositories moved all the time', modes => ['repo'], args => [ @changes, 'ALL' ]);
is(query("SELECT reconnects, drops, received FROM atproto.stat_subscription"), "0|{}|$PDS_LAST", 'without a reconnection');
is(join(' ', $server->cursors), '0', 'through one connection');
is(query('SELECT events, settings_after FROM atproto.cursor'), "$PDS_LAST|1299", 'atproto.cursor knows the last of them');

# keep_raw held from 900 to 1299
my ($events) = oracle('', 'event', $pds, '--first', 900, '--last', 1299);
my %revs = map { (split /\t/)[5] => 1 } split /\n/, $events;
my %raw  = map { my ($rev, $raw) = split /\|/; ("$rev", $raw) } split /\n/,
  query("SELECT DISTINCT rev, raw IS NOT NULL FROM atproto.record WHERE value IS NOT NULL");
is_deeply([ grep { $raw{$_} ne ($revs{$_} ? 't' : 'f') } keys %raw ], [], 'keep_raw holds for the same events');

# Only a change of settings moves settings_after: no restart, no pause, no other column.
$node->restart;
$node->poll_query_until('postgres', "SELECT state = 'streaming' FROM atproto.stat_subscription");
query("SELECT atproto.pause('live'); SELECT atproto.resume('live'); UPDATE atproto.subscription SET max_dead_letters = 1");
$node->poll_query_until('postgres', "SELECT state = 'streaming' FROM atproto.stat_subscription");
is(query('SELECT settings_after FROM atproto.cursor'), '1299', 'it is known after a restart, too');
query("UPDATE atproto.subscription SET keep_records = false");
$node->poll_query_until('postgres', "SELECT settings_after = $PDS_LAST FROM atproto.cursor") or fail('the settings did not change');
query("UPDATE atproto.subscription SET collections = NULL");
ok($node->poll_query_until('postgres',
	q{SELECT state = 'idle' AND query LIKE 'streaming %' FROM pg_stat_activity WHERE backend_type = 'atproto consumer'}),
	'the settings are read, and nothing else is going on');

# --- invalid filters ---

sub refused
{
	my ($sql, $pattern, $name) = @_;
	my ($rc, $out, $err) = $node->psql('postgres', $sql);
	isnt($rc, 0, "$name: refused");
	like($err, $pattern, "$name: clear");
	return;
}

foreach my $bad ('app.bsky', 'app.*.feed', '*.*', '**', '', 'app.bsky*', 'app.bsky.feed.post ', 'app.bsky.feed.*.x', '.*')
{
	refused("UPDATE atproto.subscription SET collections = ARRAY['app.bsky.feed.post', '$bad']",
		qr/^psql:.*ERROR:  invalid collection: "\Q$bad\E"\n.*DETAIL: .*\n.*HINT:  Use an NSID such as/s, "collection '$bad'");
}
refused("UPDATE atproto.subscription SET $_ = ARRAY[NULL]" . ($_ eq 'dids' ? '::did[]' : ''), qr/"$_" must not contain nulls\n.*HINT:  Probably a query/s, "$_: a null")
	foreach 'collections', 'dids', 'actions';
refused(subscribe_sql('x', $server, collections => "ARRAY['post']"), qr/invalid collection: "post"/, 'in subscribe()');
refused(subscribe_sql('x', $server, actions => "ARRAY['merge']"), qr/invalid value for "actions": "merge"\n.*HINT:  Use an array of 'create', 'update' or 'delete'/s, 'action');
refused(subscribe_sql('live', $server), qr/ERROR:  subscription "live" already exists\n/, 'a name that is taken');
refused(subscribe_sql('x', $server, dids => "ARRAY['did:plc']::did[]"), qr/ERROR:  invalid/, 'DID');
is(query('SELECT name, collections FROM atproto.subscription'), 'live|', 'nothing of that changed anything');

$node->stop;
done_testing();
