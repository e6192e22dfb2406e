# 510_changes.pl
#		The output plugin: a reader who applies all messages in their order has what the tables have, whether the rows were
#		written directly or by statements.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Changes;
use JSON::PP;
use Test::More;

my $node = make_node('main', changes_conf());

make_slot('app');

# --- a capture, with filters of every kind ---

my $server = AtprotoTest::Server->start(capture('pds.frames.gz'));

query(subscribe_sql('s', $server, cursor => 0));
wait_for_seq($node, 's', $PDS_LAST);
tables_match($node, capture('pds.frames.gz'), 'the tables');

my @messages = peek('app');

cmp_ok(scalar(@messages), '>', 1000, 'there are messages') or BAIL_OUT('none');
reader_matches($node, \@messages, 'a reader has the tables of the capture', modes => ['record']);

my %kinds;
my @positions = map { decode_json($_) } grep { /^\{"kind":"position"/ } @messages;

$kinds{ $_->{kind} }++ foreach decoded(@messages);
note(join ', ', map { "$_: $kinds{$_}" } sort keys %kinds);
is($positions[-1]{sources}[0]{cursor}, $PDS_LAST, 'the last position is at the end of the stream');
is($positions[-1]{sources}[0]{subscription}, 's', 'of the subscription');
like($positions[-1]{time}, qr/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/, 'with a time');
is((grep { $_->{commit}{operation} eq 'delete' && !$_->{commit}{rev} } grep { $_->{kind} eq 'commit' } decoded(@messages)), 0, 'each deletion of a commit has a revision');

my $likes = grep { $_->{kind} eq 'commit' && $_->{commit}{collection} eq 'app.bsky.feed.like' } decoded(@messages);

cmp_ok($likes, '>', 0, 'likes are among them');
is(scalar(decoded(peek('app', collections => 'app.bsky.feed.like', kinds => 'commit'))), $likes, 'option collections');
is(scalar(decoded(peek('app', collections => 'app.bsky.*, com.example.x', kinds => 'commit'))),
	scalar(grep { $_->{kind} eq 'commit' && $_->{commit}{collection} =~ /^app\.bsky\./ } decoded(@messages)), 'option collections with a pattern');

my ($did) = map { $_->{did} } grep { $_->{kind} eq 'commit' } decoded(@messages);

is(scalar(decoded(peek('app', dids => $did))), scalar(grep { $_->{did} eq $did } decoded(@messages)), 'option dids');
is(scalar(peek('app', targets => 'other', positions => 'changes')), 0, 'option targets, and positions => changes');
is(scalar(peek('app', targets => 'other, "atproto"')), scalar(@messages), 'two targets');

# --- wrong options ---

foreach my $case (
	[ "'target', 'x'",         qr/has no option "target".*targets, collections, dids, kinds, old and positions/s ],
	[ "'kinds', 'commits'",    qr/"kinds".*"commits".*commit, identity, account and label/s ],
	[ "'kinds', ''",           qr/"kinds"/ ],
	[ "'dids', 'did:plc'",     qr/"dids".*"did:plc"/ ],
	[ "'collections', 'a.*b'", qr/"collections".*"a\.\*b"/ ],
	[ "'targets', ''",         qr/"targets"/ ],
	[ "'old', 'maybe'",        qr/"old".*true or false/s ],
	[ "'positions', 'no'",     qr/"positions".*"no"/ ])
{
	my (undef, undef, $err) = $node->psql('postgres', "SELECT pg_logical_slot_peek_changes('app', NULL, NULL, $case->[0])");

	like($err, $case->[1], "refused: $case->[0]");
}

done_testing();
