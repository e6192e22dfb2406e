# Chaos/Actions.pm
#		The actions of a seed: everything that can happen to a subscription.  An action gets the run and
#		its step; the random numbers u of the step make all further choices.  Returns words for the story.

package Chaos::Actions;

use strict;
use warnings FATAL => 'all';

use POSIX ();
use Time::HiRes qw(usleep);

# name => [ weight, kinds of plans (all: undef), function ]
my %actions;
# PostgreSQL's own time limits, of waiting for locks above all, are in the clock's time:
# nobody waits for long where the clock moves.
my $still = [ 'plain', 'filters', 'refuse' ];
our %expensive = map { $_ => 1 } qw(kill_consumer kill_worker kill_manager kill_backend
  restart_fast restart_immediate kill_server term_consumer term_worker term_manager);

sub action
{
	my ($name, $weight, $kinds, $code) = @_;
	$actions{$name} = { weight => $weight, kinds => $kinds, code => $code };
	return;
}

sub names
{
	my ($kind) = @_;
	return grep { my $k = $actions{$_}{kinds}; !$k || grep { $_ eq $kind } @$k } sort keys %actions;
}

sub draw
{
	my ($u, @names) = @_;
	my $total = 0;

	$total += $actions{$_}{weight} foreach @names;
	$u *= $total;
	foreach my $name (@names)
	{
		return $name if ($u -= $actions{$name}{weight}) < 0;
	}
	return $names[-1];
}

sub perform
{
	my ($run, $step) = @_;
	return $actions{ $step->{name} }{code}->($run, $step) // 'nothing';
}

sub pick { my ($u, @list) = @_; return $list[ int($u * @list) ] }

# --- processes ---

sub processes
{
	my ($run, $type) = @_;
	my $out = $run->ask("SELECT pid FROM pg_stat_activity WHERE backend_type = '$type' ORDER BY pid", 2);
	return grep { /^\d+$/ } split /\n/, $out // '';
}

sub signal_one
{
	my ($type, $signal) = @_;
	return sub {
		my ($run, $step) = @_;
		my @pids = processes($run, $type) or return "no $type";
		my $pid = pick($step->{u}[0], @pids);

		kill $signal, $pid;
		$run->{deaths}++;
		return "$signal to $type $pid";
	};
}

# Stops a process, and lets it go on after some ms.  The timer tells the story.  The process may have been stopped with a lock
# for which the run's next statement waits, and timers run between statements only: so a child lets it go on.
sub stop_for
{
	my ($run, $pid, $ms) = @_;

	kill 'STOP', $pid;
	my $child = fork // die "fork: $!";
	if ($child == 0)
	{
		usleep(1000 * $ms);
		kill 'CONT', $pid;
		POSIX::_exit(0);
	}
	$run->later($ms, "thaw $pid", sub { waitpid $child, 0 });
	return;
}

sub freeze
{
	my ($type) = @_;
	return sub {
		my ($run, $step) = @_;
		my @pids = processes($run, $type) or return "no $type";
		my $pid = pick($step->{u}[0], @pids);

		stop_for($run, $pid, $step->{hold});
		return "freeze $type $pid for $step->{hold} ms";
	};
}

action kill_consumer => 3, undef, signal_one('atproto consumer', 'KILL');
action kill_worker   => 3, undef, signal_one('atproto apply worker', 'KILL');
action kill_manager  => 1, undef, signal_one('atproto manager', 'KILL');
action term_consumer => 4, undef, signal_one('atproto consumer', 'TERM');
action term_worker   => 3, undef, signal_one('atproto apply worker', 'TERM');
action term_manager  => 0.3, undef, signal_one('atproto manager', 'TERM');
action cancel_consumer => 2, undef, signal_one('atproto consumer', 'INT');
action cancel_worker => 1, undef, signal_one('atproto apply worker', 'INT');
action freeze_consumer => 2, undef, freeze('atproto consumer');
action freeze_worker => 5, undef, freeze('atproto apply worker');

