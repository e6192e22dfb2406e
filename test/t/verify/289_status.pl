# 289_status.pl
#		At level full, the stream says that an account is not active, but the account signs a
#		commit.  The fetcher asks the account's own server for the status, at most once in ten
#		minutes, and the answer counts.  V-38, V-39, R-12, R-13, R-21.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Statuses;
use Test::More;

my $statuses = AtprotoTest::Statuses->new('status');
my ($node, $network, $clock) = @$statuses{qw(node network clock)};
my %who = %{ $statuses->{who} };
my $all = $statuses->all;

sub state_of
{
	my ($name) = @_;
	return query("SELECT active, status, sync, host FROM atproto.repo WHERE did = '$who{$name}{did}'");
}

sub answered
{
	my (@names) = @_;
	my $dids = join ',', map { "'$who{$_}{did}'" } @names;
	wait_for("SELECT count(answered_at) = @{[ scalar @names ]} FROM atproto.status_request WHERE did IN ($dids)");
	return;
}

$network->repos({
	map { $who{ $_->[0] }{pds} => { $who{ $_->[0] }{did} => $_->[1] } }
	[ active => { active => JSON::PP::true } ], [ takendown => { active => JSON::PP::false, status => 'takendown' } ],
	[ back => { active => JSON::PP::true } ], [ raced => { active => JSON::PP::true } ], [ forged => { active => JSON::PP::true } ],
	[ silent => { active => JSON::PP::true } ], [ parked => { active => JSON::PP::true } ] });
$network->fault({ host => $who{refused}{pds}, status => 400, body => '{"error":"RepoSuspended","message":"x"}' });
$network->fault({ host => $who{'not-found'}{pds}, status => 400, body => '{"error":"RepoNotFound","message":"x"}' });
$network->fault({ host => $who{raced}{pds}, hold => 'raced', times => 1 });
$network->fault({ host => $who{silent}{pds}, status => 500, times => 1 });
$network->fault({ host => $who{parked}{pds}, status => 429, headers => { 'Retry-After' => '300' }, times => 1 });

my $server = $statuses->follow(map { $_ + 1 } 2 * $all, 3 * $all, 3 * $all + 1, 4 * $all + 1);
is(query('SELECT count(*) FROM atproto.status_request'), '0', 'V-39: an #account alone is believed');
query("INSERT INTO atproto.repo_job (target, did, subscription, priority, reason, state) VALUES ('atproto', '$who{active}{did}', 's', 1, 'test', 'suspended')");
$server->release;
wait_for_seq($node, 's', 3 * $all);
is(query('SELECT count(*) FROM atproto.status_request'), $all - 1, 'V-39: who has signed a commit is asked for');
is($statuses->asked('forged'), 0, 'V-39: who has not is not');
is(query("SELECT count(*) FROM atproto.record WHERE rkey = '20'"), '0', 'V-38: the commit itself is ignored');
is(query("SELECT string_agg(did::text, ',') FROM atproto.repo WHERE sync <> 'desynchronized'"), $who{forged}{did}, 'V-38: but missed, where the account has signed it');

# during the request the stream has news: at once, as the request has a limited time
$network->wait_for_log(1, host => $who{raced}{pds});
$server->release;
wait_for_seq($node, 's', 3 * $all + 1);
$network->release('raced');
answered('raced');
is(state_of('raced'), 'f|suspended|desynchronized|127.0.0.1', 'R-13: an #account since the request wins');

answered(qw(active takendown refused back));
is(state_of('active'), 't||desynchronized|active.example.com', 'V-39: active there: active here, and something was missed');
wait_for("SELECT state <> 'suspended' FROM atproto.repo_job WHERE did = '$who{active}{did}'");
query('DELETE FROM atproto.repo_job');
pass('V-39: what was ignored is fetched');
is(state_of('takendown'), 'f|takendown|desynchronized|takendown.example.com', 'V-39: another status there is taken over');
is(state_of('refused'), 'f|suspended|desynchronized|refused.example.com', 'R-12: also when it is said as an error');
wait_for("SELECT error ~ 'status 400' FROM atproto.status_request WHERE did = '$who{'not-found'}{did}'");
is(state_of('not-found'), 'f|deactivated|desynchronized|127.0.0.1', 'R-13: not there: nothing follows');
$network->wait_for_log(1, host => 'plc.example.com', path => qr/\Q$who{'not-found'}{did}/);
pass('R-13: but that it may be elsewhere');

# --- at most once in ten minutes ---

