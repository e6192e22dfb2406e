# 443_documented_facts.pl
#		The facts outside the blocks of the pages are true: quoted messages stand in the programs, defaults
#		are those of the server, lists of options are complete, and statements print the output shown on the
#		page.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Pages;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = make_node('facts');

# --- messages ---

# The strings of a program or library.
sub strings
{
	my ($file) = @_;
	open my $f, '<:raw', $file or die "cannot read $file: $!";
	my $bytes = do { local $/; <$f> };
	close $f;
	return $bytes =~ /([\x20-\x7e\n\t]{6,})/g;
}

sub run_of
{
	my @command = @_;
	IPC::Run::run(\@command, '>', \my $out) or BAIL_OUT("@command failed");
	chomp $out;
	return $out;
}

my $bin       = run_of('pg_config', '--bindir');
my $library   = run_of('pg_config', '--pkglibdir') . '/atproto.so';
my ($libcurl) = run_of('ldd', $library) =~ m{libcurl\S* => (\S+)};
my @messages  = map { strings($_) } $library, "$bin/postgres", $libcurl;
# an optimizing linker leaves out messages about missing libraries
push @messages, map { slurp_file($_) =~ /"([^"]* by this build)"/g } glob(AtprotoTest::test_dir() . "/../src/*/*.c");

# Formats of messages, with their %s and the like as patterns; without formats for any text.
my @formats = map { qr/^$_/s } map { quotemeta =~ s/\\%(?:\\[-.*+]|\d)*[lz]*[a-zA-Z]/.*?/gr =~ s/\\%\\%/%/gr } grep { / / && (s/%[-.*\d]*[lz]*[a-zA-Z]//gr =~ tr/a-zA-Z//) > 9 } @messages;

# A page writes "…" and N for anything, and may leave out the beginning and the end.
sub is_known
{
	my ($message) = @_;
	my $example = $message =~ s/\bN\b/7/gr =~ s/…/x/gr;

	return 1 if grep { $example =~ $_ || "$example: x" =~ $_ } @formats;
	foreach my $part (grep { length > 5 } split /[\s:]*(?:…|\bN\b)\s*/, $message)
	{
		return 0 unless grep { index($_, $part) >= 0 } @messages or grep { $part =~ $_ } @formats;
	}
	return 1;
}

ok(is_known('invalid CAR file at byte 60') && is_known('relation "x" does not exist') && !is_known('there is no such message as this') && !is_known('nothing of … the kind at all'), 'messages are found, others are not');
foreach my $page (pages())
{
	my @stated = map { $_->{text} =~ /^(?:ERROR|FATAL|WARNING|NOTICE|LOG|DETAIL|HINT):  (.*)$/mg } blocks($page, ''), blocks($page, 'text');

	# the first cells of tables of errors
	foreach my $table (prose($page) =~ /^\| `last_error` \|[^\n]*\n(?:\|[^\n]*\n)+/mg ? prose($page) =~ /^(\| `last_error` \|[^\n]*\n(?:\|[^\n]*\n)+)/mg : ())
	{
		push @stated, map { /\*([^*]+)\*/g } $table =~ /^\| ([^|]*) \|/mg;
	}
	next unless @stated;
	is(join("\n", grep { !is_known($_) } @stated), '', "$page: messages are those of the programs");
}

# --- settings, options, columns ---

my %page = map { m{(\w+)\z}g => page_text("doc/$_.md") } qw(operate/consumer use/lexicons use/types);

# A default that a page names: `atproto.plc_rate` (100), `atproto.identity_ttl` (a day), `atproto.fetch_concurrency`, 32.
# The reference has all of them.
my %setting = map { my ($name, @rest) = split /\|/, $_, -1; $name => \@rest }
  split /\n/, query(q{SELECT name || '|' || boot_val || '|' || coalesce(unit, '') FROM pg_settings WHERE name LIKE 'atproto.%' AND name NOT LIKE 'atproto.test%'});
my $defaults = 0;

