# 396_jetstream_backfill.pl
#		A Jetstream brings the stream, and exports from the accounts' own servers bring the missing records
#		and the records from before the first event.  The fetcher never asks the Jetstream for repositories.
#		An audit finds differences invisible in the events.  Then the subscription changes to a relay,
#		without a lost operation.  R-01, R-10, R-52, V-45.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Backfill;
use AtprotoTest::Jetstream;
use Test::More;

my $simulated = AtprotoTest::Backfill->begin(half => 300);
my $network   = $simulated->network;
my $host      = $AtprotoTest::Backfill::HOST;
my $node      = make_node('jetstream_backfill', start => $simulated->preload, conf => $simulated->settings);
my $texts     = texts('v1', $simulated->capture);
my $server    = AtprotoTest::Server->start($texts);

sub subscribe
{
	my ($name, %o) = @_;
	my $options = join '', map { ", $_ => $o{$_}" } sort keys %o;
	my (undef, undef, $error) = $node->psql('postgres', "SELECT atproto.subscribe('$name', 'ws://$host/subscribe', allow_insecure => true$options)");

	return $error;
}

# --- requests without an answer at a Jetstream's server ---

like(subscribe('none', backfill => "'$_'", collections => "'{app.bsky.feed.post}'"), qr/"list_source" is not set\nDETAIL:  The server of \/subscribe has no list of repositories\.\nHINT:  Name a relay/, "$_ needs a list")
  foreach 'collections', 'network';
like(subscribe('none', backfill => "'seen'", repo_source => "'upstream'"), qr/cannot have "repo_source => 'upstream'"\nDETAIL:  Its server has no repositories/, 'nor is it asked for repositories');
like(subscribe('dids', backfill => "'network'", dids => "'{" . ($simulated->dids)[0] . "}'"), qr/\A[^\n]*NOTICE:  .*\nDETAIL:  It begins with the next event\. The repositories of its accounts are fetched\.\nHINT:  .*\z/, 'some accounts need no list');
query("SELECT atproto.unsubscribe('dids')");

# --- missing records come from the accounts' servers ---

$simulated->serve(2, $server);
like(subscribe('j', cursor => 0, backfill => "'network'", list_source => "'http://$host'", events => "'keep'"), qr/\A[^\n]*NOTICE:  .*\nDETAIL:  .* All repositories of the network are fetched\.\nHINT:  .*\z/, 'with a list');
wait_for_texts('j', $texts);
# The fetcher brings only listed repositories; the records from before these revisions of the stream come by
# resync_all() here.
wait_for("SELECT NOT EXISTS (SELECT FROM atproto.repo_job WHERE state <> 'suspended') AND EXISTS (SELECT FROM atproto.enumeration WHERE finished_at IS NOT NULL)");
is(scalar(() = grep { $_->{host} eq $host } $network->log(path => qr/getRepo/)), 0, 'R-10: its own server is not asked for repositories');
query("SELECT atproto.resync_all()");
wait_for("SELECT NOT EXISTS (SELECT FROM atproto.repo_job WHERE state <> 'suspended')");
is($simulated->difference, '', 'R-52, V-45: the rows are those that the network has, and so audits say');
is(query('SELECT DISTINCT sync FROM atproto.repo WHERE active'), 'synchronized', 'and so the repositories say');
is(query("SELECT count(*) FROM (SELECT FROM atproto.record_event WHERE seq IS NOT NULL GROUP BY did, collection, rkey, rev HAVING count(*) > 1) twice"), '0', 'each operation once');

# --- an audit finds a loss without an event ---

my $did = query("SELECT did FROM atproto.record GROUP BY did ORDER BY count(*) DESC LIMIT 1");
query("DELETE FROM atproto.record WHERE did = '$did' AND rkey = (SELECT max(rkey) FROM atproto.record WHERE did = '$did')");
query('CALL atproto.audit_all()');
wait_for("SELECT sync = 'synchronized' FROM atproto.repo WHERE did = '$did'");
is($simulated->difference, '', 'R-01: what an audit finds to differ is fetched');

# --- to a relay ---

my (undef, undef, $error) = $node->psql('postgres', "SELECT atproto.recheck('j'); UPDATE atproto.subscription SET list_source = NULL WHERE name = 'j'");
like($error, qr/"list_source" is not set/, 'the list is still needed');
my $relay = AtprotoTest::Server->start($simulated->capture);
$simulated->serve(2, $relay);
query("UPDATE atproto.subscription SET url = 'ws://$host', verify = 'chain', list_source = NULL WHERE name = 'j'; SELECT atproto.set_cursor('j', 0)");
wait_for_seq($node, 'j', $simulated->last);
is(query("SELECT verify || ' ' || serves_repos FROM atproto.subscription"), 'chain true', 'it follows the relay');
wait_for("SELECT NOT EXISTS (SELECT FROM atproto.repo_job WHERE state <> 'suspended') AND NOT EXISTS (SELECT FROM atproto.held_event)");
is($simulated->difference, '', 'the rows are the same');
is(query("SELECT count(*) FROM (SELECT FROM atproto.record_event WHERE seq IS NOT NULL GROUP BY did, collection, rkey, rev HAVING count(*) > 1) twice"), '0', 'no operation came once more');
is(query('SELECT count(*) FROM atproto.dead_letter'), '0', 'nothing was refused');

$node->stop;
done_testing();
