# 334_identity_requests.pl
#		Requests for identities survive trouble: the directory is away, the server stops, a clock is set
#		back, hosts hang, a role asks for more than its share, or a session does not end its transaction
#		(rules W-30 to W-35).

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Identities;
use PostgreSQL::Test::Utils;
use Test::More;

# a high concurrency, so that only the tested limits bound the requests
my $node = begin_identities('identity_requests', "atproto.queue_limit = 500\natproto.fetch_concurrency = 256\n");

# --- the directory is away ---

my @away = map { plc() } 1 .. 20;
$network->documents({ map { $_ => $good->($_) } @away });
my $away = $network->fault({ host => 'plc.example.com', reset => 0 });
resolve(@away);
wait_for("SELECT count(*) > 0 FROM atproto.identity WHERE did IN ('" . join("','", @away) . "') AND state = 'wanted' AND error IS NOT NULL");
$network->unfault($away);
later(600);
wait_for("SELECT count(*) = 20 FROM atproto.identity WHERE did IN ('" . join("','", @away) . "') AND state = 'good'");
pass('W-32: the directory was away, and is back');

# --- a restart in between ---

my $between = plc();
$network->documents({ $between => $good->($between) });
$network->fault({ did => $between, hold => 'between', times => 1 });
resolve($between);
$network->wait_for_log(1, path => "/$between");
$node->stop('immediate');
$preload->start($node);
wait_for("SELECT state = 'good' FROM atproto.identity WHERE did = '$between'", gone => 1);
$network->release('between');
is(requests(path => "/$between"), 2, 'what was asked when the server stopped is asked again');

# --- the clock is set back ---

later(10 * 24 * 3600);
my $back = plc();
$network->documents({ $back => 500 });
resolve($back);
wait_for("SELECT next_try > now() + '9 days'::interval FROM atproto.identity WHERE did = '$back'");
$network->documents({ $back => $good->($back) });
later(-9 * 24 * 3600);
wait_for("SELECT state = 'good' FROM atproto.identity WHERE did = '$back'");
pass('the clock is set back: nobody waits for a time that was');

# a session that requests may read the clock after the fetcher that looks for requests has read it
my $soon = plc();
$network->documents({ $soon => $good->($soon) });
resolve($soon);
wait_for("SELECT state = 'good' FROM atproto.identity WHERE did = '$soon'", gone => 1);
query("INSERT INTO atproto.identity_request (did, refresh, requested_at, priority, web) VALUES ('$soon', true, now() + '$ahead s'::interval + '3 s', 1, false); SELECT atproto_internal.wake()");
wait_for("SELECT count(*) = 0 FROM atproto.identity_request WHERE did = '$soon' AND next_try = 'epoch'");
is(requests(path => "/$soon"), 1, 'V-41: that is not taken for a clock that was set back: a minute is between two look-ups');

# --- hosts that hang ---

my $pass = $network->fault({ host => 'patient.example.com', delay => 0 });
my $hang = $network->fault({ path => '^/\.well-known/did\.json', hang => -1 });
my @hanging = map { "did:web:hanging$_.example.net" } 1 .. 300;
query('DELETE FROM atproto.identity_request');
# requested_at is a time of the fetcher's clock: after an hour, the fetcher forgets requests without held events
query('INSERT INTO atproto.identity_request (did, priority, web, requested_at) SELECT unnest($$' . '{' . join(',', @hanging) . "}\$\$::did[]), 1, true, now() + '$ahead s'::interval; SELECT atproto_internal.wake()");
$network->wait_for_log(4, host => qr/hanging/);
my $patient = 'did:web:patient.example.com';
$network->documents({ $patient => $good->($patient) });
query("INSERT INTO atproto.identity_request (did, priority, web, requested_at) VALUES ('$patient', 1, true, now() + '$ahead s'::interval); SELECT atproto_internal.wake()");
wait_for("SELECT state = 'good' FROM atproto.identity WHERE did = '$patient'", gone => 1);
# four at a time, each for ten seconds; without the limit 64 at once
cmp_ok(requests(host => qr/hanging/), '<=', 40, 'hosts that hang, below one name, leave room for others');
$network->unfault($_) foreach $pass, $hang;
query('DELETE FROM atproto.identity_request');

