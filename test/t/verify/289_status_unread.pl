# 289_status_unread.pl
#		At level full, a deletion comes soon after the fetcher read the account's document.  The server that
#		this document names proves nothing about the deletion, as the account may have moved.  The fetcher
#		reads the document again, once a minute at most, asks the server of the new document, and its first
#		answer counts.  V-47, W-31.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Clock;
use AtprotoTest::Keys;
use AtprotoTest::Network;
use AtprotoTest::Preload;
use PostgreSQL::Test::Utils;
use Test::More;

my $network = AtprotoTest::Network->start;
my $preload = AtprotoTest::Preload->make(network => $network);
my $node    = make_node('status_unread', start => $preload, conf => $network->settings . <<'EOF2');
max_worker_processes = 16
atproto.reconnect_delay = 50ms
EOF2
my $clock = AtprotoTest::Clock->new($node);
my $ahead = 0;
my %who   = map { my ($name, $did, $key) = split /\t/; $name => { did => $did, key => $key, pds => "$name.example.com" } }
  split /\n/, slurp_file(make_capture('full.py', 'statuses', '--keys'));
my $all    = keys %who;
my $server = AtprotoTest::Server->start(make_capture('full.py', 'statuses'), '--hold-at', 2 * $all + 1);

# How often the account's server got a request for the status.
sub asked
{
	my ($name) = @_;
	return scalar(() = $network->log(kind => 'http', host => $who{$name}{pds}, path => qr/getRepoStatus\?did=/));
}

sub later
{
	my ($seconds) = @_;
	$ahead += $seconds;
	$clock->time_of_day($ahead);
	$clock->advance(400);
	return;
}

foreach my $name (sort keys %who)
{
	query("INSERT INTO atproto.identity (did, state, key, pds, resolved_at, asked_at)"
		. " VALUES ('$who{$name}{did}', 'good', '\\x$who{$name}{key}', '$who{$name}{pds}', now(), now() - interval '1 h')");
}
query(subscribe_sql('s', $server, cursor => 0, verify => "'full'"));
wait_for_seq($node, 's', 2 * $all);
is(query('SELECT count(*) FROM atproto.repo WHERE NOT active AND verified'), $all, 'none is active any more');
# --- a deletion soon after the account's document was read ---

# The server that the document named before the deletion proves nothing, and is not asked again for ten minutes.
my $deleted = $who{active};
my $before  = asked('active');
$network->repos({ $deleted->{pds} => { $deleted->{did} => undef } });
$network->documents({ $deleted->{did} => $network->document($deleted->{did}, pds => $deleted->{pds}, key => AtprotoTest::Keys::text_of(pack 'H*', $deleted->{key})) });
query("UPDATE atproto.identity SET (asked_at, resolved_at) = (now() + '$ahead s', now() + '$ahead s') WHERE did = '$deleted->{did}';
	UPDATE atproto.repo SET active = false, status = 'deleted', status_seq = NULL WHERE did = '$deleted->{did}';
	INSERT INTO atproto.status_request (target, did, subscription, why, status_at, requested_at)
	SELECT 'atproto', did, 's', 'deleted', status_at, now() + '$ahead s 1 ms' FROM atproto.repo WHERE did = '$deleted->{did}'");
later(5);
wait_for("SELECT next_try > now() + '$ahead s' FROM atproto.status_request WHERE did = '$deleted->{did}'");
is(asked('active'), $before, 'V-47: as long as the document cannot be read again, nobody is asked');
later(60);
wait_for("SELECT purge_rev IS NOT NULL FROM atproto.repo WHERE did = '$deleted->{did}'");
is(asked('active'), $before + 1, 'V-47: then the server that it names is asked, and the first answer counts');

$node->stop;
done_testing();
