# 354_repo_changes.pl
#		At level full, an account changes while its repository is fetched: key, server, or active state.  A
#		former server of the account is not believed: neither its statement of a deletion, nor its export
#		older than the tables.  A deletion announced by getRepo counts as if by getRepoStatus: V-47.  R-07,
#		R-12, R-13, R-50, W-36.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Clock;
use AtprotoTest::Simulated;
use JSON::PP;
use PostgreSQL::Test::Utils;
use Test::More;

my ($network, $node) = begin_simulated('changes', '', '--events' => 250, '--accounts' => 18, '--epoch' => 125, options => ", events => 'keep'");
my $clock = AtprotoTest::Clock->new($node);
my ($ahead, $dids) = (0, 0);

my @dids = grep { -e car($_, 1) && slurp_file(car($_, 1)) ne slurp_file(car($_, 2)) } simulated_dids();
cmp_ok(scalar @dids, '>=', 13, 'there are accounts') or BAIL_OUT('too few');

sub serve
{
	my ($at, $did, $epoch) = @_;
	$network->repos({ $at => { $did => ref $epoch ? $epoch : $epoch ? { car => car($did, $epoch), active => JSON::PP::true } : undef } });
	return;
}

sub wait_for_repo
{
	my ($did, $what) = @_;
	wait_for("SELECT EXISTS (SELECT FROM f.repo WHERE did = '$did' AND $what) AND NOT EXISTS (SELECT FROM atproto.repo_job WHERE did = '$did')");
	return;
}

sub rows_of { return query("SELECT md5(string_agg(concat_ws(' ', collection, rkey, ctid, xmin), E'\\n' ORDER BY collection, rkey)), count(*) > 0 FROM f.record WHERE did = '$_[0]'") }

sub state_of { return query("SELECT active, status, sync, hold IS NULL FROM f.repo WHERE did = '$_[0]'") }

sub job_of { return query("SELECT state FROM atproto.repo_job WHERE did = '$_[0]'") }

