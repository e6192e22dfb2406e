# 500_plc.pl
#		A subscription to a did:plc directory reads the whole log, by pages and then by the stream, without a seam (M-12):
#		the tables have each operation that holds, numbered and with what nullified it, and each that is refused, with its
#		reason, as the second verifier of test/oracle says (M-01, M-05, M-10).
#
#		ATPROTO_SEED is the seed of the run, ATPROTO_PLC_OPERATIONS about the number of operations.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Network;
use AtprotoTest::Plc;
use AtprotoTest::Preload;
use JSON::PP;
use PostgreSQL::Test::Utils;
use Test::More;

my $seed    = seed();
my $network = AtprotoTest::Network->start;
my $node    = make_node(
	'plc', start => AtprotoTest::Preload->make(network => $network),
	conf => $network->settings . <<'CONF');
max_worker_processes = 30
atproto.reconnect_delay = 50ms
atproto.reconnect_max_delay = 200ms
CONF
my $log     = plc_export(operations => $ENV{ATPROTO_PLC_OPERATIONS} // 1200, wrong => 60, seed => $seed);
# not decoded: Perl's JSON refuses some of the forged texts
my @entries = map { { seq => 0 + (/"seq": ?(\d+)/)[0] } } split /\n/, slurp_file($log);
my $last    = $entries[-1]{seq};

# Tells the directory something; the answer is its state.
sub directory
{
	my ($what, $host) = @_;
	$host //= $PLC;
	return $network->directories({ $host => $what })->{$host};
}

sub follow
{
	my ($name, %o) = @_;
	my $host   = delete $o{host}   // $PLC;
	my $target = delete $o{target} // $name;
	my $more = join '', map { ", $_ => $o{$_}" } sort keys %o;

	query("CREATE SCHEMA IF NOT EXISTS $target; SELECT atproto.subscribe('$name', 'ws://$host/export/stream', target => '$target', allow_insecure => true$more)");
	return;
}

sub wait_for_cursor
{
	my ($name, $seq) = @_;
	wait_for("SELECT count(*) > 0 FROM atproto.cursor WHERE subscription = '$name' AND seq >= $seq");
	return;
}

# The tables are as the oracle says; of the log up to a number with last => SEQ.
sub tables_are
{
	my ($target, $what, %o) = @_;
	my $time = q{to_char(created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')};
	my @want = map { join "\t", (split /\t/)[ 0 .. 4 ] } split /\n/, plc_rows('operation', $log, %o);
	my $have = query("SELECT concat_ws(E'\\t', did, n, cid, $time, COALESCE((SELECT b.cid::text FROM $target.plc_operation b"
		. " WHERE b.did = o.did AND b.n = o.nullified_by), '\\N')) FROM $target.plc_operation o");

	is_deeply([ sort split /\n/, $have ], [ sort @want ], "M-01, M-05: $what: the operations") or diag($have);
	my %refused;
	$refused{"$_->[0] $_->[3]"}++ foreach map { [ split /\t/ ] } split /\n/, plc_rows('refused', $log, %o);
	is(query("SELECT string_agg(seq || ' ' || reason, E'\\n' ORDER BY seq) FROM $target.plc_refused"),
		join("\n", sort { ($a =~ /(\d+)/)[0] <=> ($b =~ /(\d+)/)[0] } keys %refused), "M-01: $what: what is refused");
	return;
}

# --- pages, then the stream ---

my $here = $entries[800]{seq};
directory({ log => $log, upto => $here, oldest => $entries[900]{seq}, page => 1 });
# the consumer would have read all pages before anybody has looked
my $held = $network->fault({ host => $PLC, path => '^/export\?', after => 400, hold => 'pages' });
follow('pages');
# M-12: rate and time of catching up go on from page to page
wait_for('SELECT rate > 0 AND caught_up_at > now() FROM atproto.stat_subscription');
directory({ do => { set => { page => 300 } } });
$network->unfault($held);
wait_for_cursor('pages', $here);
tables_are('pages', 'by pages', last => $here);
directory({ do => { publish => undef } });
wait_for_cursor('pages', $last);
wait_for("SELECT state = 'streaming' FROM atproto.stat_subscription WHERE name = 'pages'");
tables_are('pages', 'pages and the stream');
my $asked = directory({ do => {} })->{asked};
cmp_ok($asked->{export}, '>=', 3, 'M-12: pages were asked for');
cmp_ok($asked->{stream}, '>=', 1, 'M-12: then the stream');

# --- the stream alone, and the same log again ---

directory({ do => { set => { oldest => 0 } } });
follow('stream');
wait_for_cursor('stream', $last);
tables_are('stream', 'by the stream alone');
query("SELECT atproto.set_cursor('stream', 0)");
wait_for("SELECT seq = $last AND left_at IS NULL FROM atproto.cursor WHERE subscription = 'stream'");
tables_are('stream', 'M-10: read twice');

# --- another directory with the same log, into the same tables ---

directory({ log => $log }, 'plc2.example.com');
my $end = directory({ do => { renumber => [ 5, 3 ] } }, 'plc2.example.com')->{last};
follow('mirror', host => 'plc2.example.com', target => 'stream');
wait_for_cursor('mirror', $end);
tables_are('stream', 'M-10: two directories');

# --- the packed form ---

my $log_of = 'FROM (SELECT DISTINCT did FROM stream.plc_operation) d, LATERAL atproto.plc_log(d.did, $$stream$$) l';
is(query("SELECT count(*), count(*) FILTER (WHERE cidlink_of(l.signed) = l.cid), count(*) FILTER (WHERE l.signer IS NULL) $log_of"),
	query('SELECT concat_ws($$|$$, count(*), count(*), 0) FROM stream.plc_operation'), 'M-20: the bytes that were signed come back');
my $json = JSON::PP->new->canonical->ascii->allow_nonref;
my %sealed = map { my ($did, $n, $operation) = (split /\t/)[ 0, 1, 5 ]; ("$did $n" => $json->encode($json->decode($operation))) } split /\n/, plc_rows('operation', $log);
my %unpacked = map { my ($place, $operation) = split /\t/, $_, 2; ($place => $json->encode(JSON::PP->new->utf8->allow_nonref->decode($operation))) }
  split /\n/, query("SELECT concat(d.did, ' ', l.n, E'\\t', l.operation) $log_of");
is_deeply(\%unpacked, \%sealed, 'M-20: the operations as JSON');
is(query(q{SELECT count(*) FROM (SELECT DISTINCT did FROM stream.plc_operation) d,
	LATERAL (SELECT jsonb_agg(e) FROM atproto.plc_export(d.did, 'stream') e) x (log), atproto.plc_check(x.log) c WHERE c.verdict = 'refused'}), '0',
	'M-50: an exported log is valid');
is(query(q{SELECT DISTINCT string_agg(k, ' ' ORDER BY k) FROM stream.plc_operation o, LATERAL atproto.plc_export(o.did, 'stream') e, jsonb_object_keys(e) k GROUP BY o.did, o.n, e}),
	'cid createdAt did operation seq type', '... with the members of an entry');
is(query(q{SELECT DISTINCT octet_length(o.packed) FROM stream.plc_operation o, LATERAL atproto.plc_log(o.did, 'stream') l WHERE l.n = o.n AND l.operation ->> 'type' = 'plc_tombstone'}),
	1 + 65 + 1, 'M-20: the CID of the operation before is not stored again');
cmp_ok(query('SELECT count(*) FROM stream.plc_text'), '>', 10, 'M-20: what several accounts have is stored once');

# --- the audit ---

my $audit = 'FROM (SELECT DISTINCT did FROM stream.plc_operation) d, LATERAL atproto.plc_audit(d.did, $$stream$$) a';
is(query("SELECT string_agg(concat_ws(' ', d.did, a.n, a.problem), E'\\n') $audit"), '', 'M-51: all stored operations hold');
my ($victim) = split /\n/, query('SELECT did FROM stream.plc_operation GROUP BY did HAVING count(*) > 3 AND bool_and(nullified_by IS NULL) ORDER BY did LIMIT 1');
my %damage = (
	'packed = set_byte(packed, 20, get_byte(packed, 20) # 1)' => 'cid: ',
	"cid = (SELECT cid FROM stream.plc_operation WHERE did <> '$victim' LIMIT 1)" => 'cid: ',
	'nullified_by = 3' => 'nullified: ',
	"created_at = created_at - interval '20 y'" => 'order: ',
	'prev = NULL' => 'encoding: ',
	"packed = '\\x00ff'" => 'the operation cannot be unpacked');
foreach my $change (sort keys %damage)
{
	my $found = query("BEGIN; UPDATE stream.plc_operation SET $change WHERE did = '$victim' AND n = 2;"
		. " SELECT string_agg(a.n || ' ' || a.problem, E'\\n' ORDER BY a.n) FROM atproto.plc_audit('$victim', 'stream') a; ROLLBACK");

	like($found, qr/^2 \Q$damage{$change}\E/m, "M-51: damage is found: $change");
}
is(query(qq{BEGIN; UPDATE stream.plc_operation SET created_at = '2024-01-31 12:00+00'::timestamptz + n * interval '1 us' WHERE did = '$victim';
	SELECT count(*) FROM atproto.plc_audit('$victim', 'stream');
	SELECT min(e ->> 'createdAt') FROM atproto.plc_export('$victim', 'stream') e; ROLLBACK}), "0\n2024-01-31T12:00:00.000001Z",
	'M-04: times of a directory that writes microseconds stay apart');

# --- dump and restore ---

my $dump = $node->basedir . '/stream.sql';
query('CREATE DATABASE restored TEMPLATE template0');
query("CREATE EXTENSION atproto; SET client_min_messages = error; SELECT atproto.create_tables('atproto')", database => 'restored');
$node->command_ok([ 'pg_dump', '-n', 'stream', '-f', $dump, $node->connstr('postgres') ], 'pg_dump');
$node->command_ok([ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-f', $dump, $node->connstr('restored') ], 'restored');
is(query("SELECT count(*) $log_of", database => 'restored'), query('SELECT count(*) FROM stream.plc_operation'), 'M-20: the restored operations can be unpacked');
is(query("SELECT string_agg(concat_ws(' ', d.did, a.n, a.problem), E'\\n') $audit", database => 'restored'), '', 'M-51: all restored operations hold');
is(query('SELECT count(*) FROM stream.plc_history', database => 'restored'), query('SELECT count(*) FROM stream.plc_history'), '... the history, too');

# --- filters, history, keys ---

my ($did) = split /\n/, query('SELECT did FROM stream.plc_operation GROUP BY did ORDER BY count(*) DESC, did LIMIT 1');
follow('one', dids => "ARRAY['$did']", cursor => 0);
wait_for_cursor('one', $last);
is(query('SELECT string_agg(DISTINCT did::text, $$ $$) FROM one.plc_operation'), $did, 'F-14: the filter by DIDs');
is(query('SELECT count(*) FROM one.plc_operation'), query("SELECT count(*) FROM stream.plc_operation WHERE did = '$did'"), '... keeps the whole log of the account');
my @states = map { [ split /\t/ ] } split /\n/, plc_rows('state', $log);
is(query('SELECT count(*) FROM stream.plc_history'), scalar(@states), 'M-06: the history has a row for each operation of the present chains');
is_deeply([ sort split /\n/, query(q{SELECT concat_ws(' ', did, to_char(since AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'), server) FROM stream.plc_history}) ],
	[ sort map { join ' ', @{$_}[ 0, 1 ], $_->[4] eq '\N' ? () : $_->[4] } @states ], 'M-06: ... with the servers, also of the former form of a genesis');
is(query('SELECT count(*) FROM stream.plc_history WHERE gone'), scalar(grep { $_->[-1] eq 't' } @states), '... tombstones among them');

my $of = query('SELECT did, since, until, key FROM stream.plc_history WHERE key LIKE $$did:key:zQ3sh%$$ AND until IS NOT NULL ORDER BY 1, 2 LIMIT 1');
my ($who, $since, $until, $key) = split /\|/, $of;
is(query("SELECT atproto.plc_key('$who', '$since', 'stream')"), $key, 'M-06: the key at the time of an operation');
is(query("SELECT atproto.plc_key('$who', '$until'::timestamptz - interval '1 us', 'stream')"), $key, '... until the next one');
is(query("SELECT atproto.plc_key('$who', '2000-01-01', 'stream') IS NULL"), 't', '... and none before the genesis');
is(query("SELECT count(*) FROM stream.plc_history WHERE until IS NULL AND atproto.plc_key(did, target => 'stream') IS DISTINCT FROM (CASE WHEN key ~ '^did:key:z(Q3sh|Dn)' THEN key END)"),
	'0', '... the present keys');
is(query(q{BEGIN; UPDATE stream.plc_text SET text = atproto.did_key(decode('e70102' || repeat('00', 31) || '05', 'hex'))
	WHERE text = (SELECT key FROM stream.plc_history WHERE until IS NULL AND key LIKE 'did:key:zQ3sh%' ORDER BY did LIMIT 1);
	SELECT count(*) > 0, count(atproto.plc_key(did, target => 'stream')) FROM stream.plc_history
	WHERE until IS NULL AND key = atproto.did_key(decode('e70102' || repeat('00', 31) || '05', 'hex')); ROLLBACK}),
	't|0', '... and none where it is no point of the curve');

# --- faults of a directory ---

my %wrong = (
	cut => {}, html => {}, empty => {}, short => {}, blank => {}, crlf => {}, line_feed => {}, repeat => {}, again => { count => 3 }, long => { size => 6 }, nested => {},
	type => {}, did => { value => 'did:plc:' . 'z' x 24 }, cid => { value => 'bafyreiaaaa' }, created => { value => 'yesterday' });
# request 3 is for a page alone; request 5 is for a page asked for ahead, and the answer counts
foreach my $what (sort keys %wrong)
{
	foreach my $nth (3, 5)
	{
		directory({ log => $log, upto => $entries[100]{seq}, oldest => $entries[101]{seq}, page => 12 });
		directory({ do => { change => { what => $what, on => 'export', nth => $nth, line => 5, %{ $wrong{$what} } } } });
		query("DROP SCHEMA IF EXISTS wrong CASCADE");
		follow('wrong');
		wait_for_cursor('wrong', $entries[100]{seq});
		query("SELECT atproto.set_cursor('wrong', 0)");
		wait_for("SELECT seq = $entries[100]{seq} AND left_at IS NULL FROM atproto.cursor WHERE subscription = 'wrong'");
		my @want = map { join ' ', (split /\t/)[ 0 .. 2 ] } split /\n/, plc_rows('operation', $log, last => $entries[100]{seq});
		is_deeply([ sort split /\n/, query("SELECT concat_ws(' ', did, n, cid) FROM wrong.plc_operation") ], [ sort @want ],
			"M-12: $what in request $nth: nothing is lost when the directory is right again");
		query("SELECT atproto.unsubscribe('wrong')");
	}
}
foreach my $reason ('FutureCursor')
{
	follow('future', cursor => 900000000);
	wait_for("SELECT stopped IS NOT NULL FROM atproto.subscription WHERE name = 'future'");
	like(query("SELECT stopped FROM atproto.subscription WHERE name = 'future'"), qr/as high as the cursor/, "E-45: $reason stops the subscription");
}

# --- nothing else ---

is(query(q{SELECT count(*) FROM atproto.dead_letter WHERE subscription <> 'wrong'}), '0', 'M-01: refused operations are no dead letters');
is(query("SELECT string_agg(subscription, ',') FROM atproto.gap"), 'future', 'M-12: a gap in the numbers is no loss, but a cursor in the middle is');

$node->stop;
$network->stop;
done_testing();
