# Chaos/Run.pm
#		Runs one seed: a stream, a subscription, the actions of the plan, rest, and the comparison with the model.

package Chaos::Run;

use strict;
use warnings FATAL => 'all';

use Chaos::Actions;
use Chaos::Model;
use Chaos::Session;
use Chaos::Stream;
use File::Basename qw(dirname);
use File::Path qw(make_path remove_tree);
use Time::HiRes qw(time usleep);

my $test = dirname(__FILE__) . '/../..';
my $PATIENCE = $ENV{CHAOS_PATIENCE} // 60;    # seconds for the end of the stream, once it is left in peace

sub new
{
	my ($class, $cluster, $plan, $dir) = @_;
	remove_tree($dir);
	make_path($dir);
	my $self = bless {
		cluster => $cluster, plan => $plan, dir => $dir, name => $plan->{name}, sub => $plan->{name}, subs => [ $plan->{name} ], timers => [], story => [],
		differences => [], began => time, deaths => 0, log_at => -s $cluster->{log} // 0
	}, $class;
	$cluster->{meanwhile} = sub { $self->run_timers };
	return $self;
}

sub ask   { my ($self, @args) = @_; return $self->{cluster}->ask(@args) }
sub must  { my ($self, @args) = @_; return $self->{cluster}->must(@args) }
sub error { my ($self) = @_; return ($self->{cluster}->session->{error} // '') =~ s/\n.*//sr }

sub tell
{
	my ($self, $words) = @_;
	push @{ $self->{story} }, sprintf('%6.2f s  after %-4s  %s', time - $self->{began}, $self->{seq} // '?', $words);
	return;
}

sub differ
{
	my ($self, $words) = @_;
	push @{ $self->{differences} }, $words;
	return;
}

# --- things that end by themselves ---

sub later
{
	my ($self, $ms, $words, $code) = @_;
	push @{ $self->{timers} }, { at => time + $ms / 1000, words => $words, code => $code };
	return;
}

sub run_timers
{
	my ($self, $all) = @_;

	while (my @due = sort { $a->{at} <=> $b->{at} } grep { $all || $_->{at} <= time } @{ $self->{timers} })
	{
		my $timer = $due[0];
		$self->{timers} = [ grep { $_ != $timer } @{ $self->{timers} } ];
		$timer->{code}->();
		$self->tell($timer->{words});
	}
	return;
}

# A process that cannot move cannot end either.
sub thaw
{
	my ($self) = @_;
	kill 'CONT', Chaos::Cluster::children($self->{cluster}->postmaster);
	return;
}

# Whoever restarts the server must start what no manager starts.
sub start_alone
{
	my ($self) = @_;
	$self->must("SELECT atproto.resume(name) FROM atproto.subscription WHERE name = '$self->{sub}' AND enabled")
	  if $self->{plan}{database} eq 'alone';
	return;
}

# "A changed row deserves a fresh start": the manager need not wait as long as it does after failures.
sub touch
{
	my ($self) = @_;
	$self->ask("UPDATE atproto.subscription SET max_dead_letters = max_dead_letters WHERE name = '$self->{sub}'", 5);
	return;
}

sub nudge
{
	my ($self) = @_;
	$self->touch;
	$self->start_alone;
	$self->{touched}++;
	return;
}

# While the owner lacks rights on the tables, resume() refuses: it is called again when the rights are back.
sub resume
{
	my ($self) = @_;

	return 1 if eval { $self->must("SELECT atproto.resume('$self->{sub}')"); 1 };
	die $@ unless $self->{outage} && $@ =~ /may not fill schema/;
	$self->{refused_resume} = 1;
	$self->tell('resume is refused');
	return 0;
}

# Only what was broken may stop it.
sub resume_stopped
{
	my ($self) = @_;
	return if $self->{refused_resume} && !$self->resume;
	delete $self->{refused_resume};
	my $why = $self->ask("SELECT stopped FROM atproto.subscription WHERE name = '$self->{sub}' AND stopped IS NOT NULL", 5) or return;

	$self->tell("it has stopped: $why") unless $self->{stops}{$why};
	$self->differ("it has stopped: $why") unless $self->{outage} || $self->{stops}{$why};
	$self->{stops}{$why}++;
	$self->resume;
	return;
}

# --- before ---

sub program { my ($name) = @_; return "$test/$name" }

# Triggers that a user's tables have; also after the table was made anew.
sub triggers_sql
{
	my ($self) = @_;
	my $s = $self->{name};

	my $sql = '';

	if ($self->{plan}{tally})
	{
		$sql .= "CREATE TRIGGER $_->[0] AFTER $_->[0] ON $s.record REFERENCING $_->[1] TABLE AS rows"
		  . " FOR EACH STATEMENT EXECUTE FUNCTION chaos.tally();\n"
		  foreach [ 'INSERT', 'NEW' ], [ 'DELETE', 'OLD' ];
	}
	$sql .= "CREATE TRIGGER unlock AFTER INSERT ON $s.record FOR EACH STATEMENT EXECUTE FUNCTION chaos.unlock();\n"
	  if $self->{plan}{unlock};
	return $sql;
}

sub simulate
{
	my ($self) = @_;
	my $dir = $self->{dir};
	my $python = $ENV{PYTHON} || '/usr/bin/python3';

	Chaos::Cluster::run(program('simulator/simulate'), @{ $self->{plan}{simulate} }, '--expect', "$dir/expect", '--output', "$dir/frames");
	open my $f, '<', "$dir/expect/account" or die $!;
	$self->{dids} = [ map { (split /\t/)[0] } <$f> ];
	# beside the chaos: nobody needs it before the end
	my $pid = fork // die "fork: $!";
	if ($pid == 0)
	{
		open STDOUT, '>', "$dir/history" or POSIX::_exit(1);
		exec $python, '-B', program('chaos/history.py'), "$dir/frames" or POSIX::_exit(1);
	}
	$self->{history} = $pid;
	return;
}

sub prepare
{
	my ($self) = @_;
	my ($s, $plan) = ($self->{name}, $self->{plan});

	$self->simulate;
	$self->{cluster}->use_database($plan->{database});
	$self->begin_trace;
	if ($plan->{kind} eq 'clock' && $self->{cluster}->loosen_clock)
	{
		$self->{cluster}->stop('fast');
		$self->{cluster}->start;
	}
	$self->{stream} = Chaos::Stream->new(
		program => program('server/streamserver'), dir => $self->{dir}, capture => "$self->{dir}/frames",
		options => [ '--rate', $plan->{rate} ]);
	my $url = $self->{stream}->url;
	$self->must("ALTER SYSTEM SET atproto.batch_delay = $plan->{batch_delay}");
	$self->must("ALTER SYSTEM SET synchronous_commit = $plan->{synchronous}");
	$self->must('SELECT pg_reload_conf()');
	$self->must("DROP SCHEMA IF EXISTS $s CASCADE; CREATE SCHEMA $s AUTHORIZATION $plan->{owner};");
	$self->must(join '', <<"SQL", $self->triggers_sql, $plan->{index} ? "CREATE INDEX by_rev ON $s.record (rev);\n" : '', 'COMMIT;');
BEGIN;
SET LOCAL ROLE $plan->{owner};
SELECT atproto.create_tables('$s');
CREATE TABLE $s.tally (collection text PRIMARY KEY, n bigint);
CREATE TABLE $s.handed (seq bigint, action text, did text, collection text, rkey text, rev text, cid text, value jsonb, old_cid text);
CREATE TRIGGER handed AFTER DELETE ON $s.record_event FOR EACH ROW EXECUTE FUNCTION chaos.handed();
SQL
	$self->must(<<"SQL") if $plan->{foreign};
BEGIN;
SET LOCAL ROLE $plan->{owner};
CREATE TABLE $s.follower (did did REFERENCES $s.repo);
CREATE TABLE $s.bookmark (did did, collection nsid, rkey recordkey, PRIMARY KEY (did, collection, rkey),
    FOREIGN KEY (did, collection, rkey) REFERENCES $s.record ON DELETE CASCADE);
COMMIT;
SQL
	$self->must(<<"SQL");
BEGIN;
SET LOCAL synchronous_commit = on;
SET LOCAL ROLE $plan->{owner};
SELECT atproto.subscribe('$s', '$url', 0, target => '$s', events => '$plan->{events_mode}', workers => $plan->{workers}, links => '$plan->{links}', count_collections => true);
COMMIT;
SQL
	return;
}

# --- chaos ---

sub progress
{
	my ($self) = @_;
	my $out = $self->ask("SELECT coalesce(min(seq), 0), coalesce(max(seq), 0) FROM atproto.cursor WHERE subscription = '$self->{sub}'", 2);

	# a crash may have taken back what was seen before
	delete $self->{lowest};
	($self->{lowest}, $self->{seq}) = ($1, $2) if defined $out && $out =~ /^(\d+)\|(\d+)$/m;
	return;
}

sub chaos
{
	my ($self) = @_;

	foreach my $step (@{ $self->{plan}{steps} })
	{
		# a stream that does not come so far in this time gets the next blow nevertheless
		my $until = time + 3;
		my $nudge = time + 1;
		for (;;)
		{
			$self->run_timers;
			$self->progress;
			if (time > $nudge && !@{ $self->{timers} })
			{
				$self->resume_stopped if $self->{outage};
				$self->nudge if $self->{deaths};
				$nudge = time + 1;
			}
			last if ($self->{seq} // 0) >= $step->{at} || time > $until;
			usleep(5_000);
		}
		my $due = time + $step->{delay} / 1000;
		while (time < $due) { $self->run_timers; usleep(2_000) }
		$self->tell("$step->{number}. $step->{name}: " . Chaos::Actions::perform($self, $step));
	}
	return;
}

# --- rest ---

# Nothing of what can be seen will be lost by a crash that is on its way: what is
# committed after it, synchronously, has flushed it.
sub is_durable
{
	my ($self) = @_;
	return defined $self->ask('INSERT INTO chaos.flushed VALUES (1)', 5) && do { $self->progress; ($self->{lowest} // -1) == $self->{plan}{events} };
}

# Everything that was begun ends, and the stream comes to its end.
sub rest
{
	my ($self) = @_;
	my ($s, $n) = ($self->{name}, $self->{plan}{events});

	$self->run_timers(1);
	$self->thaw;
	# what was to be mended while something else was broken
	$self->must("DROP TRIGGER IF EXISTS $_ ON $s.record") foreach 'refuse', 'broken';
	my $until = time + $PATIENCE;
	my $calm = time;
	my $seen = -1;
	# each start takes its time where the machine is busy, and a nudge ends what has just begun
	my $nudge = 1.5;
	for (;;)
	{
		$self->progress;
		if (($self->{lowest} // -1) != $seen) { $seen = $self->{lowest} // -1; $calm = time }
		last if $seen == $n && $self->is_durable && ($self->ask("SELECT count(*) FROM $s.repo WHERE purge_rev IS NOT NULL", 5) // '1') eq '0';
		if (time > $until)
		{
			$self->differ('it did not come to rest: ' . ($self->ask("SELECT row_to_json(x) FROM atproto.stat_subscription x WHERE name = '$self->{sub}'", 5) // $self->error));
			last;
		}
		$self->resume_stopped;
		# A purge that was refused is tried again when the process starts the next time.
		if ($self->{refused} && $seen == $n && time > $calm + 0.5)
		{
			$self->must("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'atproto consumer'");
			$self->{deaths}++;
			$calm = time;
		}
		# Who never died waits for nothing; after deaths the manager may be patient.
		if ($self->{deaths} && time > $calm + $nudge)
		{
			$self->nudge;
			$nudge *= 1.3;
			$calm = time;
		}
		usleep(10_000);
	}
	$self->tell('rest' . ($self->{touched} ? ", touched $self->{touched} times" : ''));
	return;
}

# Letters of rows that were refused are tried again until nothing changes any more.
sub retry_letters
{
	my ($self) = @_;

	for (1 .. 5)
	{
		my $out = $self->must("SELECT id, seq, did, path, stage, atproto.retry(id) FROM atproto.dead_letter WHERE subscription = '$self->{sub}' AND stage = 'apply' ORDER BY id");
		my @results = split /\n/, $out;
		$self->tell("retry: $_") foreach @results;
		$self->{retried} += grep { /\|applied$/ } @results;
		last unless grep { /\|(applied|obsolete)$/ } @results;
	}
	return;
}

# --- comparison ---

sub setting_of
{
	my ($row) = @_;
	my ($collections, $dids, $actions, $keep_records, $events, $slice, $slices, $count) = @$row;
	my $list = sub { my ($text) = @_; return $text eq '-' ? undef : [ split /,/, $text ] };

	return {
		collections => $list->($collections), dids => $list->($dids), actions => $list->($actions),
		keep_records => $keep_records eq 't', events => $events,
		slice => $slice, slices => $slices, count => $count eq 't'
	};
}

# The moves of the cursor that consumers made, as pieces of the stream with their settings.
sub pieces
{
	my ($self) = @_;
	my @pieces;
	my %settings = map { my ($digest, @row) = split /\|/; $digest => setting_of(\@row) } split /\n/, $self->must(<<'SQL');
SELECT encode(digest, 'hex'), coalesce(array_to_string(collections, ','), '-'), coalesce(array_to_string(dids, ','), '-'),
    coalesce(array_to_string(actions, ','), '-'), keep_records, events, slice, split_part(slice, '/', 2), count_collections
FROM chaos.setting
SQL

	foreach (split /\n/, $self->must(<<"SQL"))
SELECT shard, shards, after, upto, encode(settings, 'hex') FROM chaos.cursor_log
WHERE subscription IN (@{[ join ', ', map { "'$_'" } @{ $self->{subs} } ]}) AND by IN ('atproto consumer', 'atproto apply worker') ORDER BY id
SQL
	{
		my ($shard, $shards, $after, $upto, $digest) = split /\|/;

		push @pieces, { shard => $shard, shards => $shards, after => $after, upto => $upto, setting => $settings{$digest} };
		$self->differ("settings of unknown digest $digest") unless $settings{$digest};
		$self->differ("the cursor of shard $shard was moved back by its consumer: from $after to $upto") if $upto < $after;
	}
	return \@pieces;
}

my %columns = (
	record       => 'did text, collection text, rkey text, cid text, rev text, value jsonb',
	repo         => 'did text, rev text, commit text, data text, active text, status text, handle text, sync text',
	record_event => 'seq bigint, action text, did text, collection text, rkey text, rev text, cid text, value jsonb, old_cid text',
	handed       => 'seq bigint, action text, did text, collection text, rkey text, rev text, cid text, value jsonb, old_cid text',
	collection_stat => 'collection text, creates bigint, updates bigint, deletes bigint');
my %have = (
	record       => 'did::text, collection::text, rkey::text, cid::text, rev::text, value',
	repo         => 'did::text, rev::text, "commit"::text, data::text, CASE WHEN active THEN $$t$$ ELSE $$f$$ END,'
	  . ' status, handle::text, sync',
	record_event => 'seq, action, did::text, collection::text, rkey::text, rev::text, cid::text, value, old_cid::text',
	handed       => '*',
	collection_stat => 'collection::text, sum(creates), sum(updates), sum(deletes)');

sub compare
{
	my ($self, $table, $rows, $name, %o) = @_;
	my $more = $o{more} // '';
	$o{group} //= '';
	my $lacks = $o{subset} ? '' : "SELECT '$name lacks ', left(w::text, 160) FROM (TABLE want EXCEPT ALL TABLE have) w UNION ALL";
	my $data = join '', map { "$_\n" } @$rows;
	my $out = $self->must(<<"SQL");
CREATE TEMP TABLE want ($columns{$table});
COPY want FROM STDIN;
$data\\.
CREATE TEMP TABLE have ($columns{$table});
INSERT INTO have SELECT $have{$table} FROM $self->{name}.$table $o{group};
$more;
$lacks SELECT '$name has too much: ', left(h::text, 160) FROM (TABLE have EXCEPT ALL TABLE want) h LIMIT 6;
DROP TABLE want, have;
SQL
	$self->differ(join "\n    ", split /\n/, $out) if $out ne '';
	return;
}

sub slurp_lines
{
	my ($path) = @_;
	open my $f, '<:raw', $path or die "cannot read $path: $!";
	my @lines = <$f>;
	chomp @lines;
	return \@lines;
}

sub verify
{
	my ($self) = @_;
	my ($s, $plan) = ($self->{name}, $self->{plan});

	$self->must("SET statement_timeout = '30s'");
	waitpid $self->{history}, 0;
	die "history.py failed\n" if $?;
	my $events = Chaos::Model::read_history("$self->{dir}/history");
	my %hash = map { split /\|/ } split /\n/, $self->must(
		'SELECT d, hashtext(d)::bigint & 4294967295 FROM unnest(ARRAY[' . join(',', map { "'$_->{did}'" } @$events) . ']) d');
	my %slices = map { my ($did, @of) = split /\|/; $did => { 2 => $of[0], 3 => $of[1] } } split /\n/, $self->must(
		'SELECT d, did_slice(d::did, 2), did_slice(d::did, 3) FROM unnest(ARRAY[' . join(',', map { "'$_->{did}'" } @$events) . ']) d');
	@$_{qw(hash slices)} = ($hash{ $_->{did} }, $slices{ $_->{did} }) foreach @$events;

	my $pieces = $self->pieces;
	my $want = Chaos::Model::expected($events, $pieces);
	my @never = grep { !$_->{times} } @$events;
	my @twice = grep { ($_->{times} // 0) > 1 } @$events;
	$self->differ('no move of the cursor covers ' . join ' ', map { "$_->{seq} ($_->{did})" } @never[ 0 .. ($#never > 5 ? 5 : $#never) ]) if @never;
	$self->differ('moves of the cursor cover twice ' . join ' ', map { $_->{seq} } @twice[ 0 .. ($#twice > 5 ? 5 : $#twice) ]) if @twice && !$self->{rewound};

	# where filters do not change: what the simulator itself says, whatever the cursor says
	my $records = $plan->{kind} eq 'filters' ? $want->{record} : slurp_lines("$self->{dir}/expect/record");
	# letters of an account that is not active stay, and what they are about is not known
	my $waits = "atproto.dead_letter l WHERE subscription = '$self->{sub}' AND message = 'the repository is not active'";
	$self->compare('record', $records, 'record', more => join ';', map {
		"DELETE FROM $_ t USING $waits AND t.did = l.did::text AND l.path IN ('', t.collection || '/' || t.rkey)"
	} 'want', 'have');
	# what the model does not say of sync; a letter may have to mark its repository
	$self->compare('repo', $want->{repo}, 'repo',
		more => $self->{refused} ? "UPDATE want SET sync = '?'; UPDATE have SET sync = '?'"
		: "UPDATE have SET sync = '?' FROM want WHERE want.did = have.did AND want.sync = '?'");
	# what was refused and is obsolete by now leaves none; what was there before is another when others came late
	my %late = $self->{refused} ? (subset => 1, more => "UPDATE want SET old_cid = NULL; UPDATE have SET old_cid = NULL;"
		. " DELETE FROM have WHERE seq IN (0" . join('', map { ", $_->{seq}" } grep { $_->{kind} eq '#account' } @$events) . ')') : ();
	$self->compare('record_event', $want->{record_event}, 'record_event', %late);
	$self->compare('handed', $want->{handed}, 'what was handed over', %late);
	$self->compare('collection_stat', $want->{collection_stat}, 'counts by collection', group => 'GROUP BY 1') unless $self->{refused};
	if ($plan->{links} eq 'all')
	{
		# not all were wanted all the time
		my $out = $self->must("SELECT problem, count(*), min(target) FROM atproto.link_problems('$s')" . ($self->{some_links} ? " WHERE problem = 'extra'" : '') . ' GROUP BY 1');
		$self->differ("links are not those of the records: $out") if $out ne '';
	}
	if ($plan->{tally})
	{
		my $out = $self->must("SELECT * FROM (SELECT collection::text, count(*) AS n FROM $s.record GROUP BY 1) r"
			  . " FULL JOIN (SELECT * FROM $s.tally WHERE n <> 0) t USING (collection) WHERE t.n IS DISTINCT FROM r.n");
		$self->differ("collection, rows, what triggers have counted: " . join '; ', split /\n/, $out) if $out ne '';
	}
	my $counted = $self->must("SELECT sum(events) FROM atproto.cursor WHERE subscription = '$self->{sub}'");
	$self->differ("events: $counted were counted, $want->{events} are in the moves of the cursor")
	  if $counted != $want->{events} && !$self->{resubscribed};
	my $letters = $self->must("SELECT seq, stage, sqlstate, path, message FROM atproto.dead_letter WHERE subscription = '$self->{sub}'"
		  . " AND NOT EXISTS (SELECT FROM $waits AND l.id = dead_letter.id)" . ($self->{frames} ? " AND stage <> 'frame'" : ''));
	$self->differ("dead letters:\n    " . join "\n    ", split /\n/, $letters) if $letters ne '';
	my $gaps = $self->must("SELECT after_seq, before_seq, reason FROM atproto.gap WHERE subscription = '$self->{sub}'");
	$self->differ("gaps: " . join '; ', split /\n/, $gaps) if $gaps ne '';
	return;
}

# The tables fit together.  What settings change is not in what was kept of events before, nor in links that were stored before.
sub check
{
	my ($self) = @_;
	my $deep = $self->{plan}{kind} eq 'filters' ? 'false' : 'true';
	my $but = $self->{some_links} ? " WHERE what NOT IN ('link is missing', 'link that is not wanted')" : '';
	my $wrong = $self->must("SELECT what, target, did, object, detail FROM atproto.check('$self->{name}', $deep)$but LIMIT 6");

	$self->differ("atproto.check():\n    " . join "\n    ", split /\n/, $wrong) if $wrong ne '';
	return;
}

# With ATPROTO_TRACE=DIR the committed transactions are kept, and checked with the models (../models/README.md).
sub begin_trace
{
	my ($self) = @_;

	$self->must("SELECT pg_create_logical_replication_slot('trace', 'test_decoding')") if $ENV{ATPROTO_TRACE};
	return;
}

sub judge_trace
{
	my ($self) = @_;
	my $dir = $ENV{ATPROTO_TRACE} or return;
	my $file = "$dir/chaos.$self->{plan}{seed}.trace";

	Chaos::Cluster::run('psql', qw(-XqAt -v ON_ERROR_STOP=1 -o), $file, '-c',
		q{COPY (SELECT data FROM pg_logical_slot_get_changes('trace', NULL, NULL, 'include-timestamp', 'on')) TO STDOUT});
	$self->must(q{SELECT pg_drop_replication_slot('trace')});
	open my $f, '-|', $ENV{PYTHON} || '/usr/bin/python3', '-B', program('models/trace'), $file or die "cannot run test/models/trace: $!";
	my @said = <$f>;
	close $f;
	chomp @said;
	$self->tell($_) foreach grep { /^(?:ok|undecided)/ } @said;
	$self->differ($_) foreach grep { !/^(?:ok|undecided)/ } @said;
	return;
}

# What no seed may find in the server's log.
sub read_log
{
	my ($self) = @_;

	open my $f, '<', $self->{cluster}{log} or return;
	seek $f, $self->{log_at}, 0;
	my @lines = <$f>;
	close $f;
	foreach my $line (@lines)
	{
		$self->differ("the server's log: $line" =~ s/\n//r)
		  if $line =~ /PANIC:|TRAP:|terminated by signal (?!9:|2:|15:)|invalid memory|cache lookup failed|XX000|could not find|stuck spinlock/
		  || ($line =~ /WARNING:/ && $line !~ /terminating connection because of crash|there is no transaction|there is already a transaction/);
	}
	$self->{server_log} = \@lines;
	return;
}

# --- after ---

sub clear
{
	my ($self) = @_;
	my $s = $self->{name};
	my $until = time + 30;

	$self->{stream}->stop if $self->{stream};
	$self->must("DELETE FROM atproto.subscription WHERE target = '$s'");
	until ($self->must("SELECT count(*) FROM pg_stat_activity WHERE backend_type IN ('atproto consumer', 'atproto apply worker')") eq '0')
	{
		if (time > $until) { $self->differ('its processes stay after it was removed'); last }
		usleep(5_000);
	}
	if (delete $self->{cluster}{clock})
	{
		$self->{cluster}->stop('fast');
		$self->{cluster}->start;
	}
	$self->must("DROP SCHEMA IF EXISTS $s CASCADE; TRUNCATE chaos.cursor_log, chaos.setting, chaos.flushed;");
	return;
}

# The differences; none: the seed is good.
sub run
{
	my ($self) = @_;

	eval {
		$self->prepare;
		$self->chaos;
		$self->rest;
		$self->retry_letters if $self->{refused};
		$self->verify;
		$self->check;
		$self->judge_trace;
		1;
	} or do { my $error = $@; $self->differ("it broke off: $error") };
	eval { $self->run_timers(1); $self->thaw; $self->clear; 1 } or $self->differ("it could not be cleared away: $@");
	eval { $self->read_log };
	return @{ $self->{differences} };
}

sub report
{
	my ($self) = @_;
	my $plan = $self->{plan};
	my @out = ("seed $plan->{seed}: $plan->{kind}, $plan->{events} events at $plan->{rate}/s, workers $plan->{workers}, owner $plan->{owner},"
		  . " events $plan->{events_mode}, batch_delay $plan->{batch_delay} ms, synchronous_commit $plan->{synchronous}"
		  . ($plan->{tally} ? ', tally' : '') . ($plan->{links} eq 'all' ? ', links' : '') . ($plan->{unlock} ? ', unlock' : '') . ($plan->{database} eq 'alone' ? ', no manager' : '') . ($plan->{foreign} ? ', foreign keys' : '') . ($plan->{index} ? ', index' : ''));

	push @out, map { "  $_" } @{ $self->{story} };
	push @out, map { "  DIFFERENCE: $_" } @{ $self->{differences} };
	return join("\n", @out) . "\n";
}

1;
