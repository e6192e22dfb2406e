# 282_full_hosts.pl
#		A subscription to a PDS (host_is_pds) at level full ignores events, also deletions, of accounts that
#		another server hosts: a former server could lie.  A relay, which the test subscribes to with the
#		same events, is believed.  As in 282_full.pl no fetcher runs.  V-43, V-44.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Lookups;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = make_node('full_hosts', databases => '', conf => "max_worker_processes = 16\natproto.reconnect_delay = 50ms");
my %accounts = accounts_of('full.py', 'rotations');
my %who;
@who{qw(here moved elsewhere unknown)} = @accounts{qw(announced former elsewhere unknown)};
my ($here, $moved, $elsewhere, $unknown) = map { $who{$_}{did} } qw(here moved elsewhere unknown);
my $capture = make_capture('full.py', 'hosts');

# The account's records, and whether it is active; requests and counters.
sub of
{
	my ($name, $schema) = @_;
	return query("SELECT (SELECT string_agg(rkey::text, ',' ORDER BY rkey) FROM $schema.record WHERE did = '$who{$name}{did}')"
		. ", (SELECT concat_ws(' ', active, status, hold) FROM $schema.repo WHERE did = '$who{$name}{did}')");
}

sub queued
{
	return query("SELECT string_agg(did || ' ' || refresh, ', ' ORDER BY did) FROM atproto.identity_request");
}

foreach my $host_is_pds ('true', 'false')
{
	my $pds    = $host_is_pds eq 'true';
	my $s      = $pds ? 'pds' : 'relay';
	my $server = AtprotoTest::Server->start($capture, map { ('--hold-at', $_ + 1) } 4, 10);
	my $name   = 'http://127.0.0.1:' . $server->port;

	begin_again();
	know($who{$_}{did}, $who{$_}{first}, pds => $name) foreach 'here', 'moved';
	know($elsewhere, $who{elsewhere}{first});
	query("UPDATE atproto.identity SET asked_at = now() - interval '2 h' WHERE did = '$elsewhere'; CREATE SCHEMA $s");
	query(subscribe_sql($s, $server, cursor => 0, target => "'$s'", verify => "'full'", host_is_pds => $host_is_pds));
	wait_for_seq($node, $s, 4);
	is(of('here', $s), '10|t', "V-44: $s: an account of the server");
	is(of('moved', $s), '10|t', "V-44: $s: another one");
	is(of('elsewhere', $s), $pds ? '|' : '10|t', "V-44, F-06: $s: of an account that is elsewhere nothing, not even a row");
	is(of('unknown', $s), '|t identity', "V-40: $s: of one that is not known it waits");
	is(queued(), join(', ', sort "$unknown false", $pds ? "$elsewhere true" : ()), "V-44: $s: whether it still is elsewhere is asked");

	# the look-up says that the account is still elsewhere; and that a different account has moved here
	looked_up('', "did = '$elsewhere'") if $pds;
	know($moved, $who{moved}{first});
	$server->release;
	wait_for_seq($node, $s, 10);
	# V-47: records are removed when the directory or a server agrees
	is(of('moved', $s), $pds ? '10|t' : '10|f deleted', "V-44: $s: a former server deletes nothing");
	is(of('here', $s), '10|f deactivated', "V-44: $s: the account's own is believed");
	is(of('elsewhere', $s), $pds ? '|' : '10|f takendown', "V-44: $s: likewise when it does not say that it is deleted");
	is(query("SELECT sync, rev IS NOT NULL FROM $s.repo WHERE did = '$moved'"), ($pds ? 'synchronized' : 'desynchronized') . '|t', "V-44, V-38: $s: the commits of a former server have no effect, and those that a relay sends after its #account are missed");
	is(queued(), "$unknown false", "V-44: $s: and nobody is asked again for each of these");

	# an unknown account turns out to be elsewhere; an account moves here
	know($unknown, $who{unknown}{first});
	know($elsewhere, $who{elsewhere}{first}, pds => $name);
	looked_up('', "did = '$unknown'");
	wait_for('SELECT count(*) = 0 FROM atproto.held_event');
	is(of('unknown', $s), $pds ? '|' : '10,20|t', "V-44: $s: what waited, of an account that is elsewhere");
	$server->release;
	wait_for_seq($node, $s, 13);
	is(of('elsewhere', $s), $pds ? '20|f suspended' : '10|f suspended', "V-44: $s: one that has come is of the server from now on");
	is(of('moved', $s), $pds ? '10|t' : '10|f deleted', "V-44: $s: and one that has gone is not");
	like(skips($s), $pds ? qr/\bother_host 8\b/ : qr/^(?!.*other_host)/, "V-44: $s: what was counted");
	is(query('SELECT count(*) FROM atproto.dead_letter'), '0', "V-44: $s: nobody complains");
	query("SELECT atproto.unsubscribe('$s')");
}

