# 391_jetstream_formats.pl
#		What texts become (F-40 to F-44, J-20 to J-27): the rows that the same traffic leaves when it comes as
#		frames; in workers, in slices, through filters; again from dead letters; beside the relay itself; and
#		streams of any lexicon in JSON (E-60).

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../lib";

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

# --- one revision, several operations ---

is(query("SELECT count(*) > 0 FROM v1.repo WHERE octet_length(rev_paths) > 8"), 't', 'of a revision it is known what was taken');
is(query("SELECT count(*) FROM v1.record_event e JOIN v1.record_event f USING (did, rev) WHERE (e.collection, e.rkey) < (f.collection, f.rkey)"),
	query("SELECT count(*) FROM relay.record_event e JOIN relay.record_event f USING (did, rev) WHERE (e.collection, e.rkey) < (f.collection, f.rkey)"),
	'commits with several are whole');

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

done_testing();