action kill_backend => 1, $still, sub {
	my ($run) = @_;
	my $victim = Chaos::Session->new;
	my $pid = $victim->ask("CREATE TEMP TABLE t (); SELECT pg_backend_pid();", 2) or return;

	$victim->send("SELECT count(*) FROM $run->{name}.record a, $run->{name}.record b;");
	kill 'KILL', $pid;
	$run->{deaths}++;
	return "KILL to backend $pid";
};

# The consumer goes while a worker of it cannot, and the number of workers changes.
action old_worker => 5, undef, sub {
	my ($run, $step) = @_;
	my @workers = processes($run, 'atproto apply worker') or return 'no workers';
	my @consumers = processes($run, 'atproto consumer') or return 'no consumer';
	my $pid = pick($step->{u}[0], @workers);
	my $n = 1 + int(4 * $step->{u}[1]);

	stop_for($run, $pid, 600 + $step->{hold});
	kill 'TERM', $consumers[0];
	$run->{deaths}++;
	$run->ask("UPDATE atproto.subscription SET workers = $n WHERE name = '$run->{sub}'", 2);
	return "freeze worker $pid, TERM to consumer, workers = $n";
};

# --- the server ---

action restart_fast => 1.5, undef, sub {
	my ($run) = @_;
	$run->thaw;
	# PostgreSQL 15 itself waits for ever when this comes while it recovers
	$run->must('SELECT 1');
	$run->{cluster}->stop('fast');
	$run->{cluster}->start;
	$run->start_alone;
	return 'fast restart';
};
action restart_immediate => 1.5, undef, sub {
	my ($run) = @_;
	# what does not end by itself the postmaster kills after 5 s of the clock, which may have been set back
	$run->thaw;
	$run->{cluster}->stop('immediate');
	$run->{cluster}->start;
	$run->start_alone;
	return 'immediate restart';
};
action kill_server => 1.5, undef, sub {
	my ($run) = @_;
	$run->{cluster}->kill9;
	$run->{cluster}->start;
	$run->start_alone;
	return 'KILL to the postmaster, start';
};
action checkpoint => 0.5, undef, sub {
	my ($run) = @_;
	$run->ask('CHECKPOINT', 5);
	return 'checkpoint';
};
action batch_delay => 1, undef, sub {
	my ($run, $step) = @_;
	my $ms = pick($step->{u}[0], 0, 1, 10, 100, 300);
	$run->ask("ALTER SYSTEM SET atproto.batch_delay = $ms", 2);
	$run->ask('SELECT pg_reload_conf()', 2);
	return "batch_delay = $ms";
};

# --- the subscription ---

action workers => 6, undef, sub {
	my ($run, $step) = @_;
	my $n = 1 + int(4 * $step->{u}[0]);
	$run->ask("UPDATE atproto.subscription SET workers = $n WHERE name = '$run->{sub}'", 5);
	return "workers = $n";
};
action touch => 1, undef, sub {
	my ($run) = @_;
	$run->touch;
	return 'an update that changes nothing';
};
action pause => 2, undef, sub {
	my ($run, $step) = @_;
	$run->ask("SELECT atproto.pause('$run->{sub}')", 5);
	$run->later($step->{hold}, 'resume', sub { $run->resume });
	return "pause for $step->{hold} ms";
};
action pause_resume => 2, undef, sub {
	my ($run, $step) = @_;
	$run->ask("SELECT atproto.pause('$run->{sub}')", 5);
	$run->resume;
	return 'pause and resume';
};
action rewind => 2, undef, sub {
	my ($run, $step) = @_;
	my $back = int(80 * $step->{u}[0]);
	my $to = $run->ask(<<"SQL", 5);
DO \$\$
DECLARE
	n bigint;
BEGIN
	SELECT greatest(min(seq) - $back, 0) INTO n FROM atproto.cursor WHERE subscription = '$run->{sub}';
	PERFORM atproto.set_cursor('$run->{sub}', n);
END \$\$;
SQL
	$run->{rewound} = 1;
	return "set_cursor back by $back" . (defined $to ? '' : ': ' . $run->error);
};

