# AtprotoTest.pm
#		Common parts of the TAP tests: a cluster with the extension,
#		the stream server (AtprotoTest::Server), certificates
#		(AtprotoTest::Certificates), and the comparison of tables with the oracle.
#
#		use FindBin;
#		use lib "$FindBin::RealBin/../lib";
#		use AtprotoTest;
#
#		my $node   = make_node('main');
#		my $server = AtprotoTest::Server->start(capture('pds.frames.gz'));
#		$node->safe_psql('postgres', subscribe_sql('s', $server, cursor => 0));
#		wait_for_seq($node, 's', $PDS_LAST);
#		tables_match($node, capture('pds.frames.gz'), 'after the capture');
#		is(query('SELECT count(*) FROM atproto.gap'), '0', 'nothing was missed');
#		done_testing();
#
#		done_testing() and the stop of a cluster end with atproto.check(): in each database of the cluster nothing may be
#		wrong.  A test that has damaged a table announces the finding before: expect_check('record without repository').

package AtprotoTest;

use strict;
use warnings FATAL => 'all';

use Cwd qw(realpath);
use Digest::MD5 qw(md5_hex);
use Exporter qw(import);
use File::Basename qw(dirname);
use File::Path ();
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

use AtprotoTest::Server;
use AtprotoTest::Statement;
use AtprotoTest::Trace;

our @EXPORT = qw(test_dir seed capture $PDS_LAST read_capture write_capture make_capture did simulate make_node subscribe_sql
  query try_query ask_from_now_on wait_until wait_for wait_for_seq start_over $MEMORY_MAX private_memory consumer_memory
  tables_match oracle operations table_copy counts_match expect_check trace_of is_from_checkout);

our $TIMEOUT = $ENV{PG_TEST_TIMEOUT_DEFAULT} || 180;    # seconds

# Servers inherit the environment: a proxy of the machine is not for these tests.
delete @ENV{ grep { /^(https?|all|no)_proxy$/i } keys %ENV };

my $test_dir = realpath(dirname(__FILE__) . '/..');

# The columns that the oracle prints, by its modes; %s is the schema.
my %columns = (
	record => 'SELECT did, collection, rkey, cid, rev, value::jsonb FROM %s.record',
	repo   => 'SELECT did, rev, "commit", data, active, status, handle FROM %s.repo',
	count  => 'SELECT collection, count(*) FROM %s.record GROUP BY collection',
	event  => 'SELECT seq, action, did, collection, rkey, rev, cid, value::jsonb FROM %s.record_event',
	label  => 'SELECT src, uri, val, cid, neg, (extract(epoch FROM cts) * 1000000)::bigint,
		(extract(epoch FROM exp) * 1000000)::bigint, ver, encode(sig, $$hex$$), seq FROM %s.label',
	message => 'SELECT seq, type, payload FROM %s.message');

# Whether the extension of the node made last has the digest of its install script, as before the first release (Makefile).
sub is_from_checkout
{
	return query(q{SELECT to_regprocedure('atproto_internal.install_script()') IS NOT NULL}, @_) eq 't';
}

# The directory test/.
sub test_dir
{
	return $test_dir;
}

# The seed of all that a test draws at random.  Without ATPROTO_SEED the seed is fixed, so make check cannot fail by
# chance; ATPROTO_SEED=random draws another seed, and ATPROTO_SEED=n repeats a run.
sub seed
{
	my $seed = $ENV{ATPROTO_SEED} // 1;

	$seed = int rand 2**31 if $seed eq 'random';
	srand $seed;
	note("ATPROTO_SEED=$seed");
	return $seed;
}

# The path of a file in test/data.
sub capture
{
	my ($name) = @_;
	my $path = "$test_dir/data/$name";

	BAIL_OUT("there is no $path") unless -e $path;
	return $path;
}

# pds.frames.gz has the events 1 to this, without a gap.
our $PDS_LAST = 1600;

# The messages of a capture file, which may be gzip.
sub read_capture
{
	my ($path) = @_;
	my $bytes = '';
	my @messages;

	IPC::Run::run([ 'gzip', '-dcf', $path ], '>', \$bytes) or die "cannot read $path";
	for (my $pos = 0; $pos < length $bytes;)
	{
		my $n = unpack 'N', substr($bytes, $pos, 4);
		push @messages, substr($bytes, $pos + 4, $n);
		$pos += 4 + $n;
	}
	return @messages;
}

