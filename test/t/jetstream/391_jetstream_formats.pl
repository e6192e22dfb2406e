# 391_jetstream_formats.pl
#		The rows that the texts of Jetstream become (F-40 to F-44, J-20 to J-27) are compared with the rows
#		of the same traffic in frames of a relay: with several workers, in slices, through filters, after
#		dead letters were tried again, and with a relay writing the same tables; also records of unknown
#		lexicons in JSON (E-60).

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Jetstream;
use Test::More;

my $node = make_node('jetstream', conf => "max_worker_processes = 20\natproto.reconnect_delay = 20ms\n");
my %texts = map { $_ => texts($_, capture('pds.frames.gz')) } qw(v1 v2);
my %server = (relay => AtprotoTest::Server->start(capture('pds.frames.gz')), map { $_ => AtprotoTest::Server->start($texts{$_}) } keys %texts);

sub follow
{
	my ($name, $from, %args) = @_;

	query("CREATE SCHEMA $name; " . subscribe_sql($name, $server{$from}, cursor => 0, target => "'$name'", %args));
	return;
}

sub rows
{
	my ($schema, $where) = @_;
	return query("SELECT count(*), md5(string_agg((did, collection, rkey, cid, rev, value, raw)::text, ',' ORDER BY did, collection, rkey))"
		  . " FROM $schema.record WHERE " . ($where // 'true'));
}

sub letters
{
	my ($name) = @_;
	return query("SELECT stage, count(*) FROM atproto.dead_letter WHERE subscription = '$name' GROUP BY stage ORDER BY stage");
}

# --- the rows ---

follow('relay', 'relay', events => "'keep'", keep_raw => 'true');
follow($_, $_, events => "'keep'", keep_raw => 'true') foreach qw(v1 v2);
wait_for("SELECT seq = $PDS_LAST FROM atproto.stat_subscription WHERE name = 'relay'");
wait_for_texts($_, $texts{$_}) foreach qw(v1 v2);
foreach my $version (qw(v1 v2))
{
	is(rows($version), rows('relay'), "J-27: $version: the same records");
	is(letters($version), letters('relay'), "$version: the same dead letters");
	is(query("SELECT verify FROM atproto.subscription WHERE name = '$version'"), 'hash', "F-44: $version proves nothing");
}
same_rows('v1', 'relay', 'v1: as often, and the same accounts', tables => [qw(record_event repo)], without => [qw(rev)]);
is(query("SELECT DISTINCT sync FROM v1.repo"), 'partial', 'F-44: whether they are all is not known');

# --- several operations in one revision ---

is(query("SELECT count(*) > 0 FROM v1.repo WHERE octet_length(rev_paths) > 8"), 't', 'of a revision it is known what was taken');
is(query("SELECT count(*) FROM v1.record_event e JOIN v1.record_event f USING (did, rev) WHERE (e.collection, e.rkey) < (f.collection, f.rkey)"),
	query("SELECT count(*) FROM relay.record_event e JOIN relay.record_event f USING (did, rev) WHERE (e.collection, e.rkey) < (f.collection, f.rkey)"),
	'commits with several are whole');

# Two record keys of one commit, whose paths have the same value of PostgreSQL's hash function: an account can choose them.
my @alike = ('xxxxxil6p_8ODnxr1---v~n-_-BB2end', 'xxxxxDdWXLgEJKC5BKRY0AArEbAAaend');
my $alike = make_capture('steps.py', "a 1 +$alike[0] +$alike[1]");

is(query("SELECT count(DISTINCT hashtextextended(('app.bsky.feed.post/' || k) COLLATE \"C\", 0)) FROM unnest('{$alike[0],$alike[1]}'::text[]) k"), '1', 'equal hashes');
foreach my $version (qw(v1 v2))
{
	$server{"alike$version"} = AtprotoTest::Server->start(texts($version, $alike));
	follow("alike$version", "alike$version");
	wait_for("SELECT sum(events) = 2 FROM atproto.cursor WHERE subscription = 'alike$version'");
	is(query("SELECT count(*) FROM alike$version.record"), '2', "$version: both operations are applied");
}

# --- workers, slices, filters ---

follow('shared', 'v2', workers => '3');
follow('half', 'v2', slice => "'0/2'");
follow('likes', 'v1', collections => "'{app.bsky.feed.like}'", actions => "'{create}'");
wait_for_texts($_, $texts{v2}) foreach qw(half);
wait_for("SELECT min(seq) = (SELECT seq FROM atproto.cursor WHERE subscription = 'v2') FROM atproto.cursor WHERE subscription = 'shared'");
wait_for("SELECT (SELECT count(*) FROM likes.record) >= (SELECT count(*) FROM relay.record WHERE collection = 'app.bsky.feed.like')");
is(query("SELECT count(*), md5(string_agg((did, collection, rkey, cid, rev, value)::text, ',' ORDER BY did, collection, rkey)) FROM shared.record"),
	query("SELECT count(*), md5(string_agg((did, collection, rkey, cid, rev, value)::text, ',' ORDER BY did, collection, rkey)) FROM relay.record"), 'J-24: with workers');
is(query("SELECT count(*) FROM half.record"), query("SELECT count(*) FROM relay.record WHERE did_slice(did, 2) = 0"), 'a slice');
is(query("SELECT count(*) FROM half.record WHERE did_slice(did, 2) <> 0"), '0', 'and nothing else');
is(query("SELECT string_agg(DISTINCT collection::text, ',') FROM likes.record"), 'app.bsky.feed.like', 'a collection');

# --- dead letters are tried again: the text is kept ---

my $lies = texts('v1', capture('pds.frames.gz'));
my ($one) = grep { /"operation":"create"/ } read_capture($texts{v1});
my ($did) = $one =~ /"did":"([^"]+)"/;
my ($cid) = $one =~ /"cid":"([^"]+)"\}\}$/;
(my $lie = $one) =~ s/"cid":"[^"]+"\}\}$/"cid":"bafyreidfayvfuwqa7qlnopdjiqrxzs6blmoeu4rujcjtnci5beludirz2a"}}/;
write_capture("$lies.one", $lie);
$server{lies} = AtprotoTest::Server->start("$lies.one");
follow('lies', 'lies');
wait_for("SELECT count(*) = 1 FROM atproto.dead_letter WHERE subscription = 'lies'");
is(query("SELECT stage, did, message FROM atproto.dead_letter WHERE subscription = 'lies'"),
	"record|$did|The record is not the one that its CID names. (byte " . (1 + index $lie, '{"$type"') . ')', 'J-27: a record with the CID of another');