action rename => 2, undef, sub {
	my ($run) = @_;
	my $name = $run->{name} . '_' . @{ $run->{subs} };

	# one of the two, whatever happens to the answer
	$run->ask("UPDATE atproto.subscription SET name = '$name' WHERE name = '$run->{sub}'", 5);
	my $is = $run->must("SELECT name FROM atproto.subscription WHERE target = '$run->{name}'");
	push @{ $run->{subs} }, $name if $is eq $name;
	$run->{sub} = $is;
	# a database without a manager: no process would start the consumer under the new name
	$run->start_alone;
	return "it is called $is now";
};
# Forgotten and made again where it was.
action resubscribe => 2, [ 'plain', 'filters' ], sub {
	my ($run, $step) = @_;
	my $plan = $run->{plan};
	my $n = 1 + int(4 * $step->{u}[0]);
	my $url = $run->{stream}->url;
	my $done = $run->ask(<<"SQL", 5);
DO \$\$
DECLARE
	n bigint;
BEGIN
	SELECT min(seq) INTO n FROM atproto.cursor WHERE subscription = '$run->{sub}';
	PERFORM atproto.unsubscribe('$run->{sub}');
	SET LOCAL ROLE $plan->{owner};
	PERFORM atproto.subscribe('$run->{sub}', '$url', n, target => '$run->{name}', events => '$plan->{events_mode}', workers => $n, links => '$plan->{links}', count_collections => true);
END \$\$;
SQL
	# what was committed after n was read comes again, and is old
	$run->{rewound} = $run->{resubscribed} = 1;
	return "unsubscribe, subscribe with workers = $n" . (defined $done ? '' : ': ' . $run->error);
};

sub array { my ($type, @values) = @_; return 'ARRAY[' . join(',', map { "'$_'" } @values) . "]::$type\[]" }

