# 353_repo_hosts.pl
#		A backfill from many hosts, some of which are slow, answer 429 in HTML, refuse connections, hang, or
#		send garbage.  The repositories of the good hosts come without delay, the fetcher keeps its limits
#		of requests for every host, and sends the bad hosts a bounded number of requests.  R-03, R-11, R-20
#		to R-24.
#
#		ATPROTO_HOSTS=60 ATPROTO_REPOS=2000 is a large run; ATPROTO_FAULTS=0 makes a run without
#		faults, to compare the noted times.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Backfill;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

my $hosts     = $ENV{ATPROTO_HOSTS} || 24;
my $repos     = $ENV{ATPROTO_REPOS} || 216;
my $simulated = AtprotoTest::Backfill->begin(half => 2 * $repos, accounts => $repos, hosts => $hosts);
my $network   = $simulated->network;
my $node      = make_node('repo_hosts', start => $simulated->preload, conf => $simulated->settings . "atproto.fetch_host_rate = 10\natproto.fetch_retry = '1h'\n");
my $server    = AtprotoTest::Server->start($simulated->capture, '--hold-at', 1);
my %repos_at;

push @{ $repos_at{ $simulated->pds($_) } }, $_ foreach grep { $simulated->export($_, 1) } $simulated->dids;
my @names = sort keys %repos_at;
is(scalar @names, $hosts, 'there are hosts');

# Out of each 24 hosts.
my $n = int $hosts / 12;
my %bad;
my %fault = (
	slow    => { delay => 0.3 },
	limit   => { status => 429, headers => { 'Content-Type' => 'text/html' }, body => '<html><body>Too many requests</body></html>' },
	refuse  => { reset => 0 },
	hang    => { hang => -1 },
	garbage => { status => 200, body => 'x' x 2000 });
foreach my $kind (sort keys %fault)
{
	my @of = splice @names, 0, $kind eq 'slow' ? 2 * $n : $n;

	last if ($ENV{ATPROTO_FAULTS} // 1) eq '0';
	$network->fault({ host => $_, path => 'getRepo\\b', %{ $fault{$kind} } }) foreach @of;
	$bad{$_} = $kind foreach @of;
}
my @well = grep { ($bad{$_} // 'slow') eq 'slow' } sort keys %repos_at;

# --- the others come ---

$simulated->serve(1, $server);
my $begin = time;
query($simulated->subscribe_sql('hosts', cursor => 0, verify => "'full'", backfill => "'network'"));
my $wanted = join ', ', map { "'$_'" } map { @{ $repos_at{$_} } } @well;
wait_for("SELECT count(*) > 0 AND bool_and(finished_at IS NOT NULL) AND NOT EXISTS (SELECT FROM atproto.repo_job WHERE did IN ($wanted)) FROM atproto.enumeration");
note(sprintf '%d repositories of %d hosts, %d of which are bad, in %.1f s', scalar(map { @$_ } values %repos_at), $hosts, scalar keys %bad, time - $begin);
is(query("SELECT count(*) FROM atproto.repo WHERE did IN ($wanted) AND sync = 'synchronized'"), scalar(map { @{ $repos_at{$_} } } @well), 'R-03: repositories of other hosts wait for none');

# --- within the limits ---

my (%at, %most);
foreach my $request ($network->log(kind => 'http', path => qr/getRepo\b/))
{
	push @{ $at{ $request->{host} } }, $request->{time};
	$most{ $request->{host} } = $request->{parallel} if $request->{parallel} > ($most{ $request->{host} } // 0);
}
is(join(' ', grep { $most{$_} > 4 } sort keys %most), '', 'R-20: no more than four at a time');
is(scalar(grep { $_->{path} =~ /since=/ || ($_->{headers}{'accept-encoding'} // '') !~ /gzip/ } $network->log(kind => 'http', path => qr/getRepo\b/)),
	0, 'R-11: all of a repository, compressed');
my @fast;
foreach my $host (sort keys %at)
{
	my @times = sort { $a <=> $b } @{ $at{$host} };

	# a burst of ten, and ten a second
	push @fast, $host if grep { $times[ $_ + 20 ] - $times[$_] < 1 } 0 .. $#times - 20;
}
is("@fast", '', 'R-20: nor more often');
my $parked = join ', ', map { "'$_'" } grep { $bad{$_} =~ /limit|refuse/ } sort keys %bad;
wait_for("SELECT NOT EXISTS (SELECT FROM unnest(ARRAY[$parked]::text[]) h WHERE NOT EXISTS (SELECT FROM atproto.stat_host WHERE host = h AND backoff_until IS NOT NULL))");
foreach my $kind (sort grep { $_ ne 'slow' } keys %fault)
{
	my @of = grep { $bad{$_} eq $kind } keys %bad or next;
	# five failures park a host, the first 429 does
	my %may = (limit => 1, refuse => 5, hang => 5);

	is(join(' ', grep { scalar @{ $at{$_} // [] } > ($may{$kind} // @{ $repos_at{$_} }) } sort @of), '', "R-21, R-23: what $kind were asked for is bounded");
	is(query(qq{SELECT count(*) FROM atproto.repo_job WHERE did IN (@{[ join ', ', map { "'$_'" } map { @{ $repos_at{$_} } } @of ]})}),
		scalar(map { @{ $repos_at{$_} } } @of), "and stays to be fetched: $kind");
}

# --- and all do in the end ---

$network->unfault(undef);
$simulated->serve(2, $server);
$server->release;
wait_for_seq($node, 'hosts', $simulated->last);
query('SELECT atproto.reset_backoff(host) FROM atproto.stat_host WHERE backoff_until IS NOT NULL');
$simulated->finish('hosts');
is($simulated->difference, '', 'R-24: in the end all repositories are there');

$node->stop;
done_testing();
