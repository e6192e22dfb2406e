# 445_promises.pl
#		The stable objects of test/data/promised.txt are there, with their signatures; doc/operate/support.md lists
#		exactly the objects whose COMMENT says that they are experimental, and only tables that exist.  The comparison
#		itself is tried: objects are renamed, changed and extended.  With ATPROTO_PROMISES=write, which make promises
#		sets, the test writes the list.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = make_node('promises');
my $page = slurp_file(test_dir() . '/../doc/operate/support.md');

sub promises
{
	my (@args) = @_;
	my ($out, $err) = ('', '');
	local %ENV = $node->_get_env(PGHOST => $node->host, PGPORT => $node->port);

	IPC::Run::run([ $ENV{PYTHON} || '/usr/bin/python3', '-B', test_dir() . '/tools/promises', @args ], '<', \undef, '>', \$out, '2>', \$err);
	BAIL_OUT("promises: $err") if $err ne '';
	chomp $out;
	return $out;
}

# --- the promised objects exist ---

my ($release) = slurp_file(test_dir() . '/../META.json') =~ /^    "version": "(.*?)"/m;
promises('write', $release, 'postgres') if ($ENV{ATPROTO_PROMISES} // '') eq 'write';

is(promises('lost', 'postgres'), '', 'no stable object is gone or has another signature');
my %promised = map { $_ => 1 } grep { !/^#/ } split /\n/, slurp_file(test_dir() . '/data/promised.txt');
cmp_ok(scalar keys %promised, '>', 400, 'there is something to compare');
my %kinds = map { (split /\t/)[0] => 1 } keys %promised;
is(join(', ', sort keys %kinds), 'cast, function, operator, operator class, setting, table, type, view', 'of each kind');

# --- the page ---

my ($section) = $page =~ /^## Experimental objects\n(.*?)^## /ms;
my %named = map { $_ => 1 } map { /`([\w.]+)`/g } grep { /^\| / } split /\n/, $section;
my %marked = map { my $name = $_; my ($last) = $name =~ /(?:\.|\()(\w+)\)?$/; ($name =~ /^atproto\.(?:\w+)$/ && $named{$name} ? $name : $last // $name) => 1 }
  grep { !/^atproto\.(?:subscription|request_header)$/ } split /\n/, promises('experimental', 'postgres');
is(join("\n", grep { !$named{$_} } sort keys %marked), '', 'the page lists each experimental object');
is(join("\n", grep { !$marked{$_} && !/^(?:request_header|create_tables)$/ } sort keys %named), '', 'and no other');
my ($tables) = $page =~ /^## Tables of the processes\n(.*?)^## /ms;
foreach my $table ($tables =~ /`(\w+)`/g)
{
	is(query("SELECT relkind FROM pg_class WHERE oid = to_regclass('atproto.$table')"), 'r', "$table is a table");
}

# --- the comparison ---

sub changed
{
	my ($sql) = @_;
	query($sql);
	return promises('lost', 'postgres');
}

foreach ([ 'a setting of a function is no signature', 'ALTER FUNCTION atproto.pause(text) COST 7', '' ],
	[ 'a function with another name', 'ALTER FUNCTION atproto.pause(text) RENAME TO halt', qr/^function\tatproto\.pause\t.*\n  now: nothing$/ ],
	[ 'the old name', 'ALTER FUNCTION atproto.halt(text) RENAME TO pause', '' ],
	[ 'a further column of a table', 'ALTER TABLE atproto.gap ADD COLUMN further text', '' ],
	[ 'a further column that an INSERT must name', 'ALTER TABLE atproto.gap ALTER COLUMN further SET NOT NULL', qr/^table\tatproto\.gap\t/ ],
	[ 'no such column', 'ALTER TABLE atproto.gap DROP COLUMN further', '' ],
	[ 'a column with another name', 'ALTER TABLE atproto.gap RENAME COLUMN reason TO cause', qr/^table\tatproto\.gap\t.*\n  now: table\tatproto\.gap\t.*cause/ ],
	[ 'the old name of the column', 'ALTER TABLE atproto.gap RENAME COLUMN cause TO reason', '' ],
	[ 'a column with another type', 'ALTER TABLE atproto.request_header ALTER COLUMN value TYPE varchar', qr/^table\tatproto\.request_header\t.*\n  now: .*value character varying/ ],
	[ 'the old type', 'ALTER TABLE atproto.request_header ALTER COLUMN value TYPE text', '' ],
	[ 'a stable object becomes experimental', q{COMMENT ON FUNCTION atproto.pause(text) IS 'x. Experimental.'}, qr/^function\tatproto\.pause\t/ ],
	[ 'a mark within a sentence is none', q{COMMENT ON FUNCTION atproto.pause(text) IS 'Experimental. Not more'}, '' ],
	[ 'a parameter becomes experimental', q{COMMENT ON FUNCTION atproto.pause(text) IS 'x. Experimental: name.'}, qr/^function\tatproto\.pause\tname text\tvoid\n  now: function\tatproto\.pause\t\tvoid$/ ],
	[ 'a column becomes experimental', q{COMMENT ON FUNCTION atproto.pause(text) IS 'x'; COMMENT ON COLUMN atproto.gap.reason IS 'x. Experimental.'}, qr/^table\tatproto\.gap\t/ ])
{
	my ($what, $sql, $lost) = @$_;
	my $is = changed($sql);
	ref $lost ? like($is, $lost, $what) : is($is, $lost, $what);
}

$node->stop;
done_testing();
