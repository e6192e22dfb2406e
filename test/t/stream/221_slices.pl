# 221_slices.pl
#		A subscription to a slice keeps the repositories whose DIDs PostgreSQL would put into this hash
#		partition.  Slices are disjoint, and together have the rows of a single subscription to the whole
#		stream, with every kind of event and fault.  A slice can be changed like any filter.  F-14, I-20.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = make_node(
	'slices', conf => <<'EOF');
max_worker_processes = 30
atproto.reconnect_delay = 50ms
EOF

# --- slices have the numbers of hash partitions ---

query(<<'SQL');
CREATE TABLE part (did did) PARTITION BY HASH (did);
SELECT format('CREATE TABLE part_%s PARTITION OF part FOR VALUES WITH (MODULUS 16, REMAINDER %s)', n, n) FROM generate_series(0, 15) n \gexec
INSERT INTO part SELECT ('did:plc:' || translate(substr(md5(n::text), 1, 24), '0189', 'wxyz'))::did FROM generate_series(1, 20000) n;
INSERT INTO part SELECT ('did:web:host' || n || '.example.com')::did FROM generate_series(1, 2000) n;
INSERT INTO part SELECT ('did:plc:short' || n)::did FROM generate_series(1, 1000) n;
INSERT INTO part SELECT ('did:key:' || repeat('z', n))::did FROM generate_series(1, 1000) n;
SQL
is(query(q{SELECT count(*) FROM part WHERE tableoid <> ('part_' || did_slice(did, 16))::regclass}), '0', 'a row is in the partition of its slice');
is(query(q{SELECT count(*) FROM part, unnest('{1,2,3,16,97,1000,2147483647}'::int[]) n WHERE NOT satisfies_hash_partition('part'::regclass, n, did_slice(did, n), did)}),
	'0', 'as satisfies_hash_partition() says, of any number of them');
is(query('SELECT count(DISTINCT did_slice(did, 16)), min(did_slice(did, 16)), max(did_slice(did, 16)) FROM part'), '16|0|15', 'from 0 on');
is(query('SELECT count(*) FROM part WHERE did_slice(did, 32) NOT IN (did_slice(did, 16), did_slice(did, 16) + 16)'), '0', 'each splits into two');

# --- together the slices have the whole stream ---

my ($capture) = simulate(
	'--events' => 5000, '--accounts' => 200, '--history' => 0,
	'--mix' => 'account=4,delete=4,update=4,sync=2,identity=4,like=40,post=30');
my $last   = read_capture($capture);
my $server = AtprotoTest::Server->start($capture);
my @slices = map { "s$_" } 0 .. 2;

# A stream into schemas s0, s1, s2 by slices, and into the schema whole; s1 by two workers.
sub follow_all
{
	my ($from, %args) = @_;

	query('SET client_min_messages = warning; SELECT atproto.unsubscribe(name) FROM atproto.subscription;'
		  . "DROP SCHEMA IF EXISTS $_ CASCADE; CREATE SCHEMA $_") foreach @slices, 'whole';
	query(subscribe_sql('whole', $from, cursor => 0, target => "'whole'", %args));
	query(subscribe_sql($slices[$_], $from, cursor => 0, target => "'$slices[$_]'", slice => "'$_/3'", workers => $_ == 1 ? 2 : 1, %args)) foreach 0 .. 2;
	return;
}

# The number of rows that are in the slices' tables or in the whole table, but not in both.
sub different
{
	my ($table, $columns) = @_;
	my $parts = join ' UNION ALL ', map { "SELECT $columns FROM $_.$table" } @slices;

	return query("SELECT count(*) FROM ((($parts) EXCEPT ALL SELECT $columns FROM whole.$table) UNION ALL (SELECT $columns FROM whole.$table EXCEPT ALL ($parts))) d");
}

my $repo_columns = 'did, rev, first_rev, commit, data, active, status, status_at, status_seq, host, handle, sync, deleted_rev';
my $event_columns = 'seq, action, did, collection, rkey, rev, cid, value, old_cid, old_value';
follow_all($server, events => "'keep'", count_collections => 'true');
wait_for("SELECT count(*) = 4 FROM atproto.stat_subscription WHERE seq = $last");
wait_for("SELECT count(*) = 0 FROM $_.repo WHERE purge_rev IS NOT NULL") foreach @slices, 'whole';
tables_match($node, $capture, 'the whole is what the oracle says', schema => 'whole');
is(different('record', 'did, collection, rkey, cid, rev, value'), '0', 'the slices together have its records');
is(different('repo', $repo_columns), '0', 'its repositories');
is(different('record_event', $event_columns), '0', 'and its events');
is(query("SELECT count(*) FROM $_->[0].repo WHERE did_slice(did, 3) <> $_->[1]"), '0', "$_->[0]: no others") foreach map { [ $slices[$_], $_ ] } 0 .. 2;
is(query(q{SELECT string_agg(name || ' ' || slice, ', ' ORDER BY name), bool_and(events = } . $last . q{) FROM atproto.stat_subscription WHERE slice IS NOT NULL}),
	's0 0/3, s1 1/3, s2 2/3|t', 'each says which it is, and is at the end of the stream');
