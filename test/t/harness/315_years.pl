# 315_years.pl
#		A server that lives for years.  Time runs fast: in each season the server's time of day goes forward by a
#		month, and a new network of test/simulator sends its events of that month.  Accounts come and go, keys rotate,
#		half of the accounts of the season before the last are deleted, months are made and dropped, connections break.
#		In the second third of the seasons processes and the server are killed, and the number of workers changes; in the last third they grow old.
#		After each season the tables must hold what the simulator says of the season's accounts, and months are made and
#		dropped; in the long form this happens while the next season runs.  In the end
#		atproto.check(deep) must find nothing, and the server's log no line that is not known.  E-41, E-43.
#
#		ATPROTO_SEASONS=100 ATPROTO_EVENTS=1000000 is the long form (test/years), which also compares the processor time
#		of an event, memory and the sizes of all tables with those of the beginning: test/years/README.md.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Kills;
use AtprotoTest::Preload;
use AtprotoTest::Years;
use POSIX qw(strftime);
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $seasons = $ENV{ATPROTO_SEASONS} || 5;
my $events  = $ENV{ATPROTO_EVENTS} || 3000;
my $long    = defined $ENV{ATPROTO_SEASONS};
my $workers = $ENV{ATPROTO_WORKERS} || 1;
my $files   = $ENV{ATPROTO_FILES} || PostgreSQL::Test::Utils::tempdir('years');
my $seed    = seed();
my $month   = 31 * 86400;
my $begin   = time;
my $preload = AtprotoTest::Preload->make;
my $buffers = $long ? '4GB' : '512MB';
my $naptime = $long ? '10s' : '1s';
my $node    = make_node('years', start => $preload, conf => <<"EOS");
shared_buffers = $buffers
atproto.audits = on
atproto.reconnect_delay = 50ms
atproto.reconnect_max_delay = 200ms
log_checkpoints = off
log_statement = none
max_wal_size = 4GB
# a month is less than a minute
autovacuum_naptime = $naptime
checkpoint_warning = 0
EOS

# A season's capture, and what the simulator says of the season: made while the season before runs.
sub season_files
{
	my ($k) = @_;
	return "$files/season$k";
}

sub begin_simulator
{
	my ($k) = @_;
	my $dir = season_files($k);
	my $accounts = int($events / 50) + 20;
	my @leave;

	mkdir $dir or BAIL_OUT("cannot make $dir: $!");
	if ($k > 2)
	{
		my @dids = map { /^(\S+)/ } split /\n/, slurp_file(season_files($k - 2) . '/account');
		open my $f, '>', "$dir/leave" or die $!;
		print $f "$dids[$_]\n" foreach grep { $_ % 2 } 0 .. $#dids;
		close $f;
		@leave = ('--leave' => "$dir/leave");
	}
	my @command = (test_dir() . '/simulator/simulate',
		'--events' => $events, '--accounts' => $accounts, '--seed' => 1000 * $seed + $k, '--history' => 0, '--no-sign', '--batches' => 2,
		'--mix' => 'delete=4,update=1,account=1,identity=0.5,sync=0.1', '--epoch' => int($events / 10), '--rotations' => int($accounts / 20),
		'--start' => strftime('%Y-%m-%dT%H:%M:%SZ', gmtime($begin + ($k - 1) * $month)), '--span' => '30d',
		'--after' => ($k - 1) * $events, @leave, '--expect' => $dir, '--output' => "$dir/frames");
	return IPC::Run::start(\@command);
}

-x test_dir() . '/simulator/simulate' or system('make', '-s', '-C', test_dir() . '/simulator') == 0 or BAIL_OUT('cannot build the simulator');
my $simulator = begin_simulator(1);
my $years = AtprotoTest::Years->new($node, $files);
my $kills = AtprotoTest::Kills->new($node, $preload);
my $server;

query(q{SELECT atproto.partition('atproto', 'month')});

# What is due after a season: the next season does not touch its accounts.
sub after_season
{
	my ($k) = @_;
	my $dir = season_files($k);

	$years->season_matches($k, $dir);
	query(q{CALL atproto.maintain_partitions('atproto', ahead => 3, keep => '4 months', keep_events => '1 month')}) if $k % 2 || $long;
	unlink "$dir/frames";
	return;
}

foreach my $k (1 .. $seasons)
{
	my $dir = season_files($k);
	my $disturbed = $k > $seasons / 3 && $k <= 2 * $seasons / 3;
	my @kinds = @{ $kills->{kinds} };

	$simulator->finish or BAIL_OUT("the simulator failed in season $k");
	$simulator = begin_simulator($k + 1) if $k < $seasons;
	# no event of the season is of the future
	$preload->step($month);
	if (!$server)
	{
		$server = AtprotoTest::Server->start("$dir/frames", '--cut-after', int($events / 3));
		query(subscribe_sql('years', $server, cursor => 0, links => "'all'"));
		query(q{SELECT atproto.count_links('{app.bsky.feed.like:subject.uri}')});
	}
	else
	{
		$server->{capture} = "$dir/frames";
		$server->restart('--cut-after', int($events / 3));
	}
	query("UPDATE atproto.subscription SET workers = " . ($disturbed ? 1 + $k % 3 : $workers));
	# the server's statistics go with a crash, and with these the work of autovacuum
	@kinds = grep { $_->[0] !~ /server|restart/ } @kinds if $long && $k % 5;
	$years->begin_season($k);
	after_season($k - 1) if $long && $k > 1;
	for (my $left = $disturbed ? 2 : 0;;)
	{
		my $seq = $years->ask("SELECT seq FROM atproto.stat_subscription WHERE name = 'years'") // 0;
		last if $seq >= $k * $events;
		$years->sample;
		if ($left > 0 && $seq > ($k - $left / 3) * $events)
		{
			my $kind = $kinds[ rand @kinds ];
			note("season $k, event $seq: $kind->[0]");
			$kind->[1]->();
			$left--;
		}
		usleep($long ? 200_000 : 20_000);
		BAIL_OUT("season $k does not end") if $years->season_lasts > 1800;
	}
	$years->end_season($events);
	after_season($k) if !$long || $k == $seasons;
}
$server->stop;
$years->nothing_waits;
$years->figures_hold($seasons) if $long;
$years->log_is_known;
$years->write_figures("$PostgreSQL::Test::Utils::log_path/years.tsv");
is(query(q{SELECT string_agg(c::text, E'\n') FROM atproto.check(deep => true) c}), '', 'atproto.check(deep) finds nothing');
$node->stop;
done_testing();
