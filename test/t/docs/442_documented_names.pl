# 442_documented_names.pl
#		Every name in the pages exists: functions, tables, columns, settings, options and their values in
#		the catalogue; targets of make, programs, their switches, files and variables of the environment in
#		the sources.  bash can parse the shell blocks.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Pages;
use File::Find;
use PostgreSQL::Test::Utils;
use Test::More;

# Names of foreign software similar to ours.
my %others = map { $_ => 1 } (
	# files
	qw(atproto.control atproto.so atproto.tid atproto.com),
	# functions of PostgreSQL's C, of Perl's tests, of Citus
	qw(ereport pgstat_report_activity ok done_testing),
	qw(run_command_on_all_nodes citus_create_restore_point citus_set_coordinator_host citus_add_node undistribute_table recover_prepared_transactions alter_distributed_table citus_rebalance_start citus_split_shard_by_split_points),
	# of asyncpg, and a switch of node's
	qw(copy_records_to_table set_type_codec max-semi-space-size),
	# an option of postgres_fdw, extensions, functions inside PostgreSQL
	qw(autovacuum_work_mem temp_tablespaces pg_repack autovacuum_freeze_max_age autovacuum_vacuum_insert_scale_factor autovacuum_vacuum_scale_factor
	  vacuum_freeze_min_age hot_standby_feedback synchronous_standby_names maintenance_work_mem max_slot_wal_keep_size
	  logical_decoding_work_mem wal_compression sync_replication_slots safe_wal_size pg_stat_subscription),
	qw(fetch_size pg_stat_statements pg_trgm heap_update pg_input_is_valid));
# Variables of foreign programs.
my %variables_of_others = map { $_ => 1 } qw(PGHOST PGPORT PGUSER PGDATABASE PGPASSWORD PGDATA DATA_SOURCE_NAME ARGS CC CFLAGS CPATH LIBRARY_PATH PATH HOME LC_ALL POSTGRES_PASSWORD);
my %targets_of_pgxs = map { $_ => 1 } qw(all install uninstall installcheck clean);

my $node = make_node('names');
my $root = root();

sub list
{
	my ($sql) = @_;
	return map { $_ => 1 } split /\n/, query($sql);
}

my $ours     = "e.deptype = 'e' AND e.refclassid = 'pg_extension'::regclass AND e.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'atproto')";
my %function = list('SELECT DISTINCT proname FROM pg_proc');
my %own_function = list(q{SELECT DISTINCT proname FROM pg_proc WHERE pronamespace = 'atproto'::regnamespace});
my %relation = list(q{SELECT relname FROM pg_class WHERE relnamespace = 'atproto'::regnamespace});
my %type     = list(q{SELECT typname FROM pg_type WHERE typnamespace = 'atproto'::regnamespace});
my %column   = list(q{SELECT relname || '.' || attname FROM pg_attribute JOIN pg_class c ON c.oid = attrelid WHERE relnamespace = 'atproto'::regnamespace AND attnum > 0});
my %setting  = list(q{SELECT substr(name, 9) FROM pg_settings WHERE name LIKE 'atproto.%'});
my %argument = list("SELECT DISTINCT unnest(proargnames) FROM pg_proc p JOIN pg_depend e ON e.classid = 'pg_proc'::regclass AND e.objid = p.oid WHERE $ours");
# the values allowed by an option's CHECK
my %allowed = map { (split /\|/)[0] => { map { $_ => 1 } /'([^']+)'::text/g } }
  split /\n/, query(q{SELECT a.attname || '|' || pg_get_constraintdef(k.oid) FROM pg_constraint k JOIN pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = k.conkey[1]
	WHERE k.conrelid = 'atproto.subscription'::regclass AND k.contype = 'c' AND cardinality(k.conkey) = 1 AND pg_get_constraintdef(k.oid) ~ 'ANY \(ARRAY'});
$node->stop;

# All files read by programs and the server; a name mentioned only by pages is no proof.
my $sources = '';
find({ no_chdir => 1, wanted => sub { $sources .= slurp_file($_) if -f && -s _ < 1_000_000 && !/442_documented_names/ && !/\.(md|gz|frames|inputs|svg|car|json|o|so|bc)\z/ && !m{/(tmp_check|build|corpus|results)/} } },
	grep { -e } map { "$root/$_" } qw(src test bench demo examples contrib debian release Makefile Dockerfile));

# --- in a span of code, or a block of SQL ---