sub write_capture
{
	my ($path, @messages) = @_;

	open my $f, '>:raw', $path or die "cannot write $path: $!";
	print $f map { pack('N', length) . $_ } @messages;
	close $f or die "cannot write $path: $!";
	return $path;
}

# A capture file with what a program of test/oracle writes: make_capture('synth.py', 'odd').
sub make_capture
{
	my ($program, @args) = @_;
	my $python = $ENV{PYTHON} || '/usr/bin/python3';
	my $path   = PostgreSQL::Test::Utils::tempdir('capture') . '/frames';

	IPC::Run::run([ $python, '-B', "$test_dir/oracle/$program", @args ], '<', \undef, '>', $path)
	  or BAIL_OUT("$program failed");
	return $path;
}

# The account that steps.py calls by this letter; of synth.py's, a is the first.
sub did
{
	my ($letter) = @_;
	return 'did:plc:' . (qw(2 3 4 5 6 7), 'a' .. 'z')[ ord($letter) - ord('a') + 1 ] . '2' x 23;
}

# A capture of test/simulator, and the directory with what it must leave:
# simulate('--events' => 1000, ...)
sub simulate
{
	my @options = @_;
	my $dir     = "$test_dir/simulator";
	my $files   = PostgreSQL::Test::Utils::tempdir('simulate');

	# It is built by make check; this is for running one test by hand.
	-x "$dir/simulate" or system('make', '-s', '-C', $dir) == 0 or BAIL_OUT("cannot build $dir");
	IPC::Run::run([ "$dir/simulate", @options, '--expect', "$files/expect", '--output', "$files/frames" ])
	  or BAIL_OUT('the simulator failed');
	return ("$files/frames", "$files/expect");
}

# The cluster that query() and the like ask, when no other is named: the last that was made.
my $last_made;

# All that were made.
my @made;

# The files of those that record their transactions.
my %traces;

# What many tests need, and need not change, is made by the first test of a run that needs it: the path of a file or
# a directory, which $make->(path) makes.  ATPROTO_MADE is the directory of the run; without it, each test makes its own.
my $made_here;

sub made_once
{
	my ($what, $make) = @_;
	my $dir = $ENV{ATPROTO_MADE} // ($made_here //= PostgreSQL::Test::Utils::tempdir('made'));
	my $path = "$dir/" . ($what =~ /^(\w+)/)[0] . '.' . md5_hex($what);

	return $path if -e $path;
	File::Path::make_path($dir);
	$make->("$path.$$");
	# the test of another lane may have been faster
	rename "$path.$$", $path or File::Path::rmtree("$path.$$");
	return $path;
}