# The account's old records are in the tables, from a separate server; its repository is requested again, and
# something happens before the server answers.
sub try_change
{
	my ($name, %case) = @_;
	my $did = shift @dids;
	my ($old, $new) = ("old$dids.example.com", "new$dids.example.com");

	$dids++;
	document($did, pds => $old);
	look_up($did);
	serve($old, $did, $case{first} // 1);
	query("SELECT atproto.resync('$did', 'f')");
	wait_for_repo($did, "sync = 'synchronized' AND verified");
	my $rows = rows_of($did);
	serve($old, $did, 2);
	$case{before}->($did, $old, $new) if $case{before};
	$network->fault({ host => $old, path => 'getRepo\\b', hold => $old, times => 1, %{ $case{answer} // {} } });
	query("SELECT atproto.resync('$did', 'f')");
	$network->wait_for_log(2, host => $old, path => qr/getRepo\?/);
	$case{meanwhile}->($did, $old, $new);
	$network->release($old);
	if ($case{taken})
	{
		wait_for_repo($did, "sync = 'synchronized' AND verified AND hold IS NULL");
		isnt(rows_of($did), $rows, "$name: what is newer comes");
		is(query("SELECT equal FROM atproto.audit('$did', 'f')"), 't', "$name: all of it");
	}
	elsif ($case{suspended})
	{
		wait_for("SELECT state = 'suspended' FROM atproto.repo_job WHERE did = '$did'");
		wait_for("SELECT hold IS NULL FROM f.repo WHERE did = '$did'");
		is(rows_of($did), $rows, "$name: not a row is touched");
	}
	else
	{
		wait_for_failure($did);
		is(rows_of($did), $rows, "$name: not a row is touched");
		like(query("SELECT error FROM atproto.repo_job WHERE did = '$did'"), $case{error}, "$name: the job says why");
	}
	is(join(' ', asked($old, $did), asked($new, $did)), $case{asked}, "$name: who was asked, and how often");
	$case{after}->($did, $old, $new) if $case{after};
	return;
}

# --- its key ---

my $other = key_of($dids[-1]);

try_change('W-36: another key, which is known by the time the export has come',
	before    => sub { my ($did, $old) = @_; document($did, pds => $old, key => $other); look_up($did) },
	meanwhile => sub { my ($did, $old) = @_; document($did, pds => $old); look_up($did) },
	taken     => 1,
	asked     => '2 0');
try_change('W-36: another key, while an export comes that the former one has signed',
	meanwhile => sub { my ($did, $old) = @_; document($did, pds => $old, key => $other); look_up($did) },
	error     => qr/not signed by the account's key/,
	asked     => '2 0',
	after     => sub {
		my ($did, $old) = @_;
		document($did, pds => $old);
		query("UPDATE atproto.identity SET asked_at = now() - interval '30 min' WHERE did = '$did'; SELECT atproto.resync('$did', 'f')");
		wait_for_repo($did, "sync = 'synchronized' AND verified");
		is(asked($old, $did), 4, 'R-24: when it fits again, it is taken: after one that did not, its document was read');
	});

# --- its server ---

try_change('R-13: it goes to another server, and the former one has none',
	answer    => { status => 400, body => '{"error":"RepoNotFound","message":"x"}' },
	meanwhile => sub { my ($did, undef, $new) = @_; document($did, pds => $new); serve($new, $did, 2) },
	taken     => 1,
	asked     => '2 1');
try_change('R-50, W-36: it goes to another server, and the former one still gives what it had',
	first     => 2,
	before    => sub { my ($did, $old) = @_; serve($old, $did, 1); query("DELETE FROM f.record WHERE did = '$did' AND rkey = (SELECT min(rkey) FROM f.record WHERE did = '$did')") },
	meanwhile => sub { my ($did, undef, $new) = @_; document($did, pds => $new); serve($new, $did, 2) },
	taken     => 1,
	asked     => '2 1');
try_change('R-50: an export that is older than the tables, from the server that it has',
	first     => 2,
	before    => sub { my ($did, $old) = @_; serve($old, $did, 1) },
	meanwhile => sub { },
	error     => qr/older than the repository/,
	asked     => '2 0',
	after     => sub { is(query("SELECT asked_at > now() - interval '20 min' FROM atproto.identity WHERE did = '$_[0]'"), 't', 'W-36: its document was read again, once') });

# --- the account's activity changes ---

try_change('R-07: it is not active any more, by the stream, when its export has come',
	meanwhile => sub { query("UPDATE f.repo SET active = false, status = 'deactivated', status_at = now(), status_seq = 7 WHERE did = '$_[0]'") },
	suspended => 1,
	asked     => '2 0',
	after     => sub { is(state_of($_[0]), 'f|deactivated|desynchronized|t', 'R-07: and stays so') });
try_change('R-13: it is not active any more, by its server',
	answer    => { status => 400, body => '{"error":"RepoDeactivated","message":"x"}' },
	meanwhile => sub { },
	suspended => 1,
	asked     => '2 0',
	after     => sub { is(state_of($_[0]), 'f|deactivated|desynchronized|t', 'R-13: and stays so') });

# --- the account is deleted ---

my %deleted = (status => 400, body => '{"error":"RepoDeleted","message":"x"}');

try_change('V-47: its server says that it is deleted, and is asked once more when its document has been read',
	answer    => \%deleted,
	before    => sub { query("INSERT INTO atproto.dead_letter (subscription, stage, sqlstate, did, message) VALUES ('full', 'beyond', '54000', '$_[0]', 'of an export')") },
	meanwhile => sub { my ($did, $old) = @_; serve($old, $did, { active => JSON::PP::false, status => 'deleted' }) },
	suspended => 1,
	asked     => '2 0',
	after     => sub {
		my ($did, $old) = @_;
		wait_for("SELECT deleted_rev = rev FROM f.repo WHERE did = '$did'");
		is(asked($old, $did, 'getRepoStatus'), 1, 'V-47: it is asked for that');
		# a consumer looks every five minutes
		$clock->advance($ahead += 400);
		wait_for("SELECT count(*) = 0 FROM f.record WHERE did = '$did'");
		is(state_of($did), 'f|deleted|desynchronized|t', 'V-47: its records are gone');
		is(query("SELECT count(*) > 0, count(seq) FROM f.record_event WHERE did = '$did' AND action = 'delete'"), 't|0', 'R-53: record_event has no number for it');
		wait_for("SELECT NOT EXISTS (SELECT FROM atproto.repo_job WHERE did = '$did') AND NOT EXISTS (SELECT FROM atproto.dead_letter WHERE did = '$did')");
		pass('R-07: so are its job, and letters of its export');
	});
try_change('V-47: its server says that it is deleted, and that it is active',
	answer    => \%deleted,
	meanwhile => sub { my ($did, $old) = @_; $network->fault({ host => $old, path => 'getRepo\\b', %deleted }) },
	error     => qr/status 400/,
	asked     => '3 0',
	after     => sub {
		my ($did, $old) = @_;
		is(state_of($did), 't||desynchronized|t', 'V-47: what it answers last holds');
		is(asked($old, $did, 'getRepoStatus'), 1, 'V-47: and it is not asked again and again');
	});
try_change('V-47: a server that it has left says that it is deleted',
	answer    => \%deleted,
	meanwhile => sub {
		my ($did, $old, $new) = @_;
		serve($old, $did, { active => JSON::PP::false, status => 'deleted' });
		document($did, pds => $new);
		serve($new, $did, 2);
	},
	taken => 1,
	asked => '2 1',
	after => sub { my ($did, undef, $new) = @_; is(query("SELECT active, host FROM f.repo WHERE did = '$did'"), "t|$new", 'V-47: it is where it says that it is') });
try_change('V-47: a server that it may have left says so, while the directory does not answer',
	answer    => \%deleted,
	meanwhile => sub {
		my ($did, $old) = @_;
		serve($old, $did, { active => JSON::PP::false, status => 'deleted' });
		$network->fault({ host => 'plc.example.com', did => $did, status => 500 });
	},
	suspended => 1,
	asked     => '2 0',
	after     => sub {
		my ($did, $old) = @_;
		wait_for("SELECT EXISTS (SELECT FROM atproto.status_request WHERE did = '$did' AND error ~ 'has to be read first')");
		is(query("SELECT count(*) > 0, (SELECT active FROM f.repo WHERE did = '$did') FROM f.record WHERE did = '$did'"), 't|f', 'V-47: its records are hidden, and stay');
		is(asked($old, $did, 'getRepoStatus'), 1, 'V-47: and it is asked again another time');
	});

# below level full no server's word about accounts counts
my $did = shift @dids;
query("SELECT atproto.subscribe('chain', 'wss://stream.example.com', verify => 'chain', backfill => 'repair')");
serve('stream.example.com', $did, 1);
query("SELECT atproto.resync('$did')");
wait_for("SELECT EXISTS (SELECT FROM atproto.repo WHERE did = '$did' AND sync = 'synchronized') AND NOT EXISTS (SELECT FROM atproto.repo_job WHERE did = '$did')");
$network->fault({ host => 'stream.example.com', did => $did, path => 'getRepo\\b', %deleted });
query("SELECT atproto.resync('$did')");
wait_for("SELECT state = 'suspended' FROM atproto.repo_job WHERE did = '$did'");
is(query("SELECT active, status, (SELECT count(*) > 0 FROM atproto.record r WHERE r.did = p.did), (SELECT count(*) FROM atproto.visible_record r WHERE r.did = p.did) FROM atproto.repo p WHERE did = '$did'"),
	'f|deleted|t|0', 'R-13: below level full, its records are hidden, and stay');
is(query("SELECT count(*) FROM atproto.status_request WHERE target = 'atproto'"), '0', 'and nobody is asked');

$node->stop;
done_testing();
