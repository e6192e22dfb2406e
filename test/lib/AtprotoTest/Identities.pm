# AtprotoTest/Identities.pm
#		Common parts of the tests of identities: a server, its network and its clocks, new
#		DIDs, good documents.
#
#		my $node = begin_identities('name', "atproto.queue_limit = 500\n");
#		my $did = plc();
#		$network->documents({ $did => $good->($did) });
#		resolve($did);
#		wait_for("SELECT state = 'good' FROM atproto.identity WHERE did = '$did'", gone => 1);
#		later(61);

package AtprotoTest::Identities;

use strict;
use warnings FATAL => 'all';

use Exporter qw(import);

use AtprotoTest;
use AtprotoTest::Clock;
use AtprotoTest::Network;
use AtprotoTest::Preload;

our @EXPORT = qw($K256 $P256 $network $preload $clock $ahead $good begin_identities plc later sooner_or_later requests row settle resolve refresh);

our $K256 = 'zQ3shokFTS3brHcDQrn82RUDfCZESWL1ZdCEJwekUDPQiYBme';
our $P256 = 'zDnaerDaTF5BXEavCrfRZEk316dpbLsfPDZ3WJ5hRTPFU2169';
our ($network, $preload, $clock);
our $ahead = 0;    # seconds that have passed
my $count = 0;

our $good = sub { my ($did, %o) = @_; return $network->document($did, key => $K256, pds => 'pds.example.com', handle => 'Some.Example.COM', %o) };

# The cluster; more of postgresql.conf.
sub begin_identities
{
	my ($name, $conf) = @_;

	$network = AtprotoTest::Network->start;
	$preload = AtprotoTest::Preload->make(network => $network);
	# each jump of the clock ends the connections to the stream: their number is not to make the delay grow
	my $node = make_node($name, start => $preload,
		conf => $network->settings . "autovacuum = off\natproto.reconnect_max_delay = 200ms\n" . ($conf // ''));
	$clock = AtprotoTest::Clock->new($node);
	return $node;
}

# A did:plc that was not used before.
sub plc
{
	my @digits = ('a' .. 'z');
	my $n = ++$count;
	return 'did:plc:' . 'q' x 21 . join '', map { $digits[ int($n / $_) % 26 ] } 676, 26, 1;
}

# So much later, for whoever judges times that are in tables, and for whoever waits.
sub later
{
	my ($seconds) = @_;
	$ahead += $seconds;
	$clock->both($ahead, 400);    # what a host may have to rest
	return;
}

# Minutes pass until a query gives true, one at a time, or step => seconds.
sub sooner_or_later
{
	my ($sql, %o) = @_;
	my $step  = delete $o{step} // 61;
	my $since = time;

	AtprotoTest::wait_until(
		sub {
			return 1 if query($sql, %o) eq 't';
			if (time > $since)
			{
				later($step);
				$since = time;
			}
			return 0;
		},
		$sql);
	return;
}

sub requests
{
	my (%want) = @_;
	return scalar(() = $network->log(kind => 'http', %want));
}

sub row
{
	my ($did) = @_;
	return query("SELECT concat_ws(' ', state, pds, handle_claimed) FROM atproto.identity WHERE did = '$did'");
}

# Until nothing is requested any more but what has to wait; who was put off since others of his domain are asked has not.
sub settle
{
	wait_for("SELECT NOT EXISTS (SELECT FROM atproto.identity_request"
		  . " WHERE next_try <= now() + '$ahead s'::interval + CASE WHEN failed THEN '0' ELSE '5 s' END::interval)");
	return;
}

sub resolve
{
	query(join ';', map { "SELECT state FROM atproto.resolve('$_')" } @_);
	return;
}

# As a consumer does it, whose event does not fit what is known.
sub refresh
{
	my ($did) = @_;
	query("SELECT atproto.identity_refresh('$did')");
	return;
}

1;
