# AtprotoTest/Years.pm
#		What 315_years measures and compares: processor time, memory, sizes and the log of a server, season by season.
#
#		my $years = AtprotoTest::Years->new($node, $directory);
#		$years->begin_season(1);
#		$years->sample;				# often, while the season runs
#		$years->end_season($events);
#		$years->season_matches(1, $expected);	# directory of simulate --expect
#		$years->nothing_waits;
#		$years->figures_hold($seasons);
#		$years->log_is_known;
#		$years->write_figures($file);			# all figures, a line for each season

package AtprotoTest::Years;

use strict;
use warnings FATAL => 'all';

use AtprotoTest qw(query try_query private_memory);
use POSIX ();
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes ();

# Processes whose processor time is the cost of an event.
my @applying = ('atproto consumer', 'atproto apply worker');

# Lines of the log that kills, broken connections and restarts explain: what the line says, without its head.
my @known = (
	qr/^LOG:  (atproto subscription "years" ((dis)?connected|follows) |settings of atproto subscription "years" changed|atproto consumer of subscription "years" ends: (its settings|one of its workers ended))/,
	qr/^DETAIL:  Last event \d+; trying again in /,
	qr/^LOG:  (starting PostgreSQL|listening on|database system|shutting down|aborting any active|received (fast|immediate) shutdown|redo |invalid record length|invalid magic number|unexpected pageaddr|skipping (analyze|vacuum) of )/,
	qr/^LOG:  (all server processes terminated|terminating any other active server processes|server process|logical replication launcher)/,
	qr/^LOG:  background worker "(atproto [^"]+|logical replication launcher)" \(PID \d+\) (exited with exit code|was terminated by signal 9)/,
	qr/^LOG:  automatic (analyze|vacuum|aggressive vacuum) of table /,
	# maintain_partitions() does not wait for it
	qr/^ERROR:  canceling autovacuum task/,
	qr/^CONTEXT:  while (scanning|vacuuming) block \d+ of relation /,
	qr/^CONTEXT:  (applying events \d+ to \d+ of subscription "years"|SQL statement ")/,
	qr/^DETAIL:  (Consistent recovery state has not been yet reached|Failed process was running: )/,
	qr/^WARNING:  terminating connection because of crash of another server process/,
	qr/^DETAIL:  The postmaster has commanded this server process to roll back/,
	qr/^HINT:  In a moment you should be able to reconnect/,
	qr/^FATAL:  terminating background worker "atproto [^"]+" due to administrator command/,
	qr/^FATAL:  (the database system is|terminating connection due to)/);

my $ticks = POSIX::sysconf(&POSIX::_SC_CLK_TCK);

sub new
{
	my ($class, $node, $files) = @_;
	return bless { node => $node, files => $files, cpu => {}, memory => {}, seasons => [] }, $class;
}

# An answer of a session that stays; undef while the server gives none.
sub ask
{
	my ($self, $sql) = @_;
	return try_query($sql, node => $self->{node}, session => \$self->{session});
}

# { type of process => [ process ids ] }
sub _processes
{
	my ($self) = @_;
	my $rows = $self->ask("SELECT string_agg(backend_type || ':' || pid, ',') FROM pg_stat_activity WHERE backend_type LIKE 'atproto%'") // '';
	my %of;

	push @{ $of{$1} }, $2 while $rows =~ /([^,:]+):(\d+)/g;
	return \%of;
}

# Processor time so far, in microseconds; undef when the process has ended.
sub _cpu
{
	my ($pid) = @_;
	open my $f, '<', "/proc/$pid/stat" or return;
	my $line = <$f> // return;

	close $f;
	my @fields = split / /, ($line =~ /\) (.*)/)[0];
	return ($fields[11] + $fields[12]) * 1_000_000 / $ticks;
}