is(query(q{SELECT sum((skips->>'filtered')::int) FROM atproto.stat_subscription WHERE slice IS NOT NULL}), 2 * $last, 'what is of others is counted');

# --- a slice changes, while the table of the whole stream is still there ---

# Records of some repositories that differ from the whole.
sub unlike_whole
{
	my ($where) = @_;
	my ($mine, $all) = map { "SELECT did, collection, rkey, cid, rev FROM $_.record WHERE $where" } 'changed', 'whole';

	return query("SELECT count(*) FROM (($mine EXCEPT ALL $all) UNION ALL ($all EXCEPT ALL $mine)) d");
}

query('CREATE SCHEMA changed');
my $held = AtprotoTest::Server->start($capture, '--hold-at', 2501);
query(subscribe_sql('changed', $held, cursor => 0, target => "'changed'", slice => "'1/4'"));
wait_for_seq($node, 'changed', 2500);
query(q{UPDATE atproto.subscription SET slice = '1/2' WHERE name = 'changed'});
wait_for(q{SELECT settings_after = 2500 FROM atproto.cursor WHERE subscription = 'changed'});
$held->release;
wait_for_seq($node, 'changed', $last);
is(unlike_whole('did_slice(did, 4) = 1'), '0', 'a wider one: what was followed before is');
is(query('SELECT string_agg(DISTINCT did_slice(did, 4)::text, $$ $$) FROM changed.repo'), '1 3', 'and what it has more');
cmp_ok(unlike_whole('did_slice(did, 4) = 3'), '>', 0, 'from then on');
query(q{SELECT atproto.pause('changed')});
wait_for(q{SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name LIKE 'atproto changed%'});
query(q{UPDATE atproto.subscription SET slice = '3/4' WHERE name = 'changed';
	DELETE FROM changed.record WHERE did_slice(did, 4) <> 3; DELETE FROM changed.repo WHERE did_slice(did, 4) <> 3;
	SELECT atproto.refill('changed'), atproto.resume('changed')});
wait_for('SELECT count(*) = 0 FROM changed.repo WHERE refill_by IS NOT NULL AND rev IS NOT NULL');
wait_for_seq($node, 'changed', $last);
is(unlike_whole('did_slice(did, 4) = 3'), '0', 'a refill brings what was before');
is(query('SELECT count(*) FROM changed.repo WHERE did_slice(did, 4) <> 3'), '0', 'a narrower one: what was removed stays away');

# A bad message is a dead letter in the slice of its account, or in all slices when its account is unknown.
my $bad = PostgreSQL::Test::Utils::tempdir('bad') . '/frames';
IPC::Run::run([ $ENV{PYTHON} || '/usr/bin/python3', '-B', test_dir() . '/oracle/violations.py', $bad ], '>', \my $names) or BAIL_OUT('violations.py failed');
$last = read_capture($bad);
follow_all(AtprotoTest::Server->start($bad));
wait_for("SELECT count(*) = 4 FROM atproto.stat_subscription WHERE seq = $last");
my $letters = 'SELECT seq, stage, message, did, path FROM atproto.dead_letter WHERE did IS NOT NULL AND subscription';
cmp_ok(query("SELECT count(*) FROM atproto.dead_letter WHERE subscription = 'whole' AND did IS NOT NULL AND stage = 'message'"), '>', 10, 'messages are wrong');
is(query("SELECT count(*) FROM ((($letters <> 'whole') EXCEPT ALL $letters = 'whole') UNION ALL ($letters = 'whole' EXCEPT ALL ($letters <> 'whole'))) d"),
	'0', 'each has one letter in one slice');

# --- invalid slices ---

sub refused
{
	my ($sql, $pattern, $name) = @_;
	my ($rc, undef, $err) = $node->psql('postgres', $sql);

	isnt($rc, 0, "$name: refused");
	like($err, $pattern, "$name: clear");
	return;
}

my %wrong = (
	'16/16' => 'Slices are numbered from 0',
	'0/0'   => 'There must be one slice or more',
	(map { $_ => 'A slice is a number' } 'x', '', '3', '-1/2', '1/2/3', '0/2147483648'));
refused("UPDATE atproto.subscription SET slice = '$_'", qr/ERROR:  invalid slice: "\Q$_\E"\n.*DETAIL:  $wrong{$_}.*\n.*HINT:  The slices of four servers are/, "slice '$_'")
  foreach sort keys %wrong;
refused(subscribe_sql('x', $server, slice => "'4/4'"), qr/invalid slice: "4\/4"/, 'in subscribe()');
refused(subscribe_sql('x', $server, nsid => 'com.atproto.label.subscribeLabels', slice => "'0/2'"), qr/cannot have "slice"\n.*Its events are not of repositories/, 'a stream of labels');
refused("SELECT did_slice('did:plc:a', $_)", qr/number of slices must be positive, not $_/, "$_ slices") foreach 0, -1;
is(query('SELECT string_agg(slice, $$ $$ ORDER BY slice) FROM atproto.subscription'), '0/3 1/3 2/3', 'nothing of that changed anything');

$node->stop;
done_testing();
