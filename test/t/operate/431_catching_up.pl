# 431_catching_up.pl
#		stat_subscription.rate shows how fast a consumer follows a stream, and caught_up_at when it will
#		have caught up, with one process and with several.  subscription_log records the moment at which the
#		consumer has caught up.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use POSIX qw(strftime);
use PostgreSQL::Test::Utils;
use Test::More;

my $node = make_node('catching_up', conf => 'max_worker_processes = 20');

# The capture, with new times of its events: $when returns the time of the nth event.
sub at_other_times
{
	my ($when) = @_;
	my @messages = read_capture(capture('pds.frames.gz'));
	my $n        = 0;

	foreach my $message (@messages)
	{
		my $time = $when->($n++);
		$message =~ s{(dtimex(.))(\d{4}-\d\d-\d\dT[0-9:.]+Z)}
			{my ($head, $len) = ($1, ord $2); my $seconds = strftime('%Y-%m-%dT%H:%M:%S.', gmtime $time);
			 $head . $seconds . '0' x ($len - length($seconds) - 1) . 'Z'}se
		  or die "message $n has no time";
	}
	return write_capture(PostgreSQL::Test::Utils::tempdir('times') . '/frames', @messages);
}

my $now  = time;
my $old  = at_other_times(sub { $now - 7200 + $_[0] });
my $both = at_other_times(sub { $_[0] < 1500 ? $now - 7200 + $_[0] : $now + 200 });

foreach my $workers (1, 3)
{
	my $what = "$workers of them";

	# 100 seconds of the stream in each second
	my $server = AtprotoTest::Server->start($old, '--rate', 100);
	query(subscribe_sql('s', $server, cursor => 0, workers => $workers));
	wait_for(q{SELECT caught_up_at > now() AND rate > 0 FROM atproto.stat_subscription});
	pass("$what: how many events a second come, and when it will have caught up");
	is(query(q{SELECT caught_up_at < now() + interval '1 day' FROM atproto.stat_subscription}), 't', "$what: a time that can be waited for");
	query(q{SELECT atproto.pause('s')});
	wait_for(q{SELECT pid IS NULL FROM atproto.stat_subscription});
	is(query('SELECT rate, caught_up_at FROM atproto.stat_subscription'), '|', "$what: who is paused has neither");

	# A stream whose last events carry the present time, or a little later: the test may be slow.
	start_over();
	$server = AtprotoTest::Server->start($both, '--hold-at', 1501);
	query(subscribe_sql('s', $server, cursor => 0, workers => $workers));
	wait_for_seq($node, 's', 1500);
	is(query(q{SELECT count(*) FROM atproto.subscription_log WHERE event = 'caught up'}), '0', "$what: it has not caught up");
	$server->release;
	wait_for_seq($node, 's', $PDS_LAST);
	wait_for(q{SELECT count(*) = 1 FROM atproto.subscription_log WHERE event = 'caught up'});
	wait_for(q{SELECT rate IS NOT NULL FROM atproto.stat_subscription});
	is(query('SELECT rate >= 0, caught_up_at FROM atproto.stat_subscription'), 't|', "$what: who has caught up has a rate, and no end to wait for");
	start_over();
}

$node->stop;
done_testing();
