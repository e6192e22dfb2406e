# 348_repo_clock.pl
#		The system clock is set back.  What the fetcher noted with the former clock lies in the future: jobs,
#		look-ups and lists would rest until the clock has come there again.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Clock;
use AtprotoTest::Exports;
use PostgreSQL::Test::Utils;
use Test::More;

my ($network, $node, $files) = begin_exports('set_back', '');
my $clock = AtprotoTest::Clock->new($node);
my ($me, $never) = map { did($_) } 'a', 'd';

$network->repos({ $HOST => { $me => { car => "$files/first.car" } } });
query("SELECT atproto.subscribe('s', 'wss://$HOST', backfill => 'repair')");
# a job that is never due keeps the fetcher running
query("INSERT INTO atproto.repo_job (target, did, subscription, priority, reason, next_try, queued_at)
	VALUES ('atproto', '$never', 's', 1, 'break', 'infinity', now() + interval '1 year')");
expect_check('job that cannot be', qr/put off for ever$/);

# The account's job, noted by a clock that was a year ahead.
sub note_in_future
{
	query("INSERT INTO atproto.repo_job (target, did, subscription, priority, reason, tries, error, next_try, queued_at)
		VALUES ('atproto', '$me', 's', 1, 'break', 1, 'an error', now() + interval '1 year', now() + interval '1 year')");
	query("INSERT INTO atproto.repo_fetched (target, did, at) VALUES ('atproto', '$me', ARRAY(SELECT now() + interval '1 year' - n * interval '1 h' FROM generate_series(1, 4) n))
		ON CONFLICT (target, did) DO UPDATE SET at = excluded.at");
	return;
}

sub is_fetched
{
	my ($name) = @_;

	wait_for("SELECT NOT EXISTS (SELECT FROM atproto.repo_job WHERE did = '$me')");
	is(query("SELECT max(a) <= now(), cardinality(at) FROM atproto.repo_fetched, unnest(at) a WHERE did = '$me' GROUP BY at"), 't|5', "$name: the repository is fetched, and no fetch counts in the future");
	is(query("SELECT next_try FROM atproto.repo_job WHERE did = '$never'"), 'infinity', "$name: a job without a time stays so");
	return;
}

# --- while the fetcher runs ---

wait_for(q{SELECT EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'atproto fetcher')});
$clock->time_of_day(3600);
# the fetcher has seen the time when it has fetched something
query("SELECT atproto.resync('$me')");
wait_for("SELECT NOT EXISTS (SELECT FROM atproto.repo_job WHERE did = '$me')");
note_in_future();
$clock->time_of_day(0);
is_fetched('set back while the fetcher runs');

# --- before the fetcher begins ---

note_in_future();
# a host that the fetcher does not ask, and so does not write
query("INSERT INTO atproto.host (host, updated_at) VALUES ('other.example.com', now() + interval '1 year')");
query(q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'atproto fetcher'});
is_fetched('set back before the fetcher begins');
wait_for('SELECT max(updated_at) <= now() FROM atproto.host');
pass('set back before the fetcher begins: nothing is noted in the future any more');

$node->stop;
done_testing();