sub sample
{
	my ($self) = @_;
	my $processes = $self->_processes;

	foreach my $type (keys %$processes)
	{
		foreach my $pid (@{ $processes->{$type} })
		{
			my $cpu = _cpu($pid) // next;
			my $memory = private_memory($pid);

			$self->{now}{cpu}{$type} += $cpu - ($self->{cpu}{$pid} // 0);
			$self->{cpu}{$pid} = $cpu;
			$self->{now}{memory}{$type} = $memory if $memory > ($self->{now}{memory}{$type} // 0);
		}
	}
	return;
}

sub begin_season
{
	my ($self, $k) = @_;

	$self->sample;
	$self->{now} = { season => $k, began => Time::HiRes::time(), wal => query('SELECT pg_current_wal_insert_lsn()'), log => -s $self->{node}->logfile };
	return;
}

sub season_lasts
{
	my ($self) = @_;
	return Time::HiRes::time() - $self->{now}{began};
}

# Rows and bytes of each table of the schema atproto, partitions with their parent.  Deleted rows are not counted.
sub _tables
{
	my %tables;
	my $rows = query(<<'EOS');
SELECT coalesce(pg_partition_root(c.oid), c.oid)::regclass::text, sum(pg_total_relation_size(c.oid)), sum(n_live_tup), sum(n_dead_tup)
  FROM pg_class c LEFT JOIN pg_stat_all_tables s ON s.relid = c.oid
 WHERE c.relnamespace = 'atproto'::regnamespace AND c.relkind = 'r' GROUP BY 1
EOS
	foreach (split /\n/, $rows)
	{
		my ($name, $bytes, $live, $dead) = split /\|/;
		$tables{$name} = { bytes => $bytes, live => $live // 0, dead => $dead // 0 };
	}
	return \%tables;
}

sub end_season
{
	my ($self, $events) = @_;
	my $now = $self->{now};

	$self->sample;
	$now->{seconds} = $self->season_lasts;
	$now->{micros} = 0;
	$now->{micros} += ($now->{cpu}{$_} // 0) / $events foreach @applying;
	$now->{wal} = query("SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '$now->{wal}')") / $events;
	$now->{log} = (-s $self->{node}->logfile) - $now->{log};
	$now->{tables} = _tables();
	$now->{age} = query('SELECT age(datfrozenxid) FROM pg_database WHERE datname = current_database()');
	$now->{database} = query('SELECT pg_database_size(current_database())');
	push @{ $self->{seasons} }, $now;
	note(sprintf 'season %d: %.0f s, %.1f us an event, %.0f bytes of WAL an event, %.0f MB, log %d bytes, memory %s',
		$now->{season}, $now->{seconds}, $now->{micros}, $now->{wal}, $now->{database} / 1e6, $now->{log},
		join ', ', map { "$_ $now->{memory}{$_}" } sort keys %{ $now->{memory} });
	return;
}

# Rows as COPY writes them, in the order of bytes, into a file.
sub _copy
{
	my ($self, $query, $to) = @_;
	my $port = $self->{node}->port;
	my $host = $self->{node}->host;

	system(qq{psql -XqAt -h '$host' -p $port -d postgres -c "COPY ($query) TO STDOUT (ENCODING 'UTF8')" | LC_ALL=C sort > '$to'}) == 0
	  or BAIL_OUT("cannot copy $to");
	return;
}

# The simulator's values of records are JSON; their CIDs stand for them here, and check(deep) compares CIDs with values.
sub season_matches
{
	my ($self, $k, $expected) = @_;
	my $have = "$self->{files}/have";
	my $want = "$self->{files}/want";

	query('CREATE TABLE public.season (did public.did PRIMARY KEY)');
	query("COPY public.season FROM PROGRAM 'cut -f1 $expected/account'");
	query('ANALYZE public.season');
	$self->_copy('SELECT r.did, r.collection, r.rkey, r.cid, r.rev FROM atproto.record r JOIN public.season USING (did)', $have);
	system("cut -f1-5 '$expected/record' | LC_ALL=C sort > '$want'") == 0 or BAIL_OUT("cannot cut $expected/record");
	is(system('cmp', '-s', $have, $want), 0, "season $k: records");
	$self->_copy(q{SELECT r.did, r.rev, r.\"commit\", r.data, r.active, r.status, r.handle FROM atproto.repo r JOIN public.season USING (did)}, $have);
	system("LC_ALL=C sort '$expected/repo' > '$want'") == 0 or BAIL_OUT("cannot sort $expected/repo");
	is(system('cmp', '-s', $have, $want), 0, "season $k: repositories");
	query('DROP TABLE public.season');
	unlink $have, $want, "$expected/record", "$expected/repo", "$expected/history";
	return;
}

# In the end: of the accounts that were deleted nothing is left, no event is missing, and nothing waits.
sub nothing_waits
{
	my ($self, $seasons) = @_;

	is(query(q{SELECT count(*) FROM atproto.repo p JOIN atproto.record r USING (did) WHERE p.status = 'deleted'}), '0', 'deleted accounts have no records');
	is(query('SELECT (SELECT count(*) FROM atproto.gap), (SELECT count(*) FROM atproto.dead_letter), (SELECT count(*) FROM atproto.held_event)'),
		'0|0|0', 'no gap, no dead letter, no held event');
	return;
}

sub _most
{
	my ($from, $what, @seasons) = @_;
	my ($most) = sort { $b <=> $a } map { $_->{$what}{$from} // 0 } @seasons;
	return $most;
}

sub _median
{
	my @sorted = sort { $a <=> $b } @_;
	return $sorted[ @sorted / 2 ];
}

# The numbers of a long run: the second tenth of the seasons, but none before the first month was dropped, beside the last tenth.
sub figures_hold
{
	my ($self, $seasons) = @_;
	my @all   = @{ $self->{seasons} };
	my $tenth = POSIX::ceil($seasons / 10);
	my $first_dropped = 6;
	my @early = @all[ map { $_ + ($tenth > $first_dropped ? $tenth : $first_dropped) } 0 .. $tenth - 1 ];
	my @late  = @all[ -$tenth .. -1 ];
	my @old   = @all[ POSIX::ceil(2 * $seasons / 3) + 1 .. $#all ];
	my ($before, $after) = map { _median(map { $_->{micros} } @$_) } \@early, \@late;

	cmp_ok($after, '<=', 1.15 * $before, sprintf 'processor time of an event: %.1f us, early %.1f us', $after, $before);
	foreach my $type (sort keys %{ $old[0]{memory} })
	{
		my ($first, $last) = map { _most($type, 'memory', @$_) } [ @old[ 0 .. @old / 4 ] ], [ @old[ -@old / 4 .. -1 ] ];
		cmp_ok($last, '<=', 1.05 * $first, "memory of the $type: $last kB, when it was young $first kB");
	}
	# kills leave dead rows, whose room stays with the table: so the undisturbed seasons at the end are compared
	foreach my $table (grep { !/\.repo$/ } sort keys %{ $late[-1]{tables} })
	{
		my ($first, $last) = map { _median(map { $_->{tables}{$table}{bytes} // 0 } @$_) } [ @old[ 0 .. @old / 4 ] ], [ @old[ -@old / 4 .. -1 ] ];
		cmp_ok($last, '<=', 1.25 * $first, sprintf '%s: %.0f MB, at the begin of the last third %.0f MB', $table, $last / 1e6, $first / 1e6) if $last > 4_000_000;
	}
	return;
}

sub log_is_known
{
	my ($self) = @_;
	my %unknown;

	foreach (split /\n/, slurp_file($self->{node}->logfile))
	{
		my ($line) = /((?:DEBUG|LOG|INFO|NOTICE|WARNING|ERROR|FATAL|PANIC|DETAIL|HINT|STATEMENT|CONTEXT):  .*)/ or next;
		next if grep { $line =~ $_ } @known;
		$unknown{ $line =~ s/\d+/N/gr }++;
	}
	is(join("\n", map { "$unknown{$_} times $_" } sort keys %unknown), '', 'each line of the log is known');
	return;
}

sub write_figures
{
	my ($self, $file) = @_;
	my @tables = sort keys %{ $self->{seasons}[-1]{tables} };
	my @types  = sort keys %{ { map { %{ $_->{memory} } } @{ $self->{seasons} } } };
	my $text = join("\t", qw(season seconds micros wal age database log), (map { "$_, kB" } @types), map { ("$_, bytes", 'live', 'dead') } @tables) . "\n";

	foreach my $s (@{ $self->{seasons} })
	{
		$text .= join("\t", map { defined $_ ? sprintf('%.1f', $_) : '' } @$s{qw(season seconds micros wal age database log)}, (map { $s->{memory}{$_} } @types),
			map { my $t = $s->{tables}{$_}; ($t->{bytes}, $t->{live}, $t->{dead}) } @tables) . "\n";
	}
	append_to_file($file, $text);
	return;
}

1;