foreach my $page (pages())
{
	my $prose = prose($page);

	while ($prose =~ /`(atproto\.\w+)`(?: \(|, )(?|(an?) (?=\w+\))(\w+)|(\d[\d,]*\b)(?: (ms|s|\w?B|\w+(?=\))))?)/g)
	{
		my ($name, $number, $of) = ($1, $2, $3);
		my ($value, $unit) = @{ $setting{$name} // next };
		my $said = ($number =~ s/^an?$/1/r =~ s/,//gr) . (defined $of ? " $of" : '');
		my $same =
		    $unit =~ /^(ms|s)$/ ? query("SELECT extract(epoch FROM '$said'::interval) * @{[ $unit eq 'ms' ? 1000 : 1 ]} = $value") eq 't'
		  : $unit =~ /^[kM]B$/ ? query("SELECT pg_size_bytes('$said') = pg_size_bytes('$value $unit')") eq 't'
		  :                 $said eq $value;

		ok($same, "$page: the default of $name is $said") or diag("it is $value $unit");
		$defaults++;
	}
}
cmp_ok($defaults, '>', 8, 'pages name defaults');

# The list on the page names each of the rows of the query, in backticks.
sub names_each
{
	my ($name, $sql) = @_;
	my @lacking = grep { $page{$name} !~ /`\Q$_\E`/ } split /\n/, query($sql);
	is("@lacking", '', "$name.md leaves out nothing of: $sql");
	return;
}

names_each('consumer', q{SELECT unnest(proargnames) FROM pg_proc WHERE oid = 'atproto.subscribe'::regproc});

# A file of the sources, for its tables of names.
sub source
{
	my ($file) = @_;
	return slurp_file(root() . "/src/$file");
}

my $all = join '', map { page_text($_) } grep { m{^doc/} && !m{/reference} } pages();
foreach my $of ([ 'reasons to drop a connection', source('net/drop.c') =~ /\[ATP_DROP_(?!NONE)\w+\] = "([^"]+)"/g ], [ 'things that are counted in skips', source('stream/batch.c') =~ /\[ATP_SKIP_\w+\] = "([^"]+)"/g ])
{
	my ($what, @names) = @$of;

	cmp_ok(scalar @names, '>', 5, "there are $what");
	is(join(' ', grep { $all !~ /`\Q$_\E`/ } @names), '', "the pages have all $what");
}

# The party at fault for an error, by the class of its SQLSTATE.
my %class;
my @classes = source('tables/base/error_class.c') =~ /\{"(\w\w)", (ATP_ERROR_\w+, \w+)\}/g;
while (my ($name, $fault) = splice @classes, 0, 2) { push @{ $class{$fault} }, $name; }
foreach my $of (
	[ 'ATP_ERROR_PASSING, false', 'the moment, or this machine' ],
	[ 'ATP_ERROR_SETUP, false',   'the schema, privileges' ],
	[ 'ATP_ERROR_SETUP, true',    'the row, if other rows pass; otherwise the schema' ],
	[ 'ATP_ERROR_PASSING, true',  'the row, if other rows pass; otherwise the moment' ])
{
	my ($fault, $words) = @$of;
	my ($said) = $page{consumer} =~ /^\| ([^|]*) \| \Q$words\E \|/m;

	is(join(' ', sort(($said // '') =~ /\b([0-9A-Z]{2})\b/g)), join(' ', sort @{ $class{$fault} // ['none'] }), "consumer.md: classes of errors that are the fault of $words");
}

# --- output shown by the page ---

my ($columns) = $page{lexicons} =~ /^```\n( uri aturi,.*?)^```/ms;
query(q{SELECT atproto.create_view('app.bsky.feed.post', schema => 'public')});
is($columns =~ s/\s+/ /gr =~ s/^ | $//gr, query(q{SELECT string_agg(attname || ' ' || replace(format_type(atttypid, atttypmod), 'timestamp with time zone', 'timestamptz'), ', ' ORDER BY attnum)
	FROM pg_attribute WHERE attrelid = 'app_bsky_feed_post'::regclass AND attnum > 0}), 'lexicons.md: the columns of the view of posts');

my ($explain, $condition) = $page{types} =~ /^(EXPLAIN [^\n]*)\n\s*(Index Cond[^\n]*)\n/m;
my ($table) = $page{types} =~ /^```sql\n(CREATE TABLE post \(.*?\);)/ms;
like(query("$table SET enable_seqscan = off; SET enable_bitmapscan = off; $explain"), qr/\Q$condition\E/, 'types.md: the plan of <@');

# "with the first index below"
my $started = page_text('doc/use/getting-started.md');
my %index;
@index{qw(first second third)} = $started =~ /^(CREATE INDEX ON [^;]*;)/mg;
while ($started =~ /^-- [^\n]*with the (\w+) index below[^\n]*\n(SELECT .*?;)/msg)
{
	my ($which, $select) = ($1, $2);
	my $made = $index{$which} =~ s/CREATE INDEX ON/CREATE INDEX the_index ON/r;

	like(query("BEGIN; $made SET LOCAL enable_seqscan = off; SET LOCAL enable_indexscan = on; EXPLAIN (COSTS OFF) $select ROLLBACK;"), qr/the_index/, "getting-started.md: the $which index is used");
}

$node->stop;
done_testing();
