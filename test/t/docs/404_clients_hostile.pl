# 404_clients_hostile.pl
#		Strangers write values that programs may not be able to read: times in the years 0 and 10000, texts
#		that look like something else, numbers without end, halves of characters.  Each driver reads each
#		table and view, in the time zones that are farthest from UTC, without an error.
#
#		Needs the drivers of 400_clients_python, 401_clients_node and 402_clients_others; python3-pandas, too.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Clients;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = client_server('hostile');
my $python = $ENV{PYTHON} || '/usr/bin/python3';
my $programs = test_dir() . '/clients';
my ($JDBC) = grep { -e } '/usr/share/java/postgresql.jar';
my ($GOPATH) = grep { -d "$_/src/github.com/jackc/pgx" } '/usr/share/gocode';

# --- the values ---

# A Lexicon with a field of each type, and a view of it.
my %formats = (moment => 'datetime', uri => 'at-uri', did => 'did', handle => 'handle', nsid => 'nsid', tid => 'tid', key => 'record-key', cid => 'cid');
my %types = (whole => 'integer', flag => 'boolean', link => 'cid-link', bytes => 'bytes', blob => 'blob', any => 'unknown', text => 'string');
my @fields = ((map { qq("$_": {"type": "string", "format": "$formats{$_}"}) } sort keys %formats), (map { qq("$_": {"type": "$types{$_}"}) } sort keys %types),
	'"moments": {"type": "array", "items": {"type": "string", "format": "datetime"}}', '"dids": {"type": "array", "items": {"type": "string", "format": "did"}}',
	'"texts": {"type": "array", "items": {"type": "string"}}', '"wholes": {"type": "array", "items": {"type": "integer"}}', '"list": {"type": "array", "items": {"type": "unknown"}}');
query(sprintf q{SELECT atproto.load_lexicon('{"lexicon": 1, "id": "com.example.every", "defs": {"main": {"type": "record", "key": "any", "record": {"type": "object", "properties": {%s}}}}}')}, join ', ', @fields);

# Jetstream, with halves of characters, and the first and the last time.
my $who = did('e');
my $texts = write_capture(PostgreSQL::Test::Utils::tempdir() . '/texts',
	qq({"did":"$who","time_us":1,"kind":"commit","commit":{"rev":"2222222222222","operation":"create","collection":"com.example.every","rkey":"x","cid":"bafyreidfayvfuwqa7qlnopdjiqrxzs6blmoeu4rujcjtnci5beludirz2a","record":{"\$type":"com.example.every","text":"\\ud800\\u0000"}}}),
	qq({"did":"$who","time_us":2,"kind":"account","account":{"did":"$who","seq":1,"time":"0000-01-01T00:00:00Z","active":false,"status":"\\udc00\\ufffd"}}),
	qq({"did":"$who","time_us":3,"kind":"identity","identity":{"did":"$who","seq":1,"time":"0000-01-01T00:00:00Z","handle":"a.b"}}),
	qq({"did":"$who","time_us":4,"kind":"account","account":{"did":"$who","seq":1,"time":"9999-12-31T23:59:59-12:00","active":true}}),
	qq({"did":"$who","time_us":9007199254740991,"kind":"commit","commit":{"rev":"2222222222223","operation":"delete","collection":"com.example.every","rkey":"x"}}));
my %server = (
	records => AtprotoTest::Server->start(make_capture('hostile.py', 'records')),
	labels  => AtprotoTest::Server->start(make_capture('hostile.py', 'labels')),
	texts   => AtprotoTest::Server->start($texts));
my %options = (
	records => { keep_raw => 'true', events => "'keep'", links => "'all'" },
	labels  => { nsid => 'com.atproto.label.subscribeLabels' },
	texts   => { events => "'keep'" });
foreach my $name (sort keys %server)
{
	query("CREATE SCHEMA $name; " . subscribe_sql($name, $server{$name}, cursor => 0, target => "'$name'", %{ $options{$name} }));
}
query(q{SELECT atproto.create_view('com.example.every', target => 'records', schema => 'api')});
wait_for_seq($node, 'records', scalar(() = read_capture($server{records}{capture})));
wait_for_seq($node, 'labels', scalar(() = read_capture($server{labels}{capture})));
wait_for("SELECT sum(events) = 5 FROM atproto.cursor WHERE subscription = 'texts'");

