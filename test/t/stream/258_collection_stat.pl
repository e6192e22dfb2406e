# 258_collection_stat.pl
#		collection_stat counts operations by collection and hour, in the transaction that writes the
#		records.  The counts must equal those of record_event, whichever rows were refused and tried again,
#		however many processes count, and the number of collection names that strangers can add is bounded.
#		Exports are not counted.  E-43, B-29.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = make_node(
	'counts', conf => <<'EOF');
max_worker_processes = 20
atproto.reconnect_delay = 50ms
atproto.reconnect_max_delay = 200ms
EOF

# Counts of a schema, of all hours.
sub counts
{
	my ($schema) = @_;

	return query("SELECT sum(creates), sum(updates), sum(deletes) FROM $schema.collection_stat");
}

# --- two subscriptions with two workers each, and a trigger that refuses some rows ---

my ($capture) = simulate(
	'--events' => 6000, '--accounts' => 80, '--history' => 0,
	'--mix' => 'account=4,delete=8,update=6,sync=0,like=40,post=30');
my $last = read_capture($capture);
my %counted = (target => "'counted'", cursor => 0, workers => 2, events => "'keep'", count_collections => 'true');
query(<<'SQL');
CREATE SCHEMA counted;
SELECT atproto.create_tables('counted');
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RAISE EXCEPTION 'not this one'; END$$;
CREATE TRIGGER refuse BEFORE INSERT ON counted.record FOR EACH ROW WHEN (right(new.rkey::text, 1) = 'a') EXECUTE FUNCTION refuse();
SQL
my @servers = map { AtprotoTest::Server->start($capture) } 1, 2;
query(subscribe_sql($_, shift @servers, %counted)) foreach 'one', 'two';
wait_for("SELECT count(*) = 2 FROM atproto.stat_subscription WHERE seq = $last");
wait_for('SELECT count(*) = 0 FROM counted.repo WHERE purge_rev IS NOT NULL');
counts_match($node, 'two subscriptions: what is counted is what happened', schema => 'counted');
like(counts('counted'), qr/^[1-9]\d*\|[1-9]\d*\|[1-9]\d*$/, 'of each kind there is some');
cmp_ok(query('SELECT count(DISTINCT (subscription, worker)) FROM counted.collection_count'), '>', 1, 'several processes have counted');
unlike(slurp_file($node->logfile), qr/deadlock detected(?:(?! LOG: ).)*collection_count/s, 'which do not meet');
cmp_ok(query("SELECT count(*) FROM atproto.dead_letter WHERE stage = 'apply'"), '>', 10, 'some of it was refused');

# A retried letter counts; and retry() waits for no consumer's counts.
query('DROP TRIGGER refuse ON counted.record');
my $before  = counts('counted');
my $session = $node->background_psql('postgres');
$session->query_safe(q{BEGIN; SELECT atproto.retry(id) FROM atproto.dead_letter WHERE stage = 'apply' ORDER BY id});
my $more = AtprotoTest::Server->start(make_capture('steps.py', 'a 1 +x', 'a 2 =x'));
query(subscribe_sql('three', $more, %counted, workers => 1));
wait_for_seq($node, 'three', 2);
pass('whoever tries it again holds no consumer up');
$session->query_safe('COMMIT');
$session->quit;
isnt(query('SELECT sum(creates) FROM counted.collection_count WHERE worker = -1'), '', 'what is tried again counts');
counts_match($node, 'as it happens', schema => 'counted');

# --- read again, or no event ---

query(q{SELECT atproto.unsubscribe('two'), atproto.unsubscribe('three')});
query(q{SELECT atproto.refill('one')});
wait_for("SELECT sum(events) >= 2 * $last AND min(seq) = $last FROM atproto.cursor WHERE subscription = 'one'");
wait_for('SELECT count(*) = 0 FROM counted.repo WHERE purge_rev IS NOT NULL');
counts_match($node, 'a refill counts what it changes', schema => 'counted');

my $files = PostgreSQL::Test::Utils::tempdir('exports');
my ($few) = simulate('--events' => 300, '--accounts' => 5, '--history' => 0, '--exports' => $files, '--mix' => 'account=0,identity=0,sync=0');
my $server = AtprotoTest::Server->start($few);
query('CREATE SCHEMA exported');
query(subscribe_sql('exported', $server, %counted, target => "'exported'", workers => 1));
wait_for_seq($node, 'exported', 300);
$before = counts('exported');
query(q{SELECT atproto.pause('exported')});
query(q{DELETE FROM exported.record});
foreach my $car (glob "$files/*/*.car")
{
	my ($did) = $car =~ m{([^/]+)\.car$};

	query("SELECT atproto.load_car('$did', pg_read_binary_file('$car'), 'exported')");
}
cmp_ok(query('SELECT count(*) FROM exported.record_event WHERE seq IS NULL'), '>', 100, 'exports bring records');
is(counts('exported'), $before, 'what comes from them is not counted');
counts_match($node, 'but all events are', schema => 'exported');

# --- counts are requested ---

query(q{CREATE SCHEMA asked});
my $held = AtprotoTest::Server->start(make_capture('steps.py', 'a 1 +x', 'a 2 +y', 'b 1 +z -y'), '--hold-at', 2);
query(subscribe_sql('asked', $held, target => "'asked'", cursor => 0));
wait_for_seq($node, 'asked', 1);
my $offset = -s $node->logfile;
query(q{UPDATE atproto.subscription SET count_collections = true WHERE name = 'asked'});
$node->wait_for_log(qr/settings of atproto subscription "asked" changed/, $offset);
$held->release;
wait_for_seq($node, 'asked', 3);
is(counts('asked'), '2|0|1', 'from then on, also without record_event');

# --- bounded ---

query('CREATE SCHEMA names');
my @names = map { sprintf 'com.example.c%04d', $_ } 0 .. 1002;
my @steps = map {
	my $first = 100 * ($_ - 1);
	join ' ', "a $_", map { "+$_/x" } grep { defined } @names[ $first .. $first + 99 ]
} 1 .. 11;
my $others = 'invalid.other.collections';
my $many = AtprotoTest::Server->start(make_capture('steps.py', "b 1 +$others/x", @steps, "a 12 =$names[0]/x", "a 13 -$names[1]/x -$names[1002]/x"));
query(subscribe_sql('names', $many, target => "'names'", cursor => 0, count_collections => 'true'));
wait_for_seq($node, 'names', 14);
is(counts('names'), '1004|1|2', 'no operation is lost');
SKIP:
{
	skip 'an hour began', 2 if query('SELECT count(DISTINCT hour) FROM names.collection_count') ne '1';

	is(query('SELECT count(*) FROM names.collection_stat'), '1001', 'of one hour a thousand names, and the others');
	is(query("SELECT creates, updates, deletes FROM names.collection_stat WHERE collection = '$others'"), '4|0|1', 'under a name of theirs, also when it is taken');
}

$node->stop;
done_testing();
