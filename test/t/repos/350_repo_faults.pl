# 350_repo_faults.pl
#		The fetcher brings repositories while the server has no room for temporary files, the tables are
#		locked, or triggers are slow.  None of this ends the fetcher, and a fetched export is not fetched
#		again.  R-46, R-54, R-58.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Exports;
use PostgreSQL::Test::Utils;
use Test::More;

my ($network, $node, $files) = begin_exports('repo_faults', "atproto.fetch_retry = '1s'\ntemp_file_limit = '1MB'\n");
my ($me, $big, $many) = map { did($_) } qw(a c d);

$network->repos({ $HOST => { $me => { car => "$files/first.car" }, $big => { car => "$files/big.car" }, $many => { car => "$files/collections.car" } } });
query("SELECT atproto.subscribe('faults', 'wss://$HOST', backfill => 'repair')");

sub wait_for_repo
{
	my ($did) = @_;
	wait_for("SELECT EXISTS (SELECT FROM atproto.repo WHERE did = '$did' AND sync = 'synchronized' AND hold IS NULL)");
	return;
}

sub requests
{
	my ($did) = @_;
	return scalar grep { $_->{path} =~ /getRepo\?.*\Q@{[ $did =~ s{:}{%3A}gr ]}\E/ } $network->log(host => $HOST);
}

# --- no room for temporary files ---

query("SELECT atproto.resync('$big')");
wait_for("SELECT EXISTS (SELECT FROM atproto.repo_job WHERE did = '$big' AND error ~ 'temporary file size exceeds' AND tries > 0)");
my $fetcher = query("SELECT pid FROM pg_stat_activity WHERE backend_type = 'atproto fetcher'");
wait_for("SELECT EXISTS (SELECT FROM atproto.repo_job WHERE did = '$big' AND tries > 2)");
query("SELECT atproto.resync('$me')");
wait_for_repo($me);
is(query("SELECT pid FROM pg_stat_activity WHERE backend_type = 'atproto fetcher'"), $fetcher, 'R-46: no room for a temporary file is a fault of one job, not of the fetcher');
query('ALTER SYSTEM SET temp_file_limit = -1; SELECT pg_reload_conf()');
query("SELECT atproto.resync('$big')");
wait_for_repo($big);
is(query("SELECT equal, records FROM atproto.audit('$big')"), 't|20000', 'R-46: it is fetched as soon as there is room');
is(query("SELECT count(*) FROM pg_ls_tmpdir()"), '0', 'R-46: no temporary file stays');

# --- a lock ---

my $session = $node->background_psql('postgres');
$session->query_safe('BEGIN; LOCK TABLE atproto.record IN EXCLUSIVE MODE');
query("SELECT atproto.resync('$many')");
wait_for("SELECT EXISTS (SELECT FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE a.backend_type = 'atproto fetcher' AND NOT l.granted)");
my $requests = requests($many);
wait_for("SELECT NOT EXISTS (SELECT FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE a.backend_type = 'atproto fetcher' AND NOT l.granted)");
is(query("SELECT state FROM atproto.repo_job WHERE did = '$many'"), 'running', 'R-58: a chunk that waits for a lock is given up, and the repository is not');
$session->query_safe('COMMIT');
wait_for_repo($many);
is(query("SELECT equal, records FROM atproto.audit('$many')"), 't|3000', 'R-58: it is there as soon as the lock is not');
is(requests($many), $requests, 'R-58: nothing was fetched twice');

# --- slow triggers ---

query(<<'EOS');
CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
	IF (SELECT count(*) > 1000 FROM gone) THEN PERFORM pg_sleep(3600); END IF; RETURN NULL; END $$;
CREATE TRIGGER slow AFTER DELETE ON atproto.record REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION slow();
EOS
$network->repos({ $HOST => { $many => { car => "$files/no_collections.car" } } });
query("SELECT atproto.resync('$many')");
wait_for("SELECT EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'atproto fetcher' AND wait_event = 'PgSleep')");
$requests = requests($many);
wait_for("SELECT NOT EXISTS (SELECT FROM atproto.repo_job WHERE did = '$many')");
is(query("SELECT equal, records FROM atproto.audit('$many')"), 't|0', 'R-54: where triggers take their time, less is written at once');
is(requests($many), $requests, 'R-54: nothing was fetched twice');

$session->quit;
$node->stop;
done_testing();
