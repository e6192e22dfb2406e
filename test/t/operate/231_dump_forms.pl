# 231_dump_forms.pl
#		An old dump, made by pg_dump at commit 70bc1da, must load into the present tables: collections with a code, rows of
#		record with and without the last columns, links with counts, events, a target with values of jsonb and a target with
#		values of dagcbor.  The restored rows equal the rows that the present version makes of the events; the restored
#		subscriptions then follow the stream to the end, and the rows are equal again.  R-32, R-35.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use PostgreSQL::Test::Utils;
use Test::More;

delete $ENV{ATPROTO_VALUE};
my $held = 420;
my $node = make_node('dump_forms', databases => 'postgres, old', conf => "max_worker_processes = 24\n");
my $server = AtprotoTest::Server->start(capture('pds.frames.gz'), '--hold-at', $held);
my $owner = getpwuid($<) // 'postgres';
my $file = PostgreSQL::Test::Utils::tempdir() . '/dump';
my @old = (database => 'old');
my %targets = (plain => 'atproto', packed => 'packed');
my $counted = '{app.bsky.feed.like:subject.uri,app.bsky.graph.follow:subject,app.bsky.feed.repost:subject.uri}';
my @questions = (
	'SELECT did, collection, rkey, cid, rev, value::text, raw, fault FROM #.record',
	'SELECT seq, action, did, collection, rkey, rev, cid, value::text, old_cid, old_value::text FROM #.record_event',
	'SELECT target, collection, path, rkey, did FROM #.link JOIN #.link_source s ON s.id = source',
	'SELECT target, collection, path, n FROM #.link_count JOIN #.link_source s ON s.id = source',
	'SELECT did, rev, commit, data, active, status, handle, sync, sig FROM #.repo');

# The restored tables have the rows of the tables filled by the present version, and at least a row.
sub is_same
{
	my ($when) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	foreach my $target (sort values %targets)
	{
		foreach my $question (@questions)
		{
			my $sql = 'SELECT count(*) > 0, md5(string_agg(r::text, $$;$$ ORDER BY r::text COLLATE "C")) FROM (' . ($question =~ s/#/$target/gr) . ') r';
			my $restored = query($sql, @old);

			is($restored, query($sql), "$when, as the present version makes them: $question ($target)");
			like($restored, qr/^t\|/, '... and there are some');
		}
	}
	is(query('SELECT bool_and(dagcbor_is_intact(value)), bool_and(cid::bytea = $$\x01711220$$ || sha256(value::bytea)) FROM packed.record', @old), 't|t',
		"$when, each value of dagcbor is the record of its CID");
	return;
}

# --- what the present version makes ---

query("CREATE SCHEMA packed; SELECT atproto.create_tables('packed', 'dagcbor')");
foreach my $name (sort keys %targets)
{
	query(subscribe_sql($name, $server, target => "'$targets{$name}'", cursor => 0, events => "'keep'", links => "'all'", validate => "'flag'", count_collections => 'true'));
	wait_for_seq($node, $name, $held - 1);
	query("SELECT atproto.count_links('$counted', '$targets{$name}')");
}

# --- the dump loads ---

IPC::Run::run([ 'gzip', '-dc', capture('dump_of_70bc1da.sql.gz') ], '>', \my $dump) or BAIL_OUT('gzip failed');
my ($port) = $server->url =~ /:(\d+)/;
$dump =~ s/\@PORT\@/$port/g;
$dump =~ s/\@OWNER\@/$owner/g;
append_to_file($file, $dump);
query('CREATE DATABASE old TEMPLATE template0');
$node->command_ok([ 'psql', '--host', $node->host, '--port', $node->port, '--username', $owner, '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-f', $file, 'old' ],
	'the dump loads');
is(query("SELECT atproto.create_tables('$_')", @old), '', "create_tables() adds what the tables lack: $_") foreach sort values %targets;
is_same('restored');
is(query('SELECT count(*) > 0 FROM atproto.record WHERE value IS NULL', @old), 't', 'there are records that jsonb cannot hold');
is(query($_, @old), query($_), "the same stored bytes: $_")
  foreach 'SELECT sum(pg_column_size(collection)) FROM atproto.record', 'SELECT sum(pg_column_size(value)) FROM packed.record';

# --- it goes on ---

query("SELECT atproto.resume('$_')", @old) foreach sort keys %targets;
$server->release;
foreach my $name (sort keys %targets)
{
	wait_for_seq($node, $name, $PDS_LAST);
	wait_for_seq($node, $name, $PDS_LAST, 'old');
}
is_same('at the end of the stream');

# record_links() does not read values of the type dagcbor yet
expect_check('link of no record', qr/^link of no record\|packed\|/, maybe => 1);

done_testing();
