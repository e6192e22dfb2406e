# 510_changes.pl
#		The output plugin: a reader who applies all messages in order gets the rows of the tables, written directly or by
#		statements; the options of readers; what a refill and a repeated export tell.  O-20 to O-24.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Changes;
use JSON::PP;
use Test::More;

my $node   = make_node('main', changes_conf("max_worker_processes = 30\n"));
my $pds    = AtprotoTest::Server->start(capture('pds.frames.gz'));
my $labels = AtprotoTest::Server->start(capture('labels.frames.gz'));

make_slot('app');

# --- two targets: a generated column has rows written by statements ---

query(q{CREATE SCHEMA stated; SELECT atproto.create_tables('stated');
	ALTER TABLE stated.record ADD length int GENERATED ALWAYS AS (octet_length(rkey::text)) STORED;
	ALTER TABLE stated.repo ADD length int GENERATED ALWAYS AS (octet_length(did::text)) STORED});
foreach my $target ('atproto', 'stated')
{
	query(subscribe_sql($target, $pds, cursor => 0, target => "'$target'"));
	query(subscribe_sql("${target}_labels", $labels, nsid => 'com.atproto.label.subscribeLabels', cursor => 0, target => "'$target'"));
}
wait_for_seq($node, $_, $PDS_LAST) foreach 'atproto', 'stated';
wait_for(q{SELECT bool_and(state = 'streaming') AND min(seq) = max(seq) AND min(seq) > 0 FROM atproto.stat_subscription WHERE name LIKE '%labels'});
tables_match($node, capture('pds.frames.gz'), 'the tables');

my @messages = peek('app');
my %of       = map { my $target = $_; $target => [ grep { /"target":"$target"/ } @messages ] } 'atproto', 'stated';

cmp_ok(scalar(@messages), '>', 1000, 'there are messages') or BAIL_OUT('none');
reader_matches($node, \@messages, "O-21: a reader has the tables of $_", schema => $_) foreach 'atproto', 'stated';
is(grep({ /"operation":"delete"/ && !/"rev":/ } @messages), 0, 'each deletion of a commit has a revision');

my ($position) = map { decode_json($_) } reverse grep { /^\{"kind":"position".*"subscription":"atproto"/ } @messages;

is($position->{sources}[0]{cursor}, $PDS_LAST, 'the last position is at the end of the stream');
like($position->{time}, qr/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/, 'with a time');

# --- options (O-22) ---

my @commits = grep { /^\{"kind":"commit"/ } @{ $of{atproto} };
my ($did)   = $commits[0] =~ /"did":"([^"]+)"/;

