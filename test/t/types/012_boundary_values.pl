# 012_boundary_values.pl
#		A role without rights calls every function and aggregate of the extension with all combinations of
#		boundary values of the argument types: NULL, least and greatest, empty, longest, type modifiers that
#		do not exist.  No call may crash the server or end in an internal error.  Of a function with very
#		many combinations, a fixed choice is tried.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use Digest::SHA qw(sha256);
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

my $COMBINATIONS = 400;    # of one function

my $plc = 'did:plc:44ybard66vv44zksje25o7dz';
my @int = qw(0 1 -1 2 3 4 5 6 1023 1024 55555 2147483647 -2147483648);

# Expressions of SQL, without NULL.
my %values = (
	boolean            => [qw(true false)],
	integer            => \@int,
	bigint             => [ @int, qw(9223372036854775807 -9223372036854775808) ],
	oid                => [qw(0 1 23 4294967295)],
	name               => [ q{''}, q{'public'}, q{repeat('x', 63)}, q{'no such schema'} ],
	cstring            => [ map { "$_\::cstring" } q{''}, q{'abc'}, q{'any'}, q{'3jwdwj2ctlk26'}, q{'self'}, "'$plc'", q{'did:web:a%3A1'},
		"'at://$plc/a.b.c/self'", q{'nosh://1/a.b.c/self'}, q{'a.b.c'}, q{'bafyreidfayvfuwqa7qlnopdjiqrxzs6blmoeu4rujcjtnci5beludirz2a'}, q{E'\x01'} ],
	'cstring[]'        => [ map { "$_\::cstring[]" } q{'{}'}, q{'{NULL}'}, q{'{""}'}, q{'{any}'}, q{'{blessed}'}, q{'{strict}'}, q{'{strict,strict}'}, q{'{{a,b},{c,d}}'} ],
	text               => [ q{''}, q{'abc'}, "'$plc'", q{'at://A.b/../C.d.e//%7e?#/'}, q{'nosh://DID:1/'}, q{'tid'}, q{'literal:'}, q{'*'}, q{'a.*'}, q{'raw'},
		q{'%'}, q{'%2'}, q{'å'}, q{repeat('a.', 126) || 'a'}, q{repeat('a', 8192)}, q{'at://' || repeat('%25', 2729)}, q{repeat('å/', 300000)} ],
	anyelement         => [ qw(NULL::text NULL::bigint NULL::boolean NULL::jsonb NULL::timestamptz NULL::did[] '{}'::cidlink[] NULL::atproto.tid 1 NULL::point) ],
	'text[]'           => [ q{'{}'}, q{'{NULL}'}, q{'{a.b.c,*}'}, q{'{{a,b},{c,d}}'}, q{array_fill('x'::text, '{2000}')} ],
	bytea              => [ q{''}, q{'\x00'}, q{'\xff'}, q{'\xa0'}, q{'\x9bffffffffffffffff'}, q{'\x5bffffffffffffffff'}, q{'\xd82a'},
		q{'\x01711220' || sha256('')}, q{'\x0171ffffffffffffffffff01'}, q{'\x80808080808080808001'}, q{'\xa16261'},
		q{decode(repeat('81', 100000), 'hex')}, q{decode(repeat('a16161', 100000), 'hex')}, q{decode(repeat('00', 1000000), 'hex')} ],
	json               => [ map { "$_\::json" } q{'null'}, q{' {} '}, q{'[]'}, q{'1e400'}, q{'-0'}, q{'"\ud800"'}, q{'{"a": 1, "a": 2}'}, q{'{"$link": 1}'},
		'(repeat(\'[\', 500) || repeat(\']\', 500))' ],
	jsonb              => [ map { "$_\::jsonb" } q{'null'}, q{'{}'}, q{'[]'}, q{'1e400'}, q{'-9223372036854775809'}, q{'{"$link": 1}'}, q{'{"$bytes": "="}'},
		q{'{"": "\\u00e5"}'}, q{(repeat('[', 5000) || repeat(']', 5000))}, q{(repeat('{"a":', 5000) || '1' || repeat('}', 5000))},
		q~(SELECT jsonb_build_object('facets', jsonb_agg(f), 'tags', jsonb_agg(f)) FROM jsonb_array_elements('[null, 1, {}, [], {"features": 1}]') f)~,
		q~(SELECT jsonb_build_object('facets', jsonb_agg(f), 'tags', jsonb_agg('#' || n), 'abc', 'x') FROM generate_series(1, 10000) n,
			jsonb_build_object('features', jsonb_build_array(jsonb_build_object('$type', 'app.bsky.richtext.facet#tag', 'tag', 't' || n), jsonb_build_object('$type', 'app.bsky.richtext.facet#mention', 'did', 'did:a:' || n))) f)~,
		q~('{"$type": "a.b.c", "a":' || repeat('{"a":', 5000) || '1' || repeat('}', 5001))~,
		q~'{"lexicon": 1, "id": "a.b.c", "defs": {"main": {"type": "record", "key": "any", "record": {"type": "object", "properties": {"a": {"type": "ref", "ref": "#x"}}}}, "x": {"type": "object", "properties": {"a": {"type": "ref", "ref": "#x"}}}}}'~ ],
	'double precision' => [ map { "$_\::float8" } qw(0 -1 1e308 'NaN' 'infinity') ],
	interval           => [ q{'0'}, q{'-1 day'}, q{'1 microsecond'}, q{'178000000 years'}, q{'-178000000 years'}, q{'2147483647 days 1 year'} ],
	'timestamp with time zone' => [ map { "$_\::timestamptz" } q{'-infinity'}, q{'infinity'}, q{'4713-01-01 00:00+00 BC'}, q{'1969-12-31 23:59:59.999999+00'},
		q{'1970-01-01 00:00+00'}, q{'2255-06-05 23:47:34.740991+00'}, q{'2255-06-05 23:47:34.740992+00'}, q{'294276-12-31 23:59:59.999999+00'} ],
	'atproto.tid'      => [qw('2222222222222' '22222222222zz' '3jwdwj2ctlk26' 'bzzzzzzzzzzzz' 'c222222222222' 'jzzzzzzzzzzzz')],
	did                => [ "'$plc'", qw('did:a:b' 'did:plc:a' 'did:web:A%3a1'), q{('did:web:' || repeat('a', 2040))}, q{('did:a:' || repeat('%25', 680))} ],
	'did[]'            => [ q{'{}'}, q{'{NULL}'}, q{'{did:a:b}'} ],
	handle             => [ q{'a.b'}, q{(repeat('a.', 126) || 'b')} ],
	nsid               => [ q{'a.b.c'}, q{(repeat(repeat('a', 31) || '.', 8) || repeat('b', 61))}, q{(repeat('a.', 127) || repeat('b', 63))} ],
	'nsid[]'           => [ q{'{}'}, q{'{NULL}'}, q{'{a.b.c}'}, q{'{{a.b.c,d.e.f},{a.b.c,d.e.f}}'}, q{array_fill('a.b.c'::nsid, '{3}')} ],
	recordkey          => [ q{'a'}, q{'3jwdwj2ctlk26'}, q{'jzzzzzzzzzzzz'}, q{':'}, q{repeat('~', 512)} ],
	cidlink            => [ q{'bafyreidfayvfuwqa7qlnopdjiqrxzs6blmoeu4rujcjtnci5beludirz2a'}, q{'\x01550000'::bytea}, q{('\x0155005e'::bytea || decode(repeat('aa', 94), 'hex'))} ],
	dagcbor            => [ map { "$_\::dagcbor" } q{'null'}, q{'{}'}, q{'[[], {}]'}, q{'{"abc": "\u0000", "": [1, 2]}'}, q{'\xfb3ff8000000000000'}, q{'\xa165246c696e6b05'},
		q{'{"$bytes": ""}'}, q{(repeat('[', 128) || repeat(']', 128))}, q{('[' || repeat('null,', 100000) || '0]')} ],
	aturi              => [ "'at://a'", "'at://$plc'", "'at://$plc/app.bsky.feed.post/3jwdwj2ctlk26'", "'at://$plc/a.b.c/x#/text'", "'at://$plc?#/'",
		q{'at://did%3Aplc3Aabc'}, q{'at://%64id:plc/..'}, q{('at://' || repeat('~', 8187))}, "('at://$plc/' || repeat('a', 8154))",
		"('at://$plc#/' || repeat('~', 8153))", q{('at://a' || repeat('/a', 4093))}, q{('at://did:web:' || repeat('a', 2040) || '?')} ],
);
$values{noshuri} = [ map { s{at://}{nosh://}r =~ s{8187}{8185}r =~ s{8154}{8152}r =~ s{8153}{8151}r =~ s{4093}{4092}r } @{ $values{aturi} } ];

my $node = make_node('boundaries', conf => "log_min_messages = log\nlog_min_error_statement = panic\nfsync = off\n");
$node->safe_psql('postgres', 'CREATE ROLE nobody_special LOGIN');

# Name, whether a set is returned, and argument types of all functions callable in SQL.
my @functions = map { [ split /\|/, $_, -1 ] } split /\n/, $node->safe_psql('postgres', <<'EOQ');
SELECT p.oid::regproc, p.proretset, array_to_string(ARRAY(SELECT format_type(t, NULL) FROM unnest(p.proargtypes) WITH ORDINALITY a (t, n) ORDER BY n), ',')
FROM pg_proc p JOIN pg_depend d ON d.objid = p.oid
WHERE d.classid = 'pg_proc'::regclass AND d.deptype = 'e' AND d.refclassid = 'pg_extension'::regclass
	AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'atproto')
	AND 'internal'::regtype <> ALL (p.proargtypes) AND p.prorettype <> 'trigger'::regtype
ORDER BY p.oid::regprocedure::text COLLATE "C"
EOQ
cmp_ok(scalar @functions, '>', 200, 'the functions are found');
is_deeply([ grep { !$values{$_} } map { split /,/, $_->[2] } @functions ], [], 'there are values of all types');

# All combinations of arguments, or a fixed choice of them.
sub combinations
{
	my @types = @_;
	my @lists = map {
		my $type = $_;
		$type =~ /^any/ ? $values{$type} : [ "NULL::$type", map { "($_)::$type" } @{ $values{$type} } ]
	} @types;
	my $n = 1;
	$n *= @$_ foreach @lists;

	return map {
		my $i = $_;
		join ', ', map { my $v = $_->[ $i % @$_ ]; $i = int($i / @$_); $v } @lists
	} 0 .. $n - 1 if $n <= $COMBINATIONS;
	return map { join ', ', map { $_->[ int(rand @$_) ] } @lists } 1 .. $COMBINATIONS;
}

srand(1);
my @calls;
foreach my $f (@functions)
{
	my ($name, $set, $types) = @$f;

	push @calls, map { ("SELECT $name($_);", $set eq 't' ? "SELECT * FROM $name($_) LIMIT 1;" : ()) }
	  combinations(split /,/, $types);
}
note(scalar(@calls) . ' calls');

my $script = PostgreSQL::Test::Utils::tempdir('boundaries') . '/calls.sql';
append_to_file($script, join "\n", '\o /dev/null', "SET statement_timeout = '60s';", @calls, '\o', q{SELECT 'survived';}, '');
my ($out, $err) = ('', '');
IPC::Run::run([ 'psql', '-XqAt', '-U', 'nobody_special', '-d', $node->connstr('postgres'), '-f', $script ], '<', \undef, '>', \$out, '2>', \$err);

is($out, "survived\n", 'the session lives after the last call');
unlike($err, qr/statement timeout/, 'no call takes long');
unlike($err, qr/cache lookup failed|stored \w+ is not valid|XX\d{3}/, 'no call ends in an internal error');
unlike(slurp_file($node->logfile), qr/terminated by signal|TRAP:/, 'no process of the server has ended by a signal');
cmp_ok(scalar(() = $err =~ /invalid type modifier/g), '>', 50, 'modifiers that do not exist are refused');

# --- a call with much work can be interrupted ---

# A CAR file of a commit and of empty blocks, in hexadecimal.  A section is its length, the block's CID, the block.
sub large_car
{
	my ($nblocks) = @_;
	my $cid    = sub { pack('C4', 1, $_[0], 0x12, 0x20) . sha256($_[1]) };
	my $link   = sub { "\xd8\x2a\x58\x25\0" . $cid->(0x71, $_[0]) };
	my $commit = "\xa6cdidx\x20${plc}crevm3jt5tsfbx2s2acsigX\x40" . "\1" x 64 . 'ddata' . $link->('');
	my $header;

	$commit .= "dprev\xf6gversion\3";
	$header = "\xa2eroots\x81" . $link->($commit) . "gversion\1";
	return unpack 'H*', pack('C', length $header) . $header .
	  pack('C2', 0x80 | (36 + length $commit) % 128, int((36 + length $commit) / 128)) . $cid->(0x71, $commit) . $commit .
	  (pack('C', 36) . $cid->(0x55, '')) x $nblocks;
}

query('CREATE TABLE large AS SELECT decode($$' . large_car(500_000) . '$$, $$hex$$) AS car; CREATE SEQUENCE after_it');

# A function that serves an interrupt ends, so that nextval() is not called any more.
sub can_be_cancelled
{
	my ($call, $result, $name) = @_;
	my $sql = "SELECT $call, nextval('after_it') FROM large";
	my ($began, $cancelled) = (time, 0);

	query("SELECT setval('after_it', 1, false)");
	like(query($sql), $result, "$name: it is looked at");
	my $took = time - $began;
	# the first time may have been the slowest: then the timeout comes too late, and a shorter one is tried
	for (my $i = 0; $i < 20 && !$cancelled; $i++)
	{
		query("SELECT setval('after_it', 1)");
		my (undef, undef, $state) = $node->psql('postgres', sprintf("SET statement_timeout = '%dms'; %s", 1 + $took * (600 - 25 * $i), $sql));
		$cancelled = $state =~ /canceling statement due to statement timeout/ && query('SELECT last_value FROM after_it') == 1;
	}
	ok($cancelled, "$name: and the statement can be cancelled meanwhile");
	return;
}
can_be_cancelled(q{atproto.invert(car, '[]')}, qr/^bafyrei\w+\|1$/, 'a commit with very many blocks');
query(q{ALTER TABLE large ADD json json, ADD dagcbor bytea; UPDATE large SET
	json = ('{' || (SELECT string_agg(format('"k%s":[1,2,3]', (i * 7919::bigint) % 1000003), ',') FROM generate_series(1, 500000) i) || '}')::json,
	dagcbor = decode('9a01312d00' || repeat('01', 20000000), 'hex')});
can_be_cancelled('length(json_to_dagcbor(json))', qr/^\d+\|1$/, 'JSON with very many keys');
can_be_cancelled('dagcbor_links(dagcbor)', qr/^$/, 'DAG-CBOR with very many items');

$node->stop;
done_testing();