# The values are there as they are, as NULL, or in a dead letter.
is(query(q{SELECT count(moment), min(moment) = '0001-01-02Z', max(moment) = '9999-12-30 23:59:59.999999Z' FROM api.com_example_every}), '6|t|t', 'times that can be read, and no others');
is(query(q{SELECT count(*) FROM records.repo WHERE status_at = '0001-01-02Z'}), '5', 'what accounts said before is long ago');
is(query(q{SELECT subscription, event_time AT TIME ZONE 'UTC' FROM atproto.cursor ORDER BY 1}),
	"labels|0001-01-02 00:00:00\nrecords|9999-12-30 23:59:59.999999\ntexts|2255-06-05 23:47:34.740991", 'the time of the last event');
is(query('SELECT count(*), bool_or(message ~ $$not valid UTF-8$$), bool_or(message ~ $$surrogate$$) FROM atproto.dead_letter'), '7|t|t', 'and seven that nothing can hold');

# Rows of work that is due at once: the time of the next try must be a time that drivers can read, too.
query(sprintf q{INSERT INTO atproto.identity (did, state) VALUES ('%1$s', 'wanted'); INSERT INTO atproto.identity_request (did, web, next_try) SELECT '%1$s', false, next_try FROM (SELECT handle_next AS next_try FROM atproto.identity) i;
	INSERT INTO atproto.repo_job (target, did, subscription, priority, reason) VALUES ('records', '%1$s', 'records', 3, 'test');
	INSERT INTO atproto.enumeration (subscription, source, started_at) VALUES ('records', 'test', now())}, did('a'));

# --- every table and view, and what functions give ---

my @queries = split /\n/, query(<<'SQL');
SELECT 'SELECT * FROM ' || c.oid::regclass FROM pg_class c WHERE relnamespace = ANY ('{atproto,records,labels,texts,api}'::regnamespace[]) AND relkind IN ('r', 'p', 'v') ORDER BY 1
SQL
push @queries, (
	'SELECT tid_timestamp(t), tid_micros(t), t, recordkey_timestamp(r), r FROM unnest(ARRAY[$$2222222222222$$, $$bzzzzzzzzzzzz$$, $$jzzzzzzzzzzzz$$]::atproto.tid[]) t, recordkey(t) r',
	'SELECT try_datetime(value->>$$text$$), atproto.record_field(value, $${moments}$$, NULL::timestamptz[]), try_did(value->>$$did$$) FROM records.record',
	'SELECT dagcbor_to_jsonb(raw) FROM records.record WHERE value IS NOT NULL');
my @counts = map { query("SELECT count(*) FROM ($_) q") } @queries;
cmp_ok(scalar(grep { $_ > 0 } @counts), '>', 15, 'there are rows in many tables');

# A driver's program must say how many rows it has read of each query.
sub reads_all
{
	my ($what, @command) = @_;

	foreach my $zone ('Etc/GMT+12', 'Etc/GMT-14')
	{
		my ($out, $err) = ('', '');
		query("ALTER DATABASE postgres SET TimeZone = '$zone'");
		IPC::Run::run(\@command, '<', \join("\n", @queries), '>', \$out, '2>', \$err);
		my @lines = split /\n/, $out;
		is(join("\n", grep { !/^\d+$/ } @lines) . $err, '', "$what reads everything at $zone");
		is(scalar(@lines), scalar(@queries), "$what: each result");
	}
	return;
}

$ENV{DATABASE_URL} = client_url('postgres');
foreach my $module (qw(psycopg psycopg2 pandas asyncpg))
{
  SKIP:
	{
		skip "$python has no $module", 4 unless works($python, '-c', "import $module");
		reads_all($module, $python, '-B', "$programs/read_all.py", $module);
	}
}

my $npm = npm_directory();
foreach my $module (qw(pg postgres))
{
  SKIP:
	{
		skip $NO_NPM, 4 unless defined $npm;
		# Node looks for packages from the directory of the program on
		append_to_file("$npm/$module.mjs", slurp_file("$programs/read_all.mjs"));
		reads_all($module, 'node', "$npm/$module.mjs", $module);
	}
}

SKIP:
{
	skip 'there is no JDBC', 4 unless $JDBC && works('javac', '-version');
	local $ENV{JDBC_URL} = 'jdbc:postgresql://127.0.0.1:' . $node->port . '/postgres?user=postgres';
	reads_all('JDBC', 'java', '-cp', $JDBC, "$programs/ReadAll.java");
}

SKIP:
{
	skip 'there is no Go with pgx', 4 unless $GOPATH && works('go', 'version');
	local @ENV{qw(GO111MODULE GOPATH GOCACHE)} = ('off', $GOPATH, PostgreSQL::Test::Utils::tempdir('go'));
	reads_all('pgx', 'go', 'run', "$programs/read_all.go");
}

done_testing();
