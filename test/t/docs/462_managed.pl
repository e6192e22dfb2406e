# 462_managed.pl
#		The statements of doc/operate/managed.md: a server without the extension has a copy of the tables, by
#		logical replication into columns of type text.  The copy follows creations, updates and deletions.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Pages;
use PostgreSQL::Test::Utils;
use Test::More;

my $page    = 'doc/operate/managed.md';
my $held    = 800;
my $own     = make_node('own', init => { allows_streaming => 'logical' });
my $server  = AtprotoTest::Server->start(capture('pds.frames.gz'), '--hold-at', $held);
my ($publish, $subscribe, $query) = map { $_->{text} } blocks($page, 'sql');

query(subscribe_sql('me', $server, cursor => 0));
wait_for_seq($own, 'me', $held - 1);
query(q{SELECT atproto.partition('atproto', 'collection', '{app.bsky.feed.post}')});    # the copy is one table nevertheless
$own->safe_psql('postgres', $publish);

my $managed = make_node('managed', preload => 0, create => 0);
my $connect = 'host=' . $own->host . ' port=' . $own->port . ' dbname=postgres user=managed';
$subscribe =~ s/CONNECTION '.*?'/CONNECTION '$connect'/ or BAIL_OUT('the page has no connection');
$managed->safe_psql('postgres', $subscribe);

# Both servers have the same rows, as text.
my %columns = (record => 'did, collection, rkey, cid, rev, indexed_at, value', repo => 'did, handle, active, status, sync, verified');
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
cmp_ok(scalar(split /\n/, $managed->safe_psql('postgres', $query)), '>', 3, 'the query of the page has answers');
is($managed->safe_psql('postgres', 'SELECT count(*) FROM pg_extension WHERE extname = $$atproto$$'), '0', 'without the extension');

$managed->stop;
$own->stop;
done_testing();