action filter => 10, ['filters'], sub {
	my ($run, $step) = @_;
	my ($u, $v, $w) = @{ $step->{u} };
	my @dids = @{ $run->{dids} };
	my $half = int(@dids * (0.3 + 0.6 * $w));
	my $set = pick(
		$u,
		'collections = ' . pick($v, 'NULL', array('text', 'app.bsky.feed.like'), array('text', 'app.bsky.feed.*', 'app.bsky.actor.profile'), array('text', 'app.bsky.graph.*')),
		'collections = ' . pick($v, 'NULL', 'NULL', array('text', 'app.bsky.feed.*')),
		'dids = ' . pick($v, 'NULL', 'NULL', array('did', @dids[ 0 .. $half ])),
		'actions = ' . pick($v, 'NULL', 'NULL', array('text', 'create'), array('text', 'create', 'update'), array('text', 'delete', 'update')),
		'keep_records = ' . pick($v, 'true', 'true', 'false'),
		"events = '" . pick($v, 'none', 'keep', 'keep', 'hand') . q{'},
		'keep_raw = ' . pick($v, 'true', 'false'),
		'count_collections = ' . pick($v, 'true', 'false'),
		'slice = ' . pick($v, 'NULL', q{'0/2'}, q{'1/2'}, q{'2/3'}),
		'collections = NULL, dids = NULL, slice = NULL, actions = NULL, keep_records = true');
	# links go with records
	$set =~ s/keep_records = false/keep_records = true/ if $run->{plan}{links} ne 'none';
	if ($run->{plan}{links} eq 'all' && $step->{u}[5] < 0.2)
	{
		$set .= ", links = '" . pick($v, 'all', '{}', '{app.bsky.feed.*,app.bsky.graph.follow:subject}') . q{'};
		$run->{some_links} = 1;
	}
	$set .= ', workers = ' . (1 + int(4 * $step->{u}[4])) if $step->{u}[3] < 0.2;
	my $done = $run->ask("UPDATE atproto.subscription SET $set WHERE name = '$run->{sub}'", 5);
	$set =~ s/ARRAY\[('did:[^]]*)\]/(my $n = () = $1 =~ m{did:}g) . ' of them'/e;
	return $set . (defined $done ? '' : ': ' . $run->error);
};

# --- users ---

# A transaction of somebody else, held for a while.
sub user
{
	my ($what) = @_;
	return sub {
		my ($run, $step) = @_;
		my $sql = $what->($run, $step) or return 'nothing';
		my $end = $step->{u}[5] < 0.5 ? 'COMMIT' : 'ROLLBACK';
		my $session = Chaos::Session->new;

		$session->send("SET lock_timeout = '3s'; SET statement_timeout = '5s'; BEGIN; $sql;");
		$run->later($step->{hold}, lc $end, sub { $session->send("$end;"); $session->finish(10); $session->close });
		return "$sql; after $step->{hold} ms $end";
	};
}

my @modes = ('ACCESS SHARE', 'ROW SHARE', 'ROW EXCLUSIVE', 'SHARE UPDATE EXCLUSIVE', 'SHARE', 'SHARE ROW EXCLUSIVE', 'EXCLUSIVE', 'ACCESS EXCLUSIVE');
action lock_table => 3, $still, user(
	sub {
		my ($run, $step) = @_;
		my $table = pick($step->{u}[0], "$run->{name}.record", "$run->{name}.repo", 'atproto.cursor', 'atproto.dead_letter');
		# who asks how far the stream is must not wait
		my $mode = pick($step->{u}[1], @modes[ 0 .. ($table =~ /cursor/ ? 6 : 7) ]);
		return "LOCK TABLE $table IN $mode MODE";
	});
action lock_rows => 4, $still, user(
	sub {
		my ($run, $step) = @_;
		my $table = pick($step->{u}[0], "$run->{name}.repo", "$run->{name}.repo", "$run->{name}.record", 'atproto.cursor');
		my $mode = pick($step->{u}[1], 'UPDATE', 'NO KEY UPDATE', 'SHARE', 'KEY SHARE');
		return "SELECT count(*) FROM (SELECT FROM $table FOR $mode) s";
	});
action write_rows => 3, $still, user(
	sub {
		my ($run, $step) = @_;
		return pick(
			$step->{u}[0],
			"UPDATE $run->{name}.record SET indexed_at = now() WHERE hashtext(rkey::text) % 3 = 0",
			"UPDATE $run->{name}.repo SET updated_at = now() WHERE hashtext(did::text) % 3 = 0",
			"UPDATE atproto.cursor SET updated_at = now() WHERE subscription = '$run->{sub}'",
			"UPDATE atproto.subscription SET max_dead_letters = 9999 WHERE name = '$run->{sub}'");
	});
action refer => 4, $still, user(
	sub {
		my ($run, $step) = @_;
		return undef unless $run->{plan}{foreign};
		return "INSERT INTO $run->{name}.follower SELECT did FROM $run->{name}.repo ORDER BY hashtext(did::text) LIMIT 5"
		  if $step->{u}[0] < 0.5;
		return "INSERT INTO $run->{name}.bookmark SELECT did, collection, rkey FROM $run->{name}.record"
		  . ' ORDER BY hashtext(rkey::text) LIMIT 20 ON CONFLICT DO NOTHING';
	});

# --- definitions ---

sub partitions
{
	my ($run, $by) = @_;
	my $s = $run->{name};
	my $sql = <<"SQL";
BEGIN;
LOCK TABLE $s.record IN ACCESS EXCLUSIVE MODE;
DROP VIEW $s.visible_record;
ALTER TABLE $s.record RENAME TO was;
CREATE TABLE $s.record (LIKE $s.was INCLUDING ALL)@{[ $by ? " PARTITION BY HASH ($by)" : '' ]};
SQL
	$sql .= "CREATE TABLE $s.record_$_ PARTITION OF $s.record FOR VALUES WITH (MODULUS 3, REMAINDER $_);\n"
	  foreach $by ? 0 .. 2 : ();
	$sql .= <<"SQL";
INSERT INTO $s.record SELECT * FROM $s.was;
DROP TABLE $s.was CASCADE;
CREATE VIEW $s.visible_record AS SELECT r.* FROM $s.record r JOIN $s.repo p ON p.did = r.did WHERE p.active;
SQL
	$sql .= $run->triggers_sql;
	$sql .= join '', map { "ALTER TABLE $s.$_ OWNER TO $run->{plan}{owner};\n" } 'record', 'visible_record', $by ? map { "record_$_" } 0 .. 2 : ();
	return "${sql}COMMIT";
}

action ddl => 6, $still, sub {
	my ($run, $step) = @_;
	my $s = $run->{name};
	my ($sql, $words) = @{
		pick(
			$step->{u}[0],
			["CREATE INDEX IF NOT EXISTS by_rev ON $s.record (rev)"],
			["CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS again ON $s.record (rkey, did, collection)"],
			["DROP INDEX IF EXISTS $s.by_rev, $s.again"],
			["REINDEX TABLE $s.record"],
			["REINDEX TABLE CONCURRENTLY $s.repo"],
			["VACUUM FULL $s.record"],
			["VACUUM FULL $s.repo"],
			["VACUUM (FULL) atproto.cursor"],
			["VACUUM ANALYZE"],
			["ALTER TABLE $s.record ADD COLUMN IF NOT EXISTS note text DEFAULT 'none'"],
			["ALTER TABLE $s.record DROP COLUMN IF EXISTS note"],
			["ALTER TABLE $s.repo ADD COLUMN IF NOT EXISTS note text DEFAULT clock_timestamp()::text"],
			["ALTER TABLE $s.repo DROP COLUMN IF EXISTS note"],
			["ALTER TABLE $s.record ADD COLUMN IF NOT EXISTS kind text GENERATED ALWAYS AS (value ->> '\$type') STORED"],
			["ALTER TABLE $s.record DROP COLUMN IF EXISTS kind"],
			["CREATE OR REPLACE TRIGGER nothing BEFORE INSERT OR UPDATE ON $s.record FOR EACH ROW EXECUTE FUNCTION chaos.nothing()"],
			["DROP TRIGGER IF EXISTS nothing ON $s.record"],
			["CREATE OR REPLACE TRIGGER nothing BEFORE UPDATE ON $s.repo FOR EACH ROW EXECUTE FUNCTION chaos.nothing()"],
			["DROP TRIGGER IF EXISTS nothing ON $s.repo"],
			["ALTER TABLE $s.record SET (fillfactor = 70)"],
			["ALTER TABLE $s.record ALTER COLUMN value SET STORAGE EXTERNAL"],
			["ALTER TABLE $s.record ALTER COLUMN indexed_at SET DEFAULT clock_timestamp()"],
			["ALTER TABLE $s.repo ADD CONSTRAINT ok CHECK (did::text <> '')"],
			["ALTER TABLE $s.repo DROP CONSTRAINT IF EXISTS ok"],
			["ANALYZE $s.record, $s.repo"],
			["BEGIN; ALTER TABLE $s.record RENAME COLUMN raw TO dag; ALTER TABLE $s.record RENAME COLUMN dag TO raw; COMMIT"],
			[ partitions($run, 'did'), 'record into partitions' ],
			[ partitions($run, 'rkey'), 'record into partitions by key' ],
			[ partitions($run, undef), 'record into one table' ])
	};
	my $session = Chaos::Session->new;
	my $done = $session->ask("SET lock_timeout = '3s'; SET statement_timeout = '10s'; $sql;", 15);
	return ($words // $sql) . (defined $done ? '' : ': ' . ($session->{error} // '') =~ s/\n.*//sr);
};

action refuse => 8, ['refuse'], sub {
	my ($run, $step) = @_;
	my $s = $run->{name};
	my $when = pick($step->{u}[0], 'BEFORE INSERT', 'BEFORE INSERT OR UPDATE', 'AFTER INSERT OR UPDATE', 'BEFORE DELETE', 'BEFORE INSERT OR UPDATE OR DELETE');

	defined $run->ask("SET lock_timeout = '3s'; CREATE OR REPLACE TRIGGER refuse $when ON $s.record FOR EACH ROW EXECUTE FUNCTION chaos.refuse();", 5)
	  or return 'no trigger: ' . $run->error;
	$run->{refused} = 1;
	$run->later($step->{hold} * 2, 'refuse no more', sub { $run->must("DROP TRIGGER IF EXISTS refuse ON $s.record") });
	return "records are refused $when for $step->{hold} * 2 ms";
};

# Something of the schema or of privileges is not as it must be, for a while.
sub outage
{
	my ($break, $mend) = @_;
	return sub {
		my ($run, $step) = @_;
		my ($no, $yes) = map { s/#/$run->{name}/gr =~ s/\@/$run->{plan}{owner}/gr } $break, $mend;

		$run->{outage} = $run->{refused} = 1;
		defined $run->ask($no, 5) or return "not broken: " . $run->error;
		# the mending may wait, and may be done twice; another outage may have renamed the table
		my $gone = 'EXCEPTION WHEN undefined_object OR undefined_table OR undefined_column THEN';
		my $away = $yes =~ s/\.record\b/.away/gr;
		$run->later($step->{hold} * 2, $yes, sub { $run->must("DO \$\$ BEGIN $yes; $gone BEGIN $away; $gone NULL; END; END \$\$") });
		return "$no, for $step->{hold} * 2 ms";
	};
}
action outage_rights => 2, ['refuse'], outage('REVOKE INSERT, UPDATE ON #.record FROM @', 'GRANT INSERT, UPDATE ON #.record TO @');
action outage_table  => 2, ['refuse'], outage('ALTER TABLE #.record RENAME TO away', 'ALTER TABLE #.away RENAME TO record');
action outage_column => 2, ['refuse'], outage('ALTER TABLE #.repo RENAME COLUMN rev TO away', 'ALTER TABLE #.repo RENAME COLUMN away TO rev');
action outage_trigger => 2, ['refuse'], outage('CREATE TRIGGER broken BEFORE INSERT ON #.record FOR EACH ROW EXECUTE FUNCTION chaos.broken()', 'DROP TRIGGER broken ON #.record');

# --- the clock ---

action clock => 15, ['clock'], sub {
	my ($run, $step) = @_;
	return 'no libfaketime here' unless $run->{cluster}{clock};
	my $offset = pick($step->{u}[0], '-1h', '-1d', '+1h', '+1d', '-90', '+90', '+0');

	$run->{cluster}->set_clock($offset);
	$run->later(4 * $step->{hold}, 'the clock is right again', sub { $run->{cluster}->set_clock('+0') }) if $step->{u}[1] < 0.6;
	return "the clock is off by $offset";
};

# --- the connection ---

action cut => 6, undef, sub {
	my ($run, $step) = @_;
	my ($u, $v, $w) = @{ $step->{u} };
	my $n = 1 + int(60 * $v);
	my $seq = int($w * $run->{plan}{events});
	my @options = @{
		pick(
			$u,
			[],
			[ '--cut-after', $n, '--cut-times', 8 ],
			[ '--cut-after', $n, '--cut-inside', 1 + int(900 * $w), '--cut-times', 3 ],
			[ '--cut-after', $n, '--cut-reset', '--cut-times', 3 ],
			[ '--close-after', $n, '--close-code', pick($w, 1000, 1001, 1005, 1008, 1011, 1012), '--fault-times', 3 ],
			[ '--stall-after', $n, '--ignore-pings', '--fault-times', 1 ],
			[ '--status', pick($w, 429, 500, 502, 503, 504), '--status-times', 2 ],
			[ '--inclusive' ],
			[ '--fragment', 100 + int(2000 * $w) ],
			[ '--trickle', (200 + int(5000 * $w)) . ':200' ],
			[ '--garbage-at', $seq, '--fault-times', 2 ],
			[ '--error', 'ConsumerTooSlow@' . $seq, '--fault-times', 2 ],
			[ '--dup-at', $seq, '--fault-times', 2 ],
			[ '--text-at', $seq, '--fault-times', 2 ],
			[ '--oversize', '6000000@' . $seq, '--fault-times', 1 ],
			[ '--ping-at', $seq, '--fragment', 500 ])
	};
	$run->{frames} = 1 if "@options" =~ /dup-at/;
	$run->{stream}->stop;
	$run->{stream}->start('--rate', $run->{plan}{rate}, @options);
	return "another stream server: @options";
};

1;
