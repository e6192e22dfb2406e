# 010_types_binary.pl
#		The binary format of the identifier types: COPY writes and reads all values unchanged, and every
#		receive function refuses random bytes or keeps them unchanged.  Also a dump and restore of columns
#		with type modifiers.

use strict;
use warnings FATAL => 'all';

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $dir = PostgreSQL::Test::Utils::tempdir();
my $node = PostgreSQL::Test::Cluster->new('types');
$node->init(extra => [ '--encoding=UTF8', '--locale=C' ]);
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION atproto');
my $started = $node->safe_psql('postgres', 'SELECT pg_postmaster_start_time()');

my $plc = 'did:plc:44ybard66vv44zksje25o7dz';
my $cid = join '', map { chr hex } '0171122065062a5a5a00fc16d73c6944237ccbc15b1c4a7234489336891d091741a239d0' =~ /../g;
# For each type: valid external binary values, and invalid ones.
my %cases = (
	'did' => {
		valid => [ $plc, 'did:web:localhost%3A1234', 'did:m:' . 'v' x 2042 ],
		invalid => [ '', 'did:plc', "$plc\0", "did:m:v\0x", "\x01" . 'x' x 15, "did:m:\xff", 'did:m:' . 'v' x 2043 ]
	},
	'did(blessed)' => { valid => [$plc], invalid => ['did:key:x'] },
	'handle' => {
		valid => ['a.b'],
		invalid => [ '', 'a', "a.b\0", "\xc3\xa9.com", 'a.' x 200 . 'b' ]
	},
	'nsid' => {
		valid => ['a.b.c'],
		invalid => [ '', 'a.b', "a.b.c\0", "a.b.\x80" ]
	},
	'recordkey' => {
		valid => [ 'self', '3jwdwj2ctlk26', 'a' x 512 ],
		invalid => [ '', '.', '..', 'a/b', "self\0", "\x01" . 'x' x 8, "\xff", 'a' x 513 ]
	},
	'recordkey(tid)' => { valid => ['3jwdwj2ctlk26'], invalid => ['self'] },
	'atproto.tid' => {
		valid => [ pack('N2', 0, 0), pack('N2', 401690000, 5), "\xff" x 8 ],
		invalid => [ '', 'x', 'x' x 7, 'x' x 9, 'x' x 1000 ]
	},
	'cidlink' => {
		valid => [ $cid, "\x01\x70\x12\x20" . 'x' x 32 ],
		invalid => [
			'', "\0", substr($cid, 0, 35), "$cid\0", "\x02" . substr($cid, 1), "\x01\x71\x12\x21" . 'x' x 33,
			"\x12\x20" . 'x' x 32, "\x01" . "\xff" x 20, "\x01\x71\x12\xff\xff\xff\xff\x7f", "\x01\x55\x00\x70" . 'x' x 112
		]
	},
	'dagcbor' => {
		valid => [
			"\xa2\x64text\x65hello\x65\$type\x72app.bsky.feed.post", "\xa1\x65\$link\x05", "\xfb\x3f\xf8" . "\0" x 6, "\x62a\0", "\x1b" . "\xff" x 8,
			"\xd8\x2a\x58\x25\0$cid", "\x82\x41\0\xf6", "\x81" x 127 . "\x80", "\x79\x27\x10" . 'x' x 10000
		],
		invalid => [
			'', "\0\0", "\x18\x01", "\x9f\xff", "\x61\xff", "\x62a", "\xa2\x61b\0\x61a\0", "\xa2\x61a\0\x61a\0", "\xa1\0\0", "\xf9\x7e\0",
			"\xfb\x7f\xf0" . "\0" x 6, "\xc0\0", "\xd8\x2a\x41\0", "\xf7", "\x9b" . "\xff" x 8, "\x5b" . "\xff" x 8, "\x81" x 128 . "\x80"
		]
	},
	'cidlink(blessed)' => { valid => [$cid], invalid => [ "\x01\x70\x12\x20" . 'x' x 32 ] },
	'aturi' => {
		valid => [ "at://$plc/app.bsky.feed.post/3jwdwj2ctlk26", "at://$plc/app.bsky.feed.post", 'at://a', 'at://a/' . 'b' x 8185 ],
		invalid => [
			'', 'at://', "at://a\0", "at://a/\xe9", "\x01" . 'x' x 15, "\x01", "at://\x01" . 'x' x 15, "at://a\x02" . 'x' x 8, "at://a\x03",
			"at://a/b\x02" . 'x' x 8, 'at://a/' . 'b' x 8186, 'x' x 100000, 'nosh://a'
		]
	},
	'aturi(record)' => { valid => ["at://$plc/a.b.c/d"], invalid => [ 'at://a.b/a.b.c/d', 'at://a' ] },
	'aturi(strict)' => { valid => ['at://a.b'], invalid => [ 'at://A.b', 'at://a' ] },
	'noshuri' => {
		valid => [ 'nosh://1673/a.b.c/3jwdwj2ctlk26', 'nosh://a' ],
		invalid => [ '', 'nosh://', 'at://a', "nosh://a\0", "\x01" . 'x' x 15 ]
	},
	'noshuri(strict)' => { valid => ['nosh://1673'], invalid => ['nosh://a.b'] });