sub sql_faults
{
	my ($text, %made) = @_;
	my @faults;

	while ($text =~ /(?<![\w.\/@-])atproto\.([a-z_]+)(?:\.([a-z_]+))?(?![\w-])(?!\.[a-z])/g)
	{
		my ($name, $of) = ($1, $2);

		next if $others{"atproto.$name"} || $made{$name} || -e "$root/src/atproto.$name";
		push @faults, "there is no atproto.$name" unless $own_function{$name} || $relation{$name} || $type{$name} || $setting{$name};
		push @faults, "atproto.$name has no column $of" if defined $of && !$column{"$name.$of"};
	}
	while ($text =~ /(?<![\w.'\/])([a-z][a-z0-9_]*)\.([a-z_0-9]+)(?![\w(.\/])/g)
	{
		push @faults, "$1 has no column $2" if $relation{$1} && !$column{"$1.$2"} && $2 !~ /^(c|h|pl|sql|md|car)$/;
	}
	while ($text =~ /(?<![\w.:\$\/-])((?:atproto\.)?([a-z][a-z0-9_]+))\(/g)
	{
		my ($whole, $name) = ($1, $2);

		push @faults, "there is no function $whole()"
		  unless $function{$name} || $others{$name} || $made{$name} || is_word($name) || ($name =~ /^atp_/ && $sources =~ /\b$name\(/);
	}
	while ($text =~ /(?<![\w.])([a-z_]+) => (?:'([a-z-]+)')?/g)
	{
		push @faults, "no function has an argument $1" unless $argument{$1};
		push @faults, "'$2' is no value of $1" if defined $2 && $allowed{$1} && !$allowed{$1}{$2};
	}
	return @faults;
}

# Words before a parenthesis in PostgreSQL's grammar, types included.
sub is_word
{
	my ($word) = @_;
	return $word =~ /^(in|any|values|exists|over|with|case|and|or|not|on|as|using|unique|primary|key|check|references|for|from|where|interval|numeric|varchar|char|extract|row|array|all|table|index|options|to|if|is|by|set|select|coalesce|greatest|least|nullif|cast|limit|collate|include|only|of|execute|literal|literals|post|into|public)$/
	  || $type{$word};
}

# --- in a block of shell, or in a span with a command ---

sub shell_faults
{
	my ($text) = @_;
	my @faults;

	$text =~ s/\\\n//g;
	$text =~ s/(^|\s)#.*//mg;
	# a command inside a command is checked separately
	my @commands;
	push @commands, $1 while $text =~ s/[<\$]\(([^()]*)\)/x/;
	foreach my $command (@commands, split /&&|\|\||[;|\n]/, $text)
	{
		my @words = grep { length } split /\s+/, $command =~ s/'[^']*'|"[^"]*"/x/gr;

		while (@words && $words[0] =~ /^(\w+)=/)
		{
			my $name = $1;
			push @faults, "nothing reads $name" unless $name =~ /^[a-z]/ || $variables_of_others{$name} || $sources =~ /\b\Q$name\E\b/;
			shift @words;
		}
		next unless @words;
		my $program = shift @words;
		shift @words, $program = shift @words if $program eq 'sudo' && @words > 2;
		if ($program eq 'make')
		{
			my $dir = '.';
			my @targets;
			while (@words)
			{
				my $word = shift @words;
				if ($word eq '-C') { $dir = shift @words; }
				elsif ($word =~ /^(\w+)=/) { push @faults, "nothing reads $1" unless $sources =~ /\b\Q$1\E\b/; }
				elsif ($word !~ /^-/) { push @targets, $word; }
			}
			push(@faults, "there is no $dir/Makefile"), next unless -e "$root/$dir/Makefile";
			my $makefile = slurp_file("$root/$dir/Makefile");
			foreach my $target (@targets)
			{
				next if $target =~ /[A-Z…]/ || $targets_of_pgxs{$target};
				my @rules = map { split /\s+/, $_ } $makefile =~ /^([^\s#:=][^:=\n]*):(?!=)/mg;
				push @faults, "$dir/Makefile has no target $target" unless grep { my $rule = quotemeta; $rule =~ s/\\%/.+/; $target =~ /^$rule$/ } @rules;
			}
		}
		elsif ($program =~ m{^(?:\./)?((?:test|bench|demo|contrib|debian)/\S+)$})
		{
			my $path = $1;
			next if $path =~ /[A-Z*…]/;
			my $built = $path =~ m{^test/(build/|server/streamserver$|simulator/simulate$)};
			push @faults, "there is no program $path" unless $built || -x "$root/$path";
			if ($path eq 'bench/run')
			{
				-e "$root/bench/$_.sh" or push @faults, "bench/run has no $_" foreach grep { /^[a-z]+$/ } @words;
			}
			my ($dir) = $path =~ m{^(.*)/};
			my $of = '';
			find({ no_chdir => 1, wanted => sub { $of .= slurp_file($_) if -f && /\.(c|h|py)\z/ || $_ eq "$root/$path" } }, "$root/$dir") if -d "$root/$dir";
			foreach my $switch (map { /^(--[a-z-]+)/ } @words)
			{
				my $name = $switch =~ s/^--//r;
				push @faults, "$path has no $switch" unless $of =~ /--\Q$name\E\b|"\Q$name\E"/;
			}
		}
	}
	return @faults;
}

# Files and variables that the pages call ours.
sub name_faults
{
	my ($span, %made) = @_;
	my @faults;

	push @faults, "nothing reads $1" if $span =~ /^((?:ATPROTO|DEMO|BENCH)_[A-Z_]+)(?:=|$)/ && $sources !~ /\b$1\b/;
	push @faults, "nobody knows $1" if $span =~ /^([A-Za-z]+(?:_[A-Za-z]+)+)$/ && !$function{$1} && !$relation{$1} && !$others{$1} && !$made{$1} && $sources !~ /\b$1\b/;
	push @faults, "no program has --$1" if $span =~ /^--([a-z][a-z-]+)/ && !$others{$1} && $sources !~ /--\Q$1\E\b|"\Q$1\E"/;
	if ($span =~ m{^((?:src|test|bench|demo|contrib|debian|doc|sql|expected|upgrade)/[\w./-]*\w)/?$} && $span !~ /(?<![A-Za-z])[A-Z]{2}|--X/)
	{
		my $path = $1;
		push @faults, "there is no file $path" unless -e "$root/$path" || $path =~ m{^(test/build|bench/results|test/server/streamserver|test/simulator/simulate)} || glob("$root/$path.*");
	}
	return @faults;
}

# Metrics, which the exporter puts together of a query's name and a column's.
my $query;
foreach (split /\n/, slurp_file("$root/contrib/monitoring/queries.yaml"))
{
	$query = $1 if /^(\w+):/;
	$others{"${query}_$1"} = 1 if /^    - (\w+):/;
}

# The check finds invented names.
is_deeply([ map { scalar sql_faults($_) } 'atproto.nothing', 'atproto.record.nothing', 'repo.nothing', 'nothing(1)', 'atproto.nothing()', "nothing => 'x'", "backfill => 'nothing'" ],
	[ 1, 1, 1, 1, 2, 1, 1 ], 'false names in SQL are found');
is_deeply([ map { scalar shell_faults($_) } 'make nothing', 'make -C test nothing', 'make -C nothing', 'NOTHING_AT_ALL=1 make', 'test/nothing', 'bench/run nothing', 'test/server/streamserver --nothing' ],
	[ map { 1 } 1 .. 7 ], 'and in commands');
is_deeply([ map { scalar name_faults($_) } 'ATPROTO_NOTHING', 'src/nothing.c', 'nothing_at_all', '--nothing-at-all' ], [ 2, 1, 1, 1 ], 'and files and variables');

foreach my $page (pages())
{
	my $prose = prose($page);
	# objects created by the page itself
	my %made = map { $_ => 1 } join('', map { $_->{text} } blocks($page, 'sql')) =~ /CREATE (?:FUNCTION|TABLE|VIEW|(?:UNIQUE )?INDEX) (?:\w+\.)?(\w+)/g;
	my @faults;

	push @faults, sql_faults($_->{text} =~ s/--[^\n]*//gr, %made) foreach blocks($page, 'sql');
	foreach my $span ($prose =~ /(?<!`)`([^`\n]+)`(?!`)/g)
	{
		push @faults, map { "`$span`: $_" } $span =~ /^(?:[A-Z_]+=\S+ )*(?:make|bench\/\w+|test\/\w+(?:\/[\w-]+)*|demo\/demo) \S/ ? shell_faults($span) : $span =~ /\$\w+(?:->|$)/ ? () : sql_faults($span, %made), name_faults($span, %made);
	}
	foreach my $block (blocks($page, 'sh'))
	{
		my ($out, $error) = ('', '');

		IPC::Run::run([ 'bash', '-n' ], '<', \$block->{text}, '>', \$out, '2>', \$error) or push @faults, "line $block->{line}: $error";
		push @faults, map { "line $block->{line}: $_" } shell_faults($block->{text});
	}
	is(join("\n", @faults), '', "$page names what is there");
}

done_testing();
