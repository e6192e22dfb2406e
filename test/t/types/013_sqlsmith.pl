# 013_sqlsmith.pl
#		sqlsmith (Debian's package of this name) makes up statements over tables with columns of all types,
#		and sends the statements as a role without rights.  No statement may crash the server.  A short run
#		with a fixed seed; by hand a long one, as SQLSMITH_QUERIES=1000000 SQLSMITH_SEED=2 make check-tap
#		PROVE_TESTS=test/t/types/013_sqlsmith.pl

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $queries = $ENV{SQLSMITH_QUERIES} || 1500;
my $seed    = $ENV{SQLSMITH_SEED}    || 1;

plan skip_all => 'there is no sqlsmith'
  unless grep { -x "$_/sqlsmith" } split /:/, $ENV{PATH};

my $node = make_node('sqlsmith',
	conf => "log_min_messages = log\nlog_min_error_statement = panic\nfsync = off\n");
$node->safe_psql('postgres', <<'EOQ');
CREATE ROLE nobody_special LOGIN;
ALTER ROLE nobody_special SET statement_timeout = '2s';
ALTER ROLE nobody_special SET client_min_messages = 'error';
GRANT CREATE ON SCHEMA public TO nobody_special;
SET ROLE nobody_special;
CREATE TABLE one (a aturi, n noshuri, t atproto.tid, d did, h handle, s nsid, r recordkey, c cidlink, v dagcbor);
CREATE TABLE two (a aturi(lexicon), n noshuri(strict), d did(blessed), r recordkey('any'), c cidlink(blessed),
	b bytea, j jsonb, x text, w timestamptz, i int, l strongref, aa aturi[]);
INSERT INTO one SELECT ('at://' || d || p)::aturi, ('nosh://' || i || p)::noshuri, atproto.tid('2024-01-01Z'::timestamptz + i * interval '1 day', i),
	d::did, ('h' || i || '.Example.com')::handle, ('com.example.n' || i)::nsid, ('r' || i)::recordkey, cidlink_of(i::text::bytea),
	format('{"n": %s, "uri": "at://%s"}', i, d)::dagcbor
FROM generate_series(1, 5) i, unnest('{did:plc:44ybard66vv44zksje25o7dz,did:web:a.b}'::text[]) d,
	unnest('{"",/app.bsky.feed.post/3jwdwj2ctlk26,/a/b?c#/d}'::text[]) p;
INSERT INTO two SELECT aturi(d), 'nosh://1/a.b.c', d, r, c, '\xa0', '{}', 'app.bsky.*', now(), 0, ROW(a, c)::strongref, ARRAY[a] FROM one;
CREATE INDEX ON one (a);
CREATE INDEX ON one (d);
CREATE INDEX ON one USING brin (t);
CREATE INDEX ON two USING hash (a);
ANALYZE one, two;
EOQ

my $err = '';
IPC::Run::run([ 'sqlsmith', '--target=' . $node->connstr('postgres') . ' user=nobody_special', "--seed=$seed",
		"--max-queries=$queries", '--exclude-catalog', '--verbose' ], '<', \undef, '>', '/dev/null', '2>', \$err);

my ($ok) = (0, $err =~ /select_list: \d+\/(\d+) \(bad\/ok\)/g)[-1];
cmp_ok($ok, '>', $queries / 10, "many of sqlsmith's statements have results") or diag $err;
unlike(slurp_file($node->logfile), qr/terminated by signal|TRAP:/, "no process of the server has ended by a signal (seed $seed)");

$node->stop;
done_testing();