wait_for("SELECT count(*) = 2 FROM atproto.status_request WHERE error IS NOT NULL AND did IN ('$who{silent}{did}', '$who{parked}{did}')");
is(state_of($_), 'f|deactivated|desynchronized|127.0.0.1', "R-12: $_: without an answer the status stays") foreach qw(silent parked);
$server->release;
wait_for_seq($node, 's', 4 * $all + 1);
is(query("SELECT string_agg(rkey::text, ',' ORDER BY rkey) FROM atproto.record WHERE did = '$who{active}{did}'"), '10,30', 'V-39: commits of it are taken again');
$clock->later(300);
is(join(',', map { $statuses->asked($_) } qw(active takendown refused not-found raced silent parked)), '1,1,1,1,1,1,1', 'V-39: each once');
is(query('SELECT count(*) FROM atproto.status_request'), $all - 1, 'V-39: a second commit does not ask again');
$clock->later(310);
answered(qw(silent parked));
is(state_of('silent'), 't||desynchronized|silent.example.com', 'V-39: an answer that came late');
is(state_of('parked'), 't||desynchronized|parked.example.com', 'R-21: of a host that had to rest');
answered('raced');
is(state_of('raced'), 't||desynchronized|raced.example.com', 'V-39: what the stream said since was asked for by another commit');
is($statuses->asked('raced'), 2, 'V-39: ten minutes after the first time');
wait_for("SELECT count(*) = 0 FROM atproto.status_request WHERE did = '$who{takendown}{did}'");
$network->repos({ $who{takendown}{pds} => { $who{takendown}{did} => { active => JSON::PP::true } } });
query("INSERT INTO atproto.status_request (target, did, subscription, why, requested_at, answered_at, next_try, status_at, status_seq)"
	. " SELECT 'atproto', did, 's', 'rev', now(), now(), 'infinity', status_at, status_seq FROM atproto.repo WHERE did = '$who{takendown}{did}'");
$server->release;
wait_for_seq($node, 's', 5 * $all + 1);
is(query("SELECT why, answered_at, next_try < 'infinity' FROM atproto.status_request WHERE did = '$who{takendown}{did}'"), 'inactive||t', 'V-39: whoever was asked for its revision alone is asked anew');
query("UPDATE atproto.status_request SET next_try = '-infinity' WHERE did = '$who{takendown}{did}'");
answered('takendown');
is(state_of('takendown'), 't||desynchronized|takendown.example.com', 'V-39: later, another commit asks again');
is($statuses->asked('active'), 1, 'V-39: who is active is not asked');
is($statuses->asked('forged'), 0, 'V-39: nor whose commits are forged');

# --- and the fetcher brings the account's records ---

query("INSERT INTO atproto.subscription (name, url, target, enabled, backfill) VALUES ('fetches', 'wss://stream.example.com', 'atproto', false, 'repair');"
	. " UPDATE atproto.repo SET active = false, status = 'deactivated' WHERE did = '$who{back}{did}';"
	. " INSERT INTO atproto.status_request (target, did, subscription, why, status_at, status_seq, requested_at)"
	. " SELECT 'atproto', did, 's', 'inactive', status_at, status_seq, now() FROM atproto.repo WHERE did = '$who{back}{did}'"
	. " ON CONFLICT (target, did) DO UPDATE SET answered_at = NULL, next_try = '-infinity', status_at = excluded.status_at, status_seq = excluded.status_seq");
wait_for("SELECT EXISTS (SELECT FROM atproto.repo_job WHERE did = '$who{back}{did}' AND reason = 'active')");
pass('V-39: where a subscription fetches repositories, what was ignored is fetched');
query("DELETE FROM atproto.subscription WHERE name = 'fetches'");

# --- an account whose server is unknown, and a server that never answers ---

query("UPDATE atproto.status_request SET answered_at = NULL, next_try = '-infinity', requested_at = now() - interval '8 d' WHERE did = '$who{raced}{did}';"
	. " DELETE FROM atproto.identity WHERE did = '$who{takendown}{did}';"
	. " UPDATE atproto.status_request SET answered_at = NULL, next_try = '-infinity' WHERE did = '$who{takendown}{did}'");
wait_for("SELECT count(*) = 0 FROM atproto.status_request WHERE did = '$who{raced}{did}'");
pass('after seven days nobody asks any more');
wait_for("SELECT error ~ 'not known' FROM atproto.status_request WHERE did = '$who{takendown}{did}'");
$network->wait_for_log(1, host => 'plc.example.com', path => qr/\Q$who{takendown}{did}/);
pass('V-39: a server that is not known is found first');
query("SELECT atproto.unsubscribe('s')");
is(query('SELECT count(*) FROM atproto.status_request'), '0', 'what is asked for goes with the subscription');

$node->stop;
done_testing();