# --- one host has many spellings: in a URL, and in a document ---

{
	my $server = AtprotoTest::Server->start($capture, '--hold-at', 5);
	my $port   = $server->port;

	foreach my $spelling ('LOCALHOST', 'LocalHost.')
	{
		begin_again();
		query('SET client_min_messages = warning; DROP SCHEMA IF EXISTS spelt CASCADE; CREATE SCHEMA spelt');
		# as the fetcher writes a document's
		know($here, $who{here}{first}, pds => "http://localhost:$port");
		query("SELECT atproto.subscribe('spelt', 'ws://$spelling:$port', cursor => 0, target => 'spelt', verify => 'full', host_is_pds => true, allow_insecure => true)");
		wait_for_seq($node, 'spelt', 4);
		is(of('here', 'spelt'), '10|t', "V-44: $spelling: an account of the server");
		is(query("SELECT DISTINCT host FROM spelt.repo WHERE host IS NOT NULL UNION ALL SELECT 'localhost'"), 'localhost', "V-44: $spelling: one name");
		query("SELECT atproto.unsubscribe('spelt')");
	}
	like(($node->psql('postgres', "SELECT atproto.subscribe('spelt', 'wss://p\x{c3}\x{a4}s.invalid')"))[2], qr/^NOTICE:|must be written in ASCII/, 'a name that is not ASCII is one, or is refused');
	is(query("SELECT count(*) FROM atproto.subscription WHERE endpoint LIKE 'wss://xn--%'"), '0', 'the position is that of the URL as it was written');
	query('SELECT atproto.unsubscribe(name) FROM atproto.subscription');
}

# --- an account comes back to this server before its document can be read again ---

{
	my $server = AtprotoTest::Server->start(make_capture('steps.py', 'a active', 'b active', 'c deactivated'));

	begin_again();
	query("TRUNCATE atproto.status_request; CREATE SCHEMA back; SELECT atproto.create_tables('back');
		INSERT INTO back.repo (did, rev, active, status, status_at) SELECT d::did, '3jqfcqzm3fo2j', d = '@{[did('c')]}', 'deactivated', '2020-01-01' FROM unnest(ARRAY['@{[did('a')]}', '@{[did('c')]}']) d");
	know($_, $who{here}{first}, pds => 'former.example.com') foreach map { did($_) } 'a' .. 'c';
	query(subscribe_sql('back', $server, cursor => 0, target => "'back'", verify => "'full'", host_is_pds => 'true'));
	wait_for_seq($node, 'back', 3);
	is(query("SELECT did, active FROM back.repo ORDER BY did"), did('a') . "|f\n" . did('c') . '|t', 'V-44: what this server says is not believed');
	is(query("SELECT did, target, why, status_at FROM atproto.status_request"), did('a') . '|back|inactive|2020-01-01 00:00:00+00', 'V-44: but where records are hidden, the server of its document is asked');
	query("SELECT atproto.unsubscribe('back')");
}

# --- two servers fill the same tables: a held event is judged by the server that sent it, whichever subscription releases it ---

my %others = accounts_of('full.py', 'again');
my $late   = $others{late}{did};
my ($first, $second) = map { AtprotoTest::Server->start(@$_) } [ $capture, '--hold-at', 5 ], [ make_capture('full.py', 'again') ];
begin_again();
query('CREATE SCHEMA shared');
query(subscribe_sql('first', $first, cursor => 0, target => "'shared'", verify => "'full'", host_is_pds => 'true', dids => "'{$unknown}'"));
# an event of the second subscription waits, too: so the second looks for events to release
query(subscribe_sql('second', $second, cursor => 0, target => "'shared'", verify => "'full'", host_is_pds => 'true', dids => "'{$unknown,$late}'"));
wait_for("SELECT count(DISTINCT did) = 2 FROM atproto.held_event");
query("SELECT atproto.pause('first')");
wait_for(q{SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'atproto consumer'});
know($unknown, $who{unknown}{first}, pds => 'http://127.0.0.1:' . $first->port);
looked_up('', "did = '$unknown'");
wait_for("SELECT count(*) = 0 FROM atproto.held_event WHERE did = '$unknown'");
is(of('unknown', 'shared'), '10|t', 'V-44: an event of the first server that the second one takes is not of an account that is elsewhere');

$node->stop;
done_testing();