# --- a role with many requests does not delay events that wait ---

my @asked = map { plc() } 1 .. 450;
my $waiting = plc();
query('BEGIN; ' . join(';', map { "SELECT state FROM atproto.resolve('$_')" } @asked)
	. "; INSERT INTO atproto.identity_request (did, priority, web, requested_at) VALUES ('$waiting', 1, false, now() + '$ahead s'::interval); COMMIT");
settle();
my @order = map { $_->{path} } $network->log(kind => 'http', host => 'plc.example.com');
my %at = map { $order[$_] => $_ } 0 .. $#order;
my $first = (sort { $a <=> $b } map { $at{"/$_"} } @asked)[0];
cmp_ok($at{"/$waiting"} - $first, '<', 100, 'V-40: what events wait for is not behind all that a role asks for');

# --- owners take turns ---

my $since = () = $network->log;
my @owner = ([ map { plc() } 1 .. 300 ], [ map { plc() } 1 .. 20 ]);
query('BEGIN; ' . join(';', map { "INSERT INTO atproto.identity_request (did, owner, priority, web) SELECT unnest(\$\${" . join(',', @{ $owner[$_] }) . "}\$\$::did[]), $_ + 1, 2, false" } 0, 1) . '; SELECT atproto_internal.wake(); COMMIT');
settle();
@order = map { $_->{path} } $network->log(kind => 'http', host => 'plc.example.com', since => $since);
%at = map { $order[$_] => $_ } 0 .. $#order;
cmp_ok((sort { $b <=> $a } map { $at{"/$_"} } @{ $owner[1] })[0], '<', 150, 'the look-ups of an owner do not come after the many of another');

# --- the clock is set back while a session locks a request ---

my ($locked, $free) = map { plc() } 1, 2;
$network->documents({ $free => $good->($free) });
query("INSERT INTO atproto.identity_request (did, web, next_try) VALUES ('$locked', false, 'infinity')");
my $holder = $node->background_psql('postgres');
$holder->query_safe("BEGIN; SELECT FROM atproto.identity_request WHERE did = '$locked' FOR UPDATE");
later(-3600);
resolve($free);
wait_for("SELECT state = 'good' FROM atproto.identity WHERE did = '$free'", gone => 1);
pass('the fetcher does not wait for who has a request');
$holder->query_safe('COMMIT');
$holder->quit;
query('DELETE FROM atproto.identity_request');

# --- old ones go ---

my ($old, $requested, $young, $none, $forsaken) = map { plc() } 1 .. 5;
$network->documents({ map { $_ => $good->($_) } $old, $requested, $young });
resolve($old, $requested, $young);
wait_for("SELECT count(*) = 3 FROM atproto.identity WHERE did IN ('$old', '$requested', '$young')");
query("INSERT INTO atproto.identity_request (did, web, next_try, requested_at) VALUES ('$requested', false, 'infinity', now() + '$ahead s'::interval)");
query("UPDATE atproto.identity SET asked_at = asked_at - '31 days'::interval WHERE did IN ('$old', '$requested')");
# failing hosts, for a day; a request for events already gone
query("INSERT INTO atproto.identity (did, state, asked_at, next_try) VALUES ('$none', 'gone', now() + '@{[ $ahead - 25 * 3600 ]} s', now() + '7 days'::interval)");
query("INSERT INTO atproto.identity_request (did, web, next_try, priority) VALUES ('$forsaken', false, 'infinity', 1)");
# no clock is moved: if the two clocks disagree, the fetcher looks at postponed requests again
wait_for("SELECT NOT EXISTS (SELECT FROM atproto.identity WHERE did = '$old') FROM (SELECT atproto_internal.wake()) w");
wait_for("SELECT NOT EXISTS (SELECT FROM atproto.identity WHERE did = '$none') AND NOT EXISTS (SELECT FROM atproto.identity_request WHERE did = '$forsaken') FROM (SELECT atproto_internal.wake()) w");
is(query("SELECT count(*) FROM atproto.identity WHERE did IN ('$requested', '$young')"), '2', 'what nobody asked for in 30 days is forgotten, and nothing else');
query('DELETE FROM atproto.identity_request');