is(query("SELECT count(*) FROM lies.record"), '0', 'is in no table');
is(query("SELECT atproto.retry(id) FROM atproto.dead_letter WHERE subscription = 'lies'"), query("SELECT message FROM atproto.dead_letter WHERE subscription = 'lies'"),
	'tried again it is no better');
is(query("UPDATE atproto.dead_frame SET bytes = convert_to(replace(convert_from(bytes, 'UTF8'), 'bafyreidfayvfuwqa7qlnopdjiqrxzs6blmoeu4rujcjtnci5beludirz2a', '$cid'), 'UTF8')"
	  . " WHERE subscription = 'lies'; SELECT atproto.retry(id) FROM atproto.dead_letter WHERE subscription = 'lies'"), 'applied', 'but with its own it would be');
is(query("SELECT count(*) FROM lies.record WHERE cid = '$cid'"), '1', 'J-27: from the text');

# --- any lexicon in JSON ---

my @messages = map { qq({"\$type":"message","payload":$_}) } (
	'{"$type":"com.example.stream#thing","seq":1,"time":"2026-01-01T00:00:00Z","b":[1,{"$bytes":"AQ"}],"a":"x"}',
	'{"$type":"com.example.stream#thing","seq":2,"a":1.5}', '{"seq":3}', '{"$type":"com.example.other","seq":4,"a":"\\u0000"}');
$server{json} = AtprotoTest::Server->start(write_capture("$lies.json", @messages));
query("CREATE SCHEMA json; " . subscribe_sql('json', $server{json}, cursor => 0, target => "'json'", format => "'json'", nsid => 'com.example.stream'));
wait_for("SELECT seq = 4 FROM atproto.cursor WHERE subscription = 'json'");
is(query("SELECT seq, type, payload FROM json.message ORDER BY seq"),
	qq(1|#thing|{"a": "x", "b": [1, {"\$bytes": "AQ"}], "seq": 1, "time": "2026-01-01T00:00:00Z", "\$type": "com.example.stream#thing"}\n4|com.example.other|),
	'E-60, J-23: messages are kept');
is(query("SELECT seq, stage FROM atproto.dead_letter WHERE subscription = 'json' ORDER BY seq"), "2|message\n3|message", 'J-01, J-24: but those that are none');

# --- beside the relay: each operation is applied once ---

query("CREATE SCHEMA pair; " . join '; ', map { subscribe_sql("pair_$_", $server{$_}, cursor => 0, target => "'pair'", events => "'keep'", keep_raw => 'true') } qw(relay v1));
wait_for("SELECT seq = $PDS_LAST FROM atproto.stat_subscription WHERE name = 'pair_relay'");
wait_for("SELECT seq = (SELECT seq FROM atproto.cursor WHERE subscription = 'v1') FROM atproto.cursor WHERE subscription = 'pair_v1'");
is(query("SELECT count(*) FROM (SELECT FROM pair.record_event WHERE rev IS NOT NULL GROUP BY did, collection, rkey, rev, action HAVING count(*) > 1) d"), '0',
	'no operation counts twice');

# --- a subscription with a different format releases held events ---

my $stranger = query(<<'SQL');
SELECT e.did FROM relay.record_event e WHERE e.action = 'create' ORDER BY e.seq LIMIT 1
SQL
my ($message) = grep { index($_, "drepox\x20$stranger") >= 0 } read_capture(capture('pds.frames.gz'));
query("CREATE SCHEMA mixed; "
	  . subscribe_sql('mixed_relay', $server{relay}, target => "'mixed'", verify => "'hash'", dids => "'{did:web:nobody.example.com}'")
	  . "; SELECT atproto.pause('mixed_relay')");
query(sprintf "INSERT INTO mixed.repo (did, hold) VALUES ('$stranger', 'identity');"
	  . "INSERT INTO atproto.held_event (target, did, rev, subscription, seq, why, shard_key, bytes)"
	  . " SELECT 'mixed', (f.payload->>'repo')::did, (f.payload->>'rev')::atproto.tid, 'mixed_relay', (f.payload->>'seq')::bigint, 'identity', 0, b"
	  . " FROM decode('%s', 'hex') b, atproto.frame(b) f", unpack 'H*', $message);
# from now on, where nothing comes
query(subscribe_sql('mixed_v1', $server{v1}, target => "'mixed'", dids => "'{$stranger}'"));
wait_for("SELECT count(*) = 0 FROM atproto.held_event WHERE target = 'mixed'");
is(query("SELECT count(commit) FROM mixed.repo WHERE did = '$stranger'"), '1', 'a frame of the relay, by the consumer of Jetstream');

done_testing();