sub same_changes
{
	my ($expected, $name, %options) = @_;
	my @told = peek('app', targets => 'atproto', positions => 'changes', %options);
	my @changes = map { s/^(.*?)"n":\d+/$1/r } @$expected;

	return is(join("\n", map { s/^(.*?)"n":\d+/$1/r } grep { !/^\{"kind":"position"/ } @told), join("\n", @changes), $name);
}

same_changes([ grep { /"collection":"app\.bsky\.feed\.like"/ } @commits ], 'collections, kinds', collections => 'app.bsky.feed.like', kinds => 'commit');
same_changes([ grep { /"collection":"app\.bsky\.graph\./ } @commits ], 'a pattern', collections => 'app.bsky.graph.*, com.example.x', kinds => 'commit');
same_changes([ grep { /"did":"$did"/ } @{ $of{atproto} } ], 'dids', dids => $did);
same_changes([ grep { /^\{"kind":"(account|label)"/ } @{ $of{atproto} } ], 'two kinds', kinds => 'account,label');
is(scalar(peek('app', targets => 'other', positions => 'changes')), 0, 'no target, no position');
is(join("\n", peek('app', targets => 'stated, "atproto"')), join("\n", @messages), 'two targets');

# --- rights ---

query('CREATE ROLE follower REPLICATION; CREATE ROLE nobody; GRANT USAGE ON SCHEMA atproto TO nobody; GRANT SELECT ON ALL TABLES IN SCHEMA atproto TO nobody');
is(query("SET SESSION AUTHORIZATION follower; SELECT count(*) FROM pg_logical_slot_peek_changes('app', NULL, NULL)"), scalar @messages, 'O-24: REPLICATION suffices');
my (undef, undef, $denied) = $node->psql('postgres', "SET SESSION AUTHORIZATION nobody; SELECT count(*) FROM pg_logical_slot_peek_changes('app', NULL, NULL)");
like($denied, qr/ERROR: .*replication/, 'O-24: and SELECT does not');

# --- wrong options ---

foreach my $case (
	[ "'target', 'x'",         qr/has no option "target".*targets, collections, dids, kinds, max_message, old and positions/s ],
	[ "'kinds', 'commits'",    qr/"kinds".*"commits".*commit, identity, account and label/s ],
	[ "'kinds', ''",           qr/"kinds"/ ],
	[ "'dids', 'did:plc'",     qr/"dids".*"did:plc"/ ],
	[ "'collections', 'a.*b'", qr/"collections".*"a\.\*b"/ ],
	[ "'targets', ''",         qr/"targets"/ ],
	[ "'max_message', '15kB'",  qr/"max_message".*"15kB".*from 16kB to 512MB/s ],
	[ "'max_message', '513MB'", qr/"max_message".*"513MB"/ ],
	[ "'max_message', 'much'", qr/"max_message".*"much"/ ],
	[ "'old', 'maybe'",        qr/"old".*true or false/s ],
	[ "'positions', 'no'",     qr/"positions".*"no"/ ])
{
	my (undef, undef, $err) = $node->psql('postgres', "SELECT pg_logical_slot_peek_changes('app', NULL, NULL, $case->[0])");

	like($err, $case->[1], "O-22: refused: $case->[0]");
}

# --- messages are JSON, which is UTF-8 ---

query(q{CREATE DATABASE latin TEMPLATE template0 ENCODING 'LATIN1' LOCALE 'C'});
like(($node->psql('latin', q{SELECT pg_create_logical_replication_slot('latin', 'atproto')}))[2], qr/needs a database with encoding UTF8/, 'a database of another encoding');
query('DROP DATABASE latin');

# --- rows that are read again ---

my $again = sub { my @all = peek('app'); return @all[ scalar(@messages) .. $#all ] };

query(q{SELECT atproto.refill('atproto')});
wait_for(q{SELECT count(*) = 0 FROM atproto.repo WHERE refill_by IS NOT NULL});
wait_for_seq($node, 'atproto', $PDS_LAST);
my @refill = grep { /^\{"kind":"commit","lsn":"[^"]+","n":\d+,"target":"atproto"/ } $again->();
my %there  = map { $_ => 1 } split /\n/, query(q{SELECT did || '/' || collection || '/' || rkey FROM atproto.record});
my %told   = map { my $m = decode_json($_); ("$m->{did}/$m->{commit}{collection}/$m->{commit}{rkey}" => 1) } @refill;
cmp_ok(scalar(@refill), '>', 0, 'O-24: in a refill, deleted records come, and go again');
is(join("\n", grep { $there{$_} } sort keys %told), '', 'O-24: a refill tells nothing of records that are there');
reader_matches($node, [ peek('app') ], 'O-24: a reader has the tables after the refill');

# the table lacks one record of the account, has one with a different CID, and has one record too many
my ($account) = split /\n/, query(q{SELECT did FROM atproto.repo JOIN atproto.record USING (did) WHERE active AND hold IS NULL GROUP BY 1 HAVING count(*) > 5 ORDER BY 1 LIMIT 1});
query(qq{CREATE TABLE car AS SELECT atproto.repo_car('$account') AS car;
	DELETE FROM atproto.record WHERE did = '$account' AND rkey = (SELECT min(rkey) FROM atproto.record WHERE did = '$account');
	UPDATE atproto.record SET cid = (SELECT commit FROM atproto.repo WHERE did = '$account') WHERE did = '$account' AND rkey = (SELECT max(rkey) FROM atproto.record WHERE did = '$account');
	INSERT INTO atproto.record (did, collection, rkey, cid, rev, value) SELECT did, 'com.example.more', 'more', cid, rev, value FROM atproto.record WHERE did = '$account' LIMIT 1});
my $before = () = peek('app');
query("SELECT atproto.load_car('$account', car, 'atproto') FROM car");
my @export = peek('app');
is(join(' ', sort map { $_->{commit}{operation} . (defined $_->{commit}{rev} ? '' : ' without rev') } grep { $_->{kind} eq 'commit' } decoded(@export[ $before .. $#export ])),
	'create delete without rev update', 'O-24: and an export only what differs');

done_testing();