# --- a role with too many requests ---

my ($rc, $out, $err) = $node->psql('postgres', "SELECT atproto.resolve(('did:web:hanging' || i || '.example.net')::did) FROM generate_series(1, 501) i");
isnt($rc, 0, 'W-34: a role has a share of the queue');
like($err, qr/has asked for 500 identities that are still to be read/, 'which the error says');
is(query('SELECT count(*) FROM atproto.identity_request'), '0', 'nothing of it stays');

# --- await() ---

my $awaited = plc();
$network->documents({ $awaited => $good->($awaited) });
is(query("CALL atproto.await('$awaited', '180 s'); SELECT state FROM atproto.identity WHERE did = '$awaited'"), 'good', 'await() waits for the answer');
$network->fault({ host => 'error.example.net', status => 500 });
my $mistyped = plc();
($rc, $out, $err) = $node->psql('postgres', "CALL atproto.await('$mistyped', '180 s')");
like("$rc$err", qr/^0.*WARNING:  the account has no usable DID document\nDETAIL:  State "gone": \S+ HTTP status 404/s, 'a warning says that there is no such account');
($rc, $out, $err) = $node->psql('postgres', "CALL atproto.await('did:web:error.example.net', '0.1 s')");
like($err, qr/there is no answer yet about the account\n.*^HINT:  It is still asked for: see table "atproto\.identity_request"\./ms, 'or gives up');

# --- a request in a transaction without end ---

my $asked   = plc();
my $session = $node->background_psql('postgres');
$network->documents({ $asked => $good->($asked) });
$session->query_safe("BEGIN; SELECT state FROM atproto.resolve('$asked')");
query("INSERT INTO atproto.identity_request (did, priority, web, requested_at) VALUES ('$asked', 1, false, now() + '$ahead s'::interval); SELECT atproto_internal.wake()");
wait_for("SELECT state = 'good' FROM atproto.identity WHERE did = '$asked'", gone => 1);
pass('it holds up nobody who asks for the same');
$session->query_safe('COMMIT');
$session->quit;
wait_for("SELECT count(*) = 0 FROM atproto.identity_request WHERE did = '$asked'");
is(requests(path => "/$asked"), 1, 'W-34: and is granted what the others were told');

# --- #identity events of the stream ---

my $pds    = capture('pds.frames.gz');
my $server = AtprotoTest::Server->start($pds);
query('DELETE FROM atproto.identity_request; DELETE FROM atproto.identity');
# an owner without rights on the tables of identities
my ($grants) = slurp_file(test_dir() . '/../doc/operate/operations.md') =~ /^(CREATE ROLE consumer LOGIN;\n.*?)^```/ms or BAIL_OUT('doc/operate/operations.md does not name the grants');
query($grants);
query('SET SESSION AUTHORIZATION consumer; ' . subscribe_sql('s', $server, cursor => 0, target => "'network'"));
wait_for_seq($node, 's', $PDS_LAST);
is(query('SELECT count(*) FROM atproto.identity'), '0', 'W-31: #identity makes no row');
query(q{INSERT INTO atproto.identity (did, state, asked_at) SELECT did, 'wanted', now() FROM network.repo WHERE handle IS NOT NULL ORDER BY did LIMIT 10});
query(q{SELECT atproto.set_cursor('s', 0)});
wait_for(q{SELECT count(*) = 10 FROM atproto.identity WHERE stale});
is(query('SELECT count(*) FROM atproto.identity'), '10', 'W-31: it marks those that there are');
is(query('SELECT count(*) FROM atproto.identity_request'), '0', 'and asks nobody');

$node->stop;
$network->stop;
done_testing();