# init() of a cluster, with a copy of what initdb makes with the same options: a tenth of the work.  (From PostgreSQL 17 on
# init() does so itself, but not with options.)  With extension => 1 the database postgres of the copy has the extension and its tables.
sub init_node
{
	my ($node, %o) = @_;
	my $run       = \&PostgreSQL::Test::Utils::system_or_bail;
	my $extension = delete $o{extension};

	no warnings 'redefine';
	local *PostgreSQL::Test::Utils::system_or_bail = sub {
		my ($program, @args) = @_;
		return $run->($program, @args) unless $program eq 'initdb';
		my $data = $node->data_dir;
		my @how  = (initdb => $node->installed_command('initdb'), grep { $_ ne $data } @args);
		my $made = made_once(join("\0", @how), sub { my ($to) = @_; $run->('initdb', map { $_ eq $data ? $to : $_ } @args) });
		$made = made_once(join("\0", "extension, OIDs of users", what_is_installed($node), $ENV{ATPROTO_VALUE} // 'jsonb', @how), sub { my ($to) = @_; $run->('cp', '-RPp', $made, $to); create_extension($node, $to) })
		  if $extension;
		return $run->('cp', '-RPp', $made, $data);
	};
	return $node->init(%o);
}

# The contents of the extension's scripts: a copy is for these only.
# The library has the descriptions of the data tables.
sub what_is_installed
{
	my ($node) = @_;
	my ($shared)  = PostgreSQL::Test::Utils::run_command([ $node->installed_command('pg_config'), '--sharedir' ]);
	my ($library) = PostgreSQL::Test::Utils::run_command([ $node->installed_command('pg_config'), '--pkglibdir' ]);

	return md5_hex((map { PostgreSQL::Test::Utils::slurp_file($_) } sort glob "$shared/extension/atproto{.control,--*.sql}"), join ' ', (stat "$library/atproto.so")[ 7, 9 ]);
}

# Without a server that others can ask.
sub create_extension
{
	my ($node, $data) = @_;
	my $commands = "CREATE EXTENSION atproto\nSELECT atproto.create_tables('atproto')\n";
	my @postgres = ($node->installed_command('postgres'), '--single', '-D', $data, '-c', 'fsync=off', '-c', 'shared_preload_libraries=atproto',
		'-c', 'exit_on_error=on', ($ENV{ATPROTO_VALUE} ? ('-c', "atproto.test_value=$ENV{ATPROTO_VALUE}") : ()), 'postgres');

	my ($out, $err) = ('', '');

	# a server that runs for nobody else gives the OIDs of initdb: publications and pg_dump would pass over such tables
	PostgreSQL::Test::Utils::system_or_bail($node->installed_command('pg_resetwal'), '-o', '16384', '-D', $data);
	BAIL_OUT("the extension was not created: $out$err")
	  unless IPC::Run::run(\@postgres, '<', \$commands, '>', \$out, '2>', \$err) && $err !~ /ERROR|FATAL/;
	return;
}

# A running cluster with the extension created in its database postgres.
# Nothing is audited by itself, unless conf says so.  Options: conf => more of postgresql.conf, databases => atproto.databases,
# preload => 0, create => 0 (no CREATE EXTENSION, no tables), start => 0 or an
# AtprotoTest::Preload, which starts it, init => {...}, install_path => another installation,
# trace => a directory for the committed transactions, defines => [...] (AtprotoTest::Trace).
#
# ATPROTO_DISTRIBUTED=1, with a PostgreSQL that has Citus: the data tables are distributed, to the one server that there
# is.  That is for trying the tests so; those that are about plain tables fail.
#
# ATPROTO_DIRECT_WRITES=off: all rows are written by statements (atproto.direct_writes), in any test; those that
# are about the direct way fail.
#
# ATPROTO_VALUE=dagcbor: the values of records in all targets are of this type, in any test; those that read the column value as
# jsonb only has it, or the column raw, fail.
sub make_node
{
	my ($name, %o) = @_;
	my $node      = PostgreSQL::Test::Cluster->new($name, map { $_ => $o{$_} } grep { $_ eq 'install_path' } keys %o);
	my $databases = $o{databases} // 'postgres';
	my $preload   = $o{preload} // 1;

	my $create    = $o{create} // 1;
	my $trace     = ($o{start} // 1) && $create ? $o{trace} // $ENV{ATPROTO_TRACE} : undef;
	# a trace has the making of the tables, and without the library in every process, that is what is tested
	my $made      = $create && ($o{start} // 1) && $preload && !$trace;

	# Not the environment's locale: the tables must hold any text.
	init_node($node, extension => $made, extra => [ '--encoding=UTF8', '--locale=C' ], %{ $o{init} // {} });
	# Compiling expressions takes longer than what the tests compute; the SQL tests have PostgreSQL's default.
	$node->append_conf('postgresql.conf', <<"EOF");
restart_after_crash = on
jit = off
EOF
	$node->append_conf('postgresql.conf', <<"EOF") if $preload;
shared_preload_libraries = 'atproto'
atproto.databases = '$databases'
atproto.audits = off
EOF
	$node->append_conf('postgresql.conf', "atproto.direct_writes = $ENV{ATPROTO_DIRECT_WRITES}\n") if $ENV{ATPROTO_DIRECT_WRITES};
	$node->append_conf('postgresql.conf', "atproto.test_value = $ENV{ATPROTO_VALUE}\n") if $ENV{ATPROTO_VALUE};
	my $distributed = $preload && $ENV{ATPROTO_DISTRIBUTED};
	$node->append_conf('postgresql.conf', <<"EOF") if $distributed;
shared_preload_libraries = 'citus,atproto'
listen_addresses = '127.0.0.1'
citus.node_conninfo = 'sslmode=disable'
EOF
	$node->append_conf('postgresql.conf', AtprotoTest::Trace::settings()) if $trace;
	$node->append_conf('postgresql.conf', $o{conf}) if $o{conf};
	$last_made = $node;
	push @made, $node;
	return $node unless $o{start} // 1;
	ref $o{start} ? $o{start}->start($node) : $node->start;
	if ($trace)
	{
		$node->safe_psql('postgres', AtprotoTest::Trace::slot_sql());
		# a test that is stopped leaves its transactions, too
		$SIG{TERM} //= sub { exit 143 };
		$traces{$node} = AtprotoTest::Trace::file($trace, $name, @{ $o{defines} // [] });
	}
	$node->safe_psql('postgres', q{CREATE EXTENSION atproto; SELECT atproto.create_tables('atproto')})
	  if $create && !$made;
	distribute_to_itself($node) if $distributed && $create;
	return $node;
}

sub distribute_to_itself
{
	my ($node) = @_;
	my $address = "'127.0.0.1', " . $node->port;

	$node->safe_psql('postgres', "CREATE EXTENSION citus; SELECT citus_set_coordinator_host($address)");
	$node->safe_psql('postgres',
		"SELECT citus_set_node_property($address, 'shouldhaveshards', true); SELECT atproto.distribute('atproto')");
	return;
}

# SELECT atproto.subscribe(...) for a server; further arguments by name, as SQL.
# Another endpoint than subscribeRepos: nsid => '...'.
sub subscribe_sql
{
	my ($name, $server, %args) = @_;
	my $url = $server->url(nsid => delete $args{nsid});

	return "SELECT atproto.subscribe('$name', '$url'"
	  . join('', map { ", $_ => $args{$_}" } sort keys %args) . ')';
}

# Calls a function until it gives true; the test ends when it never does.
sub wait_until
{
	my ($function, $what) = @_;
	my $deadline = time + $TIMEOUT;
	my $pause    = 20_000;

	# long waits ask less often
	until ($function->())
	{
		BAIL_OUT("timed out waiting for $what") if time > $deadline;
		usleep($pause);
		$pause = $pause * 1.5 if $pause < 200_000;
	}
	return;
}

# Another cluster is asked from now on, when no other is named.
sub ask_from_now_on
{
	my ($node) = @_;
	$last_made = $node;
	return;
}

# What a query gives; an error ends the test.  Options, here and in the two that follow:
# node => a cluster, database => 'name', session => \$session of AtprotoTest::Statement.
sub query
{
	my ($sql, %o) = @_;
	my ($node, $database) = ($o{node} // $last_made, $o{database} // 'postgres');
	my $run = AtprotoTest::Statement->run($node, $database, $sql, $o{session}) // return $node->safe_psql($database, $sql);

	die "error running SQL: '$run->{error}'\nin database $database with sql '$sql'" if defined $run->{error};
	print "#### Begin standard error\n$run->{notices}#### End standard error\n" if $run->{notices} ne '';
	return $run->{rows};
}

# A value, or undef when there is none, or while the server cannot say.  (A psql
# that ends before it has read its query is an exception, not a status.)
sub try_query
{
	my ($sql, %o) = @_;
	my ($node, $database) = ($o{node} // $last_made, $o{database} // 'postgres');
	my $run = AtprotoTest::Statement->run($node, $database, $sql, $o{session});
	my ($rc, $out) = $run ? (defined $run->{error}, $run->{rows}) : eval { $node->psql($database, $sql) };

	return defined $rc && $rc == 0 && $out ne '' ? $out : undef;
}

# Waits until a query gives true.  With gone => 1 the server, or what the query asks,
# need not be there yet; otherwise an error ends the test.
sub wait_for
{
	my ($sql, %o) = @_;
	my $ask = delete $o{gone} ? \&try_query : \&query;
	my $session;

	# a new session for each question would take most of the processors' time while several tests wait
	wait_until(sub { ($ask->($sql, %o, session => \$session) // '') eq 't' }, $sql);
	AtprotoTest::Statement->end(\$session);
	return;
}

# Waits until the subscription has committed everything up to a seq.
sub wait_for_seq
{
	my ($node, $name, $seq, $database) = @_;

	wait_for("SELECT coalesce(max(seq), 0) >= $seq FROM atproto.stat_subscription WHERE name = '$name'",
		gone => 1, node => $node, database => $database);
	return;
}

# No subscription any more, no process of one, and nothing in these tables.
sub start_over
{
	my (@tables) = @_;

	query('DELETE FROM atproto.subscription');
	wait_for(q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type IN ('atproto consumer', 'atproto apply worker')});
	query('TRUNCATE ' . join(', ', map { "atproto.$_" } 'record', 'repo', @tables));
	return;
}

# --- memory ---

our $MEMORY_MAX = 64 * 1024;    # kB that a consumer may have for itself

# What a process has for itself, in kB; 0 when there is no such process, and 1 under
# a sanitizer, whose own memory it would be, and where the system does not tell.
sub private_memory
{
	my ($pid) = @_;

	return 1 if ($ENV{LD_PRELOAD} // '') =~ /libasan/ || !-r '/proc/self/status';
	open my $status, '<', "/proc/$pid/status" or return 0;
	my ($kb) = map { /^RssAnon:\s+(\d+) kB/ } <$status>;
	close $status;
	return $kb // 0;
}

# The same of a node's only consumer, which must be there.
sub consumer_memory
{
	my ($node) = @_;
	my $pid = $node->safe_psql('postgres', "SELECT pid FROM pg_stat_activity WHERE backend_type = 'atproto consumer'");

	BAIL_OUT('there is not one consumer') unless $pid =~ /^\d+$/;
	return private_memory($pid);
}

# --- the oracle ---

# Runs expect.py: (output, exit status).
sub oracle
{
	my ($input, @args) = @_;
	my $python = $ENV{PYTHON} || '/usr/bin/python3';
	my ($out, $err) = ('', '');

	IPC::Run::run([ $python, '-B', "$test_dir/oracle/expect.py", @args ],
		'<', \$input, '>', \$out, '2>', \$err);
	my $status = $? >> 8;
	BAIL_OUT("the oracle failed: $err") if $err ne '' || $status > 1;
	return ($out, $status);
}

# How many operations the capture's commits have.
sub operations
{
	my ($capture) = @_;
	my $n = 0;

	$n += $_ foreach expected('events', $capture) =~ /^op\t\w+\t(\d+)$/mg;
	return $n;
}

# A table's rows as COPY writes them, in UTF-8.
sub table_copy
{
	my ($node, $mode, %o) = @_;
	my $query = sprintf $columns{$mode}, $o{schema} // 'atproto';
	my $rows  = $node->safe_psql($o{database} // 'postgres',
		"COPY ($query) TO STDOUT (ENCODING 'UTF8')");

	return $rows eq '' ? '' : "$rows\n";
}

# What the oracle says of a capture.  That takes it five times as long as to read a table's rows, so that it is asked once in a
# test, and once in a run about a capture of test/data.
my %expected;

sub expected
{
	my ($mode, $capture, @args) = @_;
	my $rows = expected_of_modes([$mode], $capture, @args);
	return $rows->{$mode};
}

# The same of several modes, for which the oracle reads the capture once: { mode => rows }.
sub expected_of_modes
{
	my ($modes, $capture, @args) = @_;
	my $key = join "\0", $capture, -s $capture, (stat _)[9], @args;
	my @new = grep { !defined $expected{"$_\0$key"} } @$modes;

	if (@new)
	{
		my $said = said_of($capture, join(',', @new), $capture, @args);
		my %said = @new == 1 ? ($new[0] => $said) : (split /^\f(\w+)\n/m, $said, -1)[ 1 .. 2 * @new ];
		$expected{"$_\0$key"} = $said{$_} // BAIL_OUT("the oracle says nothing of $_") foreach @new;
	}
	return { map { $_ => $expected{"$_\0$key"} } @$modes };
}

# What the oracle answers to this question about a capture.
sub said_of
{
	my ($capture, @asked) = @_;
	my $ask = sub { (oracle('', @asked))[0] };

	return $ask->() unless $capture =~ m{^\Q$test_dir\E/data/(.*)};
	my ($changed) = sort { $b <=> $a } map { (stat)[9] } $capture, glob "$test_dir/oracle/*.py";
	return PostgreSQL::Test::Utils::slurp_file(
		made_once(join("\0", 'oracle', $1, $changed, grep { $_ ne $capture } @asked), sub { PostgreSQL::Test::Utils::append_to_file($_[0], $ask->()) }));
}

# Tests that atproto.record and atproto.repo are what the oracle says.
# Options: schema, database, modes => [...], args => [ --last => 100, ... ] for the oracle.
sub tables_match
{
	my ($node, $capture, $name, %o) = @_;
	my $modes = $o{modes} // [ 'record', 'repo' ];

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return subtest $name => sub {
		my $expected = expected_of_modes($modes, $capture, @{ $o{args} // [] });

		foreach my $mode (@$modes)
		{
			my @asked = ($mode, $capture, @{ $o{args} // [] });
			my $rows  = table_copy($node, $mode, %o);
			my ($have) = oracle($rows, 'canon');

			ok($have eq $expected->{$mode}, "$mode agrees with the oracle") or diag(oracle($rows, @asked, '--compare'));
		}
	};
}

# Tests that collection_stat has what record_event has of events, neither more nor less.
sub counts_match
{
	my ($node, $name, %o) = @_;
	my $schema = $o{schema} // 'atproto';
	my $events = join ', ', map { "count(*) FILTER (WHERE action = '$_')" } qw(create update delete);
	my $counts = "SELECT hour, collection, creates, updates, deletes FROM $schema.collection_stat";
	my $kept   = "SELECT date_trunc('hour', received_at, 'UTC'), collection, $events FROM $schema.record_event WHERE seq IS NOT NULL GROUP BY 1, 2";

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return is(query("SELECT count(*) FROM (($counts EXCEPT ALL $kept) UNION ALL ($kept EXCEPT ALL $counts)) d", node => $node), '0', $name);
}

# --- atproto.check() ---

my @expected;

# A row of atproto.check() that the end of the test must find: what, and if need be what else its text (what|target|did|object|detail)
# matches.  maybe => 1: it need not come.
sub expect_check
{
	my ($what, $more, %o) = @_;

	push @expected, { what => $what, more => $more // qr//, maybe => $o{maybe}, found => 0 };
	return;
}

sub is_expected
{
	my ($row) = @_;
	my ($expected) = grep { $row =~ /^\Q$_->{what}\E\|/ && $row =~ $_->{more} } @expected;

	$expected->{found} = 1 if $expected;
	return $expected;
}

# The databases with the extension of a cluster that runs, and can be asked.
sub databases_to_check
{
	my ($node) = @_;
	my $pid = $node->{_pid};

	return unless $pid && kill 0, $pid;
	my $databases = try_query(q{SELECT datname FROM pg_database WHERE datallowconn AND datname !~ '^template' ORDER BY 1}, node => $node) // '';
	return grep { try_query(q{SELECT has_function_privilege(to_regprocedure('atproto.check(name,boolean,double precision)'), 'execute')},
			node => $node, database => $_) } split /\n/, $databases;
}

# Tests that nothing is wrong with the tables, but what is expected.
sub check_database
{
	my ($node, $database) = @_;
	my ($rc, $out, $err) = $node->psql($database, q{SET statement_timeout = '1min'; SET lock_timeout = '5s'; SELECT what, target, did, object, detail FROM atproto.check()});
	my $rows = $rc == 0 ? $out : "$err\n$out";
	my @wrong = grep { !is_expected($_) } split /\n/, $rows;

	ok($rc == 0 && !@wrong, 'atproto.check() finds nothing in database ' . $node->name . " $database") or diag(join "\n", splice @wrong, 0, 20);
	return;
}

sub check_cluster
{
	my ($node) = @_;

	check_database($node, $_) foreach databases_to_check($node);
	return;
}

sub check_clusters
{
	check_cluster($_) foreach @made;
	ok($_->{found}, "atproto.check() has found what was expected: $_->{what}") foreach grep { !$_->{maybe} } @expected;
	return;
}

# --- the committed transactions ---

# What a cluster that records has committed since the last call goes into its file: the file.
sub trace_of
{
	my ($node) = @_;
	my $file = $traces{$node} // return;

	my ($rc, $changes) = $node->{_pid} ? $node->psql('postgres', AtprotoTest::Trace::changes_sql()) : 1;
	PostgreSQL::Test::Utils::append_to_file($file, "$changes\n") if $rc == 0 && $changes ne '';
	return $file;
}

# Tests that a run of the models explains what was committed.
sub check_traces
{
	return unless $ENV{ATPROTO_TRACE};
	foreach my $file (map { trace_of($_) // () } @made)
	{
		foreach my $line (split /\n/, AtprotoTest::Trace::judge($file))
		{
			$line =~ /^(not )?ok - (.*)/ ? ok(!$1, $2) : diag($line);
		}
	}
	return;
}

# A test that breaks off leaves its transactions, too.
END
{
	my $status = $?;
	eval { trace_of($_) } foreach grep { $_->{_pid} } @made;
	$? = $status;
}

# At the end of the test, not of a subtest; and before a cluster stops, which may be for good.
{
	no warnings 'redefine';
	my $done_testing = \&Test::Builder::done_testing;
	my $stop = \&PostgreSQL::Test::Cluster::stop;

	*Test::Builder::done_testing = sub {
		unless (Test2::API::test2_stack()->top->isa('Test2::Hub::Subtest'))
		{
			check_clusters();
			check_traces();
		}
		goto $done_testing;
	};
	*PostgreSQL::Test::Cluster::stop = sub {
		my ($node, $mode) = @_;
		if (($mode // 'fast') ne 'immediate' && grep { $_ == $node } @made)
		{
			check_cluster($node);
			trace_of($node);
		}
		goto $stop;
	};
}

1;
