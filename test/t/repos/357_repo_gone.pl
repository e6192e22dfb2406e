# 357_repo_gone.pl
#		While a repository is fetched, its target is dropped, its owner loses the rights, or the extension
#		is dropped.  No process crashes, the fetcher goes on with other jobs and shows the fault, and after
#		the repair the repository is fetched.  R-05, R-24, R-57.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Exports;
use PostgreSQL::Test::Utils;
use Test::More;

my ($network, $node, $files) = begin_exports('repo_gone', "atproto.fetch_retry = '1s'\n");
my ($me, $many) = map { did($_) } qw(a d);

$network->repos({ $HOST => { $me => { car => "$files/first.car" }, $many => { car => "$files/collections.car" } } });

sub make_target
{
	my ($s) = @_;
	query("CREATE SCHEMA $s; SELECT atproto.create_tables('$s')");
	return;
}

sub subscription
{
	my ($s) = @_;
	return "SELECT atproto.subscribe('$s', 'wss://$HOST', target => '$s', backfill => 'repair')";
}

sub follow
{
	my ($s) = @_;
	query(subscription($s));
	return;
}

sub fetcher
{
	return query("SELECT pid FROM pg_stat_activity WHERE backend_type = 'atproto fetcher'");
}

sub fails_and_others_come
{
	my ($s, $error) = @_;
	my $pid = fetcher();

	go_on();
	wait_for("SELECT EXISTS (SELECT FROM atproto.repo_problem WHERE target = '$s' AND did = '$many' AND error ~ '$error')");
	query("UPDATE other.repo SET synced_at = NULL; SELECT atproto.resync('$me', 'other')");
	wait_for("SELECT EXISTS (SELECT FROM other.repo WHERE did = '$me' AND synced_at IS NOT NULL AND sync = 'synchronized')");
	is(fetcher(), $pid, "$s: the fetcher goes on, for others, too");
	return;
}

sub comes
{
	my ($s, $name) = @_;

	wait_for("SELECT EXISTS (SELECT FROM $s.repo WHERE did = '$many' AND sync = 'synchronized' AND hold IS NULL) AND NOT EXISTS (SELECT FROM atproto.repo_job WHERE did = '$many' AND target = '$s')");
	is(query("SELECT equal, records FROM atproto.audit('$many', '$s')"), 't|3000', $name);
	return;
}

make_target('other');
follow('other');

# --- the target is dropped ---

make_target('away');
follow('away');
stop_at_fetch($many, 'away');
query('DROP SCHEMA away CASCADE');
fails_and_others_come('away', 'away');
make_target('away');
comes('away', 'R-24: tables that are there again are filled');

# --- the owner loses the rights ---

my ($grants) = slurp_file(test_dir() . '/../doc/operate/operations.md') =~ /^(CREATE ROLE consumer LOGIN;\n.*?)^```/ms or BAIL_OUT('doc/operate/operations.md does not name the grants');
query($grants);
query('SET SESSION AUTHORIZATION consumer; ' . subscription('network'));
stop_at_fetch($many, 'network');
query('ALTER TABLE network.record OWNER TO CURRENT_USER; REVOKE ALL ON network.record FROM consumer');
fails_and_others_come('network', 'may not fill schema "network"');
is(query('SELECT count(*) FROM network.record'), '0', 'R-57: not a row came with rights that he has no more');
query('ALTER TABLE network.record OWNER TO consumer');
comes('network', 'R-57: with rights it comes');

# --- the extension is dropped ---

my $began = query('SELECT pg_postmaster_start_time()');
stop_at_fetch($many, 'other');
query('DROP EXTENSION atproto CASCADE; DROP SCHEMA other, away, network CASCADE; DROP SCHEMA IF EXISTS atproto CASCADE');
go_on();
wait_for("SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE backend_type ~ '^atproto (fetcher|consumer)')");
query('CREATE EXTENSION atproto');
make_target('other');
follow('other');
query("SELECT atproto.resync('$many', 'other')");
comes('other', 'an extension that was dropped while it fetched, and made again, fetches');
is(query('SELECT pg_postmaster_start_time()'), $began, 'the server has not restarted');
unlike(slurp_file($node->logfile), qr/PANIC|TRAP|terminated by signal/, 'and nothing crashed');

$node->stop;
done_testing();
