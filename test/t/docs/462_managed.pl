# 462_managed.pl
#		The statements of doc/operate/managed.md: a server without the extension has a copy of the tables, by
#		logical replication into columns of type text.  The copy follows creations, updates and deletions, and what
#		the page says of moved rows, truncation, restarts and replica identity.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Pages;
use PostgreSQL::Test::Utils;
use Test::More;

# with values of the type dagcbor, the columns are others: below
delete $ENV{ATPROTO_VALUE};

my $page    = 'doc/operate/managed.md';
my $held    = 800;
my $own     = make_node('own', init => { allows_streaming => 'logical' });
my $server  = AtprotoTest::Server->start(capture('pds.frames.gz'), '--hold-at', $held);
my ($publish, $subscribe, $view) = map { $_->{text} } blocks($page, 'sql');

query(subscribe_sql('me', $server, cursor => 0));
wait_for_seq($own, 'me', $held - 1);
query(q{SELECT atproto.partition('atproto', 'collection', '{app.bsky.feed.post}')});    # the copy is one table nevertheless
$own->safe_psql('postgres', $publish);

my $managed = make_node('managed', preload => 0, create => 0);
my $connect = 'host=' . $own->host . ' port=' . $own->port . ' dbname=postgres user=managed';
$subscribe =~ s/CONNECTION '.*?'/CONNECTION '$connect'/ or BAIL_OUT('the page has no connection');
$managed->safe_psql('postgres', $subscribe);

sub on_own
{
	return $own->safe_psql('postgres', $_[0]);
}

# Both servers have the same rows, as text.
my %columns = (record => 'did, collection, rkey, cid, rev, indexed_at, value', repo => 'did, handle, active, status, hidden_at, sync, verified');
sub rows
{
	my ($node, $table) = @_;
	return $node->safe_psql('postgres', "SELECT count(*), md5(string_agg(t::text, E'\\n' ORDER BY t::text COLLATE \"C\")) FROM (SELECT $columns{$table} FROM atproto.$table) t");
}
sub same
{
	my ($when) = @_;

	$own->wait_for_catchup('atproto');
	$managed->poll_query_until('postgres', "SELECT bool_and(srsubstate = 'r') FROM pg_subscription_rel") or BAIL_OUT('the copy does not come');
	is(rows($managed, $_), rows($own, $_), "$when: $_ is the same") foreach sort keys %columns;
	return;
}

$managed->poll_query_until('postgres', "SELECT count(*) = 2 AND bool_and(srsubstate = 'r') FROM pg_subscription_rel") or BAIL_OUT('the copy does not come');
same('the rows that were there');
cmp_ok($managed->safe_psql('postgres', 'SELECT count(*) FROM atproto.record'), '>', 500, 'there are some');
$server->release;
wait_for_seq($own, 'me', $PDS_LAST);
same('the rows that came later');
my ($shown) = $view =~ /^(SELECT.*)$/m or BAIL_OUT('the page has no query');
$managed->safe_psql('postgres', $view);
cmp_ok(scalar(split /\n/, $managed->safe_psql('postgres', $shown)), '>', 3, 'the query of the page has answers');

# Values of the type dagcbor arrive as text, also those that jsonb cannot hold.
on_own(q{CREATE SCHEMA packed; SELECT atproto.create_tables('packed', value => 'dagcbor');
	GRANT USAGE ON SCHEMA packed TO managed; GRANT SELECT ON packed.record TO managed;
	INSERT INTO packed.record (did, collection, rkey, cid, rev, value) SELECT did, collection, rkey, cid, rev, coalesce(raw::dagcbor, value::dagcbor) FROM atproto.record WHERE rkey < '4';
	CREATE PUBLICATION packed FOR TABLE packed.record (did, collection, rkey, cid, rev, value)});
$managed->safe_psql('postgres', 'CREATE SCHEMA packed; CREATE TABLE packed.record (did text COLLATE "C", collection text COLLATE "C", rkey text COLLATE "C", cid text, rev text, value text, PRIMARY KEY (did, collection, rkey))');
$managed->safe_psql('postgres', "CREATE SUBSCRIPTION packed CONNECTION '$connect' PUBLICATION packed");
$managed->poll_query_until('postgres', "SELECT bool_and(srsubstate = 'r') FROM pg_subscription_rel") or BAIL_OUT('the copy of dagcbor does not come');
on_own(q{INSERT INTO packed.record (did, collection, rkey, cid, rev, value) SELECT did, collection, rkey, cid, rev, coalesce(raw::dagcbor, value::dagcbor) FROM atproto.record WHERE rkey >= '4';
	UPDATE packed.record SET value = '{"text": "\u0000"}' WHERE rkey = (SELECT max(rkey) FROM packed.record)});
$own->wait_for_catchup('packed');
my $texts = q{SELECT count(*), count(*) FILTER (WHERE value::text LIKE '%\\u0000%') > 1, md5(string_agg(concat_ws(' ', did, collection, rkey, cid, rev, value), '' ORDER BY did::text COLLATE "C", collection::text COLLATE "C", rkey::text COLLATE "C")) FROM packed.record};
is($managed->safe_psql('postgres', $texts), on_own($texts), 'values of the type dagcbor arrive as text');
like($managed->safe_psql('postgres', $texts), qr/^\d{3,}\|t\|/, 'also with U+0000');
$managed->safe_psql('postgres', 'DROP SUBSCRIPTION packed');
on_own('DROP SCHEMA packed CASCADE; DROP PUBLICATION packed');

# What else happens on the publisher.
my $account = q{(SELECT did FROM atproto.record GROUP BY did ORDER BY count(*) DESC, did LIMIT 1)};
on_own("UPDATE atproto.repo SET active = false, status = 'deactivated' WHERE did = $account");
same('an account that is not active');
cmp_ok($managed->safe_psql('postgres', "SELECT count(*) FROM atproto.visible_record WHERE did = $account"), '==', 0, 'the view does not show its records');
on_own("DELETE FROM atproto.record WHERE did = $account");
same('its records are deleted');
on_own(q{SELECT atproto.partition('atproto', 'collection', '{app.bsky.feed.post,app.bsky.feed.like}')});
same('rows moved into a partition');
$managed->stop('immediate');
$managed->start;
$own->stop('immediate');
$own->start;
on_own(q{SELECT atproto.refill('me', seq => 1)});
wait_for_seq($own, 'me', $PDS_LAST);
$own->poll_query_until('postgres', 'SELECT count(*) = 0 FROM atproto.repo WHERE refill_by IS NOT NULL');
cmp_ok(on_own("SELECT count(*) FROM atproto.record"), '>', 500, 'a refill after crashes of both');
same('what the refill has brought');

# A publication with a list of columns, and REPLICA IDENTITY FULL: the page warns.
on_own('ALTER TABLE atproto.repo REPLICA IDENTITY FULL');
like(($own->psql('postgres', 'UPDATE atproto.repo SET sync = sync'))[2], qr/replica identity/, 'REPLICA IDENTITY FULL: an update is refused');
on_own('ALTER TABLE atproto.repo REPLICA IDENTITY DEFAULT');
on_own('TRUNCATE atproto.record');
same('a truncated table');
is($managed->safe_psql('postgres', 'SELECT count(*) FROM pg_extension WHERE extname = $$atproto$$'), '0', 'without the extension');

$managed->stop;
$own->stop;
done_testing();
