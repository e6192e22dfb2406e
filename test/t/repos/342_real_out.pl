# 342_real_out.pl
#		A real PDS exports (getRepo) the same blocks as repo_car(); verify_record_proof() believes the PDS's proofs (getRecord)
#		of present and absent records.  O-04, O-05.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Real;
use JSON::PP;
use Test::More;

plan skip_all => AtprotoTest::Real->missing if AtprotoTest::Real->missing;

my $real = AtprotoTest::Real->start(1);
my $node = make_node('real_out', conf => $real->settings . "atproto.databases = 'postgres'\nmax_worker_processes = 12\n");
my $post = 'app.bsky.feed.post';
my @accounts = map { $real->account(0, $_) } qw(alice bob carol);

sub writes
{
	my ($account, @writes) = @_;

	$real->call($account, 'com.atproto.repo.applyWrites', { repo => $account->{did}, validate => JSON::PP::false, writes => \@writes });
	return;
}

sub write_of
{
	my ($kind, $collection, $rkey, $text) = @_;
	my %value = $kind eq 'delete' ? () : (value => { '$type' => $collection, text => $text, createdAt => '2026-01-02T03:04:05.678Z' });

	return { '$type' => "com.atproto.repo.applyWrites#$kind", collection => $collection, rkey => $rkey, %value };
}

# Alice has many records, some with equal bytes; Bob has a single record; Carol has removed all records.
writes($accounts[0], map { write_of('create', ('com.example.a', 'com.example.a-b.c', $post)[ $_ % 3 ], "key$_", $_ % 7 == 0 ? 'the same' : "post $_ \x{1f600}") } 100 * $_ .. 100 * $_ + 99) foreach 1 .. 5;
writes($accounts[0], map { write_of('delete', ('com.example.a', 'com.example.a-b.c', $post)[ $_ % 3 ], "key$_") } 150 .. 170);
writes($accounts[0], map { write_of('update', ('com.example.a', 'com.example.a-b.c', $post)[ $_ % 3 ], "key$_", "changed $_") } 200 .. 220);
writes($accounts[1], write_of('create', $post, 'only', 'one'));
writes($accounts[2], write_of('create', $post, 'gone', 'one'));
writes($accounts[2], write_of('delete', $post, 'gone'));

query(sprintf q{SELECT atproto.subscribe('real', '%s', cursor => 0, verify => 'full', allow_insecure => true)}, $real->stream_url(0));
wait_for("SELECT count(*) = 3 FROM atproto.repo WHERE verified AND did::text = ANY ('{" . join(',', map { $_->{did} } @accounts) . "}')");
wait_for("SELECT count(*) >= 479 FROM atproto.record WHERE did = '$accounts[0]{did}'");

foreach my $account (@accounts)
{
	my $did  = $account->{did};
	my $rev  = $real->xrpc(0, 'com.atproto.sync.getLatestCommit', query => { did => $did })->{rev};

	wait_for("SELECT rev = '$rev' FROM atproto.repo WHERE did = '$did'");
	my $file = unpack 'H*', $real->xrpc(0, 'com.atproto.sync.getRepo', query => { did => $did });
	my $ours = "car_blocks(atproto.repo_car('$did'))";
	is(query("SELECT (car_roots('\\x$file'))[1] = (car_roots(atproto.repo_car('$did')))[1],
		(SELECT count(*) FROM (SELECT * FROM car_blocks('\\x$file') EXCEPT SELECT * FROM $ours) d), (SELECT count(*) FROM (SELECT * FROM $ours EXCEPT SELECT * FROM car_blocks('\\x$file')) d),
		(SELECT count(*) - count(DISTINCT cid) FROM $ours)"), 't|0|0|0', "O-04: $account->{handle}: the blocks that the PDS exports");
	foreach my $rkey (qw(key201 only key160 gone))
	{
		my $proof = unpack 'H*', $real->xrpc(0, 'com.atproto.sync.getRecord', query => { did => $did, collection => $post, rkey => $rkey });

		is(query("SELECT p.answer = CASE WHEN r.cid IS NULL THEN 'absent' ELSE 'there' END, p.why, p.rev = '$rev', p.cid IS NOT DISTINCT FROM r.cid, p.value IS NOT DISTINCT FROM r.value
			FROM (SELECT key FROM atproto.resolve('$did')) k, atproto.verify_record_proof('\\x$proof', '$did', '$post', '$rkey', k.key) p
			LEFT JOIN atproto.record r ON (r.did, r.collection, r.rkey) = ('$did', '$post', '$rkey')"), 't||t|t|t', "O-05: $account->{handle}: the PDS's proof about $rkey");
	}
}
$node->stop;
$real->stop;

done_testing();