# Writes a binary COPY file with a single column and the given rows.
sub write_binary
{
	my ($path, @values) = @_;
	open my $file, '>:raw', $path or die "cannot write $path";
	print $file "PGCOPY\n\377\r\n\0", pack('N2', 0, 0);
	print $file pack('nN', 1, length $_), $_ foreach @values;
	print $file pack('n', 0xffff);
	close $file;
}

# The result of COPY: "ok", or the SQLSTATE.
$node->safe_psql('postgres', <<'SQL');
CREATE FUNCTION try_copy(relation text, path text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('COPY %I FROM %L (FORMAT binary)', relation, path);
	RETURN 'ok';
EXCEPTION WHEN OTHERS THEN
	RETURN SQLSTATE;
END $$;
SQL

my $n = 0;
foreach my $type (sort keys %cases)
{
	my ($valid, $invalid) = @{ $cases{$type} }{qw(valid invalid)};
	my $table = 't' . ++$n;

	$node->safe_psql('postgres', "CREATE TABLE $table (v $type); CREATE TABLE ${table}_again (v $type)");
	write_binary("$dir/in", @$valid);
	is($node->safe_psql('postgres', "SELECT try_copy('$table', '$dir/in')"), 'ok', "$type: valid values are received");
	$node->safe_psql('postgres', "COPY $table TO '$dir/out' (FORMAT binary); COPY ${table}_again FROM '$dir/out' (FORMAT binary)");
	is(slurp_file("$dir/out"), slurp_file("$dir/in"), "$type: and sent as they came");
	is($node->safe_psql('postgres', "SELECT count(*) FROM $table a JOIN ${table}_again b USING (v)"),
		scalar @$valid, "$type: and the same when received again");
	$node->safe_psql('postgres', "COPY $table TO '$dir/text'; TRUNCATE ${table}_again; COPY ${table}_again FROM '$dir/text'");
	is($node->safe_psql('postgres', "SELECT count(*) FROM $table a JOIN ${table}_again b USING (v)"),
		scalar @$valid, "$type: and as text");

	my $i = 0;
	foreach my $value (@$invalid)
	{
		write_binary("$dir/bad" . $i++, $value);
	}
	my $states = $node->safe_psql('postgres',
		"SELECT string_agg(try_copy('$table', '$dir/bad' || i), ' ' ORDER BY i) FROM generate_series(0, $i - 1) i");
	# pqformat itself finds fewer than eight bytes
	my $expected = $type eq 'atproto.tid' ? '08P01' : '22P03';
	is($states, join(' ', map { $type eq 'atproto.tid' && length $_ > 8 ? '22P03' : $expected } @$invalid),
		"$type: $i invalid values are refused");
}

# Random bytes, and valid values with a byte changed: refused, or received and sent unchanged.
srand 42;
my $kept = 0;
my $refused = 0;
my $wrong = 0;
foreach my $type (sort grep { !/\(/ } keys %cases)
{
	my @valid = @{ $cases{$type}{valid} };
	my @values;

	foreach my $i (1 .. 150)
	{
		my $value = $valid[ rand @valid ];

		$value = substr $value, 0, 60;
		if ($i % 3 == 0)
		{
			$value = join '', map { chr rand 256 } 1 .. rand 40;
		}
		else
		{
			substr($value, rand length $value, 1) = $i % 3 == 1 ? chr rand 256 : chr rand 8;
		}
		push @values, $value;
		write_binary("$dir/random" . ($i - 1), $value);
	}
	my @states = split /\n/, $node->safe_psql('postgres', <<"SQL");
CREATE TABLE random (n int, v $type);
CREATE TABLE one (v $type);
CREATE FUNCTION pg_temp.receive(i int) RETURNS text LANGUAGE plpgsql AS \$\$
DECLARE
	state text := try_copy('one', '$dir/random' || i);
BEGIN
	INSERT INTO random SELECT i, v FROM one;
	DELETE FROM one;
	RETURN state;
END \$\$;
SELECT pg_temp.receive(i) FROM generate_series(0, 149) i;
SQL
	my %kept = map { split /\|/ }
	  split /\n/,
	  $node->safe_psql('postgres', "SELECT n, encode("
		  . ($type eq 'atproto.tid' ? 'int8send(v::text::atproto.tid::bigint)' : ($type eq 'cidlink' || $type eq 'dagcbor' ? 'v::bytea' : "convert_to(v::text, 'UTF8')"))
		  . ", 'hex') FROM random" . ($type eq 'atproto.tid' ? ' WHERE tid_is_canonical(v)' : ''));
	foreach my $i (0 .. 149)
	{
		my $state = $states[$i];

		if ($state eq 'ok')
		{
			$kept++;
			$wrong++ if defined $kept{$i} && lc $kept{$i} ne lc unpack('H*', $type eq 'handle' ? lc $values[$i] : $values[$i]);
		}
		elsif ($state eq '22P03' || ($type eq 'atproto.tid' && $state eq '08P01'))
		{
			$refused++;
		}
		else
		{
			diag("$type: $state for " . unpack('H*', $values[$i]));
			$wrong++;
		}
	}
	$node->safe_psql('postgres', 'DROP TABLE random, one');
}
is($wrong, 0, 'random bytes are refused or kept as they are');
cmp_ok($kept, '>', 100, "$kept were kept");
cmp_ok($refused, '>', 400, "$refused were refused");
is($node->safe_psql('postgres', 'SELECT pg_postmaster_start_time()'), $started, 'and the server is still the same');

# --- dump and restore ---

my @modified = sort grep { /\(/ } keys %cases;
my $columns = join ', ', map { "c$_ $modified[$_]" } 0 .. $#modified;
$node->safe_psql('postgres', "CREATE TABLE dumped ($columns, r recordkey('literal:self'), s strongref)");
$node->safe_psql('postgres', "INSERT INTO dumped (c0, r, s) SELECT v, 'self', ('at://a.b'::aturi, NULL::cidlink)::strongref FROM t"
	  . (1 + (grep { (sort keys %cases)[$_] eq $modified[0] } 0 .. keys(%cases) - 1)[0]));
$node->safe_psql('postgres', 'CREATE DATABASE restored');
command_ok([ 'pg_dump', '-f', "$dir/dump.sql", $node->connstr('postgres') ], 'dump');
$node->command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-f', "$dir/dump.sql", $node->connstr('restored') ], 'restore');
my $describe = "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = 'dumped'::regclass AND attnum > 0 ORDER BY attnum";
is($node->safe_psql('restored', $describe), $node->safe_psql('postgres', $describe), 'type modifiers survive');
like($node->safe_psql('restored', $describe), qr/recordkey\('literal:self'\)/, 'also those that are no identifiers');
is($node->safe_psql('restored', 'SELECT * FROM dumped'), $node->safe_psql('postgres', 'SELECT * FROM dumped'), 'and so do rows');

$node->stop;
done_testing();
