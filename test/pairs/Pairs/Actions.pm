# Pairs/Actions.pm
#		The changes of a program, as actions of the chaos machine.  An action gets the run
#		and its step, and returns words for the story.

package Pairs::Actions;

use strict;
use warnings FATAL => 'all';

use Chaos::Actions;
use File::Path qw(remove_tree);
use Time::HiRes qw(time usleep);

sub action { my ($name, $code) = @_; Chaos::Actions::action("pairs_$name", 0, ['pairs'], $code); return }

# What may fail by the world's fault is tried again; an error of the statement itself is a difference.
sub change
{
	my ($run, $words, $sql) = @_;

	eval { $run->must("SET lock_timeout = '20s'; $sql", 30); 1 } or do { $run->differ("$words was refused: $@" =~ s/\n//gr); return "$words: refused" };
	return $words;
}

action rename => sub {
	my ($run, $step) = @_;
	my $name = "$run->{name}_renamed$step->{number}";
	my $words = change($run, "rename of the subscription to $name", "UPDATE atproto.subscription SET name = '$name' WHERE name = '$run->{sub}'");

	$run->{sub} = $name;
	return $words;
};

action rename_schema => sub {
	my ($run, $step) = @_;
	my $was = $run->{name};
	my $name = "$run->{plan}{name}_s$step->{number}";
	# the subscriptions follow; that somebody writes it, too, does no harm
	my $also = $step->{u}[0] < 0.3 ? "UPDATE atproto.subscription SET target = '$name' WHERE target IN ('$was', '$name');" : '';
	my $words = change($run, "rename of the schema to $name", "BEGIN; ALTER SCHEMA $was RENAME TO $name; $also COMMIT");

	$run->{name} = $name;
	push @{ $run->{schemas} }, $name;
	return $words;
};

action url => sub {
	my ($run, $step) = @_;
	my $kind = $step->{value} eq 'server' ? $run->{stream}{kind} : $Pairs::World::version{ $run->{stream}{kind} } ? 'relay' : 'jetstream2';
	my $new = $run->{world}->serve("$run->{plan}{name}.url", $kind, 0, '--rate', $run->{plan}{rate});
	my $url = $run->{world}->url($new);
	# only a Jetstream has an archive
	my $history = $run->has_archive(0) && $kind eq 'relay' ? ", history = 'none'" : '';
	my $n = $step->{value} eq 'server' ? "(SELECT min(seq) FROM atproto.cursor WHERE subscription = '$run->{sub}')" : '0';
	# another host: the stream goes on at the same number, which is read before it changes
	my $words = change($run, "change of the url to another $kind", <<"SQL");
DO \$\$
DECLARE
	n bigint;
BEGIN
	PERFORM FROM atproto.cursor WHERE subscription = '$run->{sub}' FOR UPDATE;
	n := $n;
	UPDATE atproto.subscription SET url = '$url'$history WHERE name = '$run->{sub}';
	PERFORM atproto.set_cursor('$run->{sub}', n);
END \$\$
SQL
	push @{ $run->{old_streams} }, $run->{stream};
	$run->{stream}->stop;
	$run->{stream} = $new;
	$run->{sources}[0] = $new;
	return $words;
};

action filter => sub {
	my ($run, $step) = @_;
	my $to = $step->{value} eq 'wider' ? 'NULL' : q('{app.bsky.feed.*}');
	return change($run, "filter $step->{value}", "UPDATE atproto.subscription SET collections = $to WHERE target = '$run->{name}'");
};

# The subscriptions fill other tables, from the beginning.
action target => sub {
	my ($run, $step) = @_;
	my $was = $run->{name};
	my $name = "$run->{plan}{name}_t$step->{number}";

	$run->must($run->schema_sql($name));
	my $words = change($run, "change of the target to $name", "BEGIN; UPDATE atproto.subscription SET target = '$name' WHERE target = '$was';"
		. " SELECT atproto.set_cursor(name, 0) FROM atproto.subscription WHERE target = '$name'; COMMIT");
	$run->{name} = $name;
	$run->{bookmarks} = 0;
	push @{ $run->{schemas} }, $name;
	return $words;
};

action refill => sub {
	my ($run, $step) = @_;
	return change($run, 'archive again', "SELECT atproto.history_again('$run->{sub}', 0)") if $run->has_archive(0);
	return change($run, 'refill', "SELECT atproto.refill('$run->{sub}')");
};

action resync => sub {
	my ($run, $step) = @_;
	return change($run, 'resync of some', "SELECT atproto.resync(did, '$run->{name}') FROM (SELECT did FROM $run->{name}.repo WHERE active ORDER BY hashtext(did::text || '$step->{number}') LIMIT 4) r");
};

action unsubscribe => sub {
	my ($run, $step) = @_;
	my $subscribe = $run->subscribe_sql($run->{sub}, 0, 'n');
	return change($run, 'unsubscribe and subscribe', <<"SQL");
DO \$\$
DECLARE
	n bigint;
	c text[];
BEGIN
	SELECT min(seq) INTO n FROM atproto.cursor WHERE subscription = '$run->{sub}';
	SELECT collections INTO c FROM atproto.subscription WHERE name = '$run->{sub}';
	PERFORM atproto.unsubscribe('$run->{sub}');
	SET LOCAL ROLE $run->{role};
	PERFORM $subscribe;
	RESET ROLE;
	UPDATE atproto.subscription SET collections = c, max_dead_letters = 100000 WHERE name = '$run->{sub}';
END \$\$
SQL
};

action partition => sub {
	my ($run, $step) = @_;
	my $by = $Pairs::Run::partitions{ $step->{value} };
	my $differences = @{ $run->{differences} };
	# partition() refuses a table with a trigger that is not the extension's, as the one of action "refuse" is
	my $words = change($run, "partitions by $step->{value}", "DROP TRIGGER IF EXISTS refuse ON $run->{name}.record; SET ROLE $run->{plan}{owner}; SELECT atproto.partition('$run->{name}', $by); RESET ROLE");
	# it says what it would lose; the program goes on without partitions
	if ((grep { $run->{p}{$_} eq 'yes' } qw(publication security)) && @{ $run->{differences} } > $differences && $run->{differences}[-1] =~ /because of what is on it.*(?:publication|row security)/)
	{
		pop @{ $run->{differences} };
		$run->ask('RESET ROLE', 5);
	}
	return $words;
};

action bookmark => sub {
	my ($run, $step) = @_;
	my $s = $run->{name};

	$run->{bookmarks} = 1;
	# a record that is deleted meanwhile has no bookmark
	return change($run, 'bookmarks', "BEGIN; LOCK TABLE $s.record IN SHARE ROW EXCLUSIVE MODE; INSERT INTO $s.bookmark SELECT did, collection, rkey FROM $s.record ORDER BY hashtext(rkey::text) LIMIT 30 ON CONFLICT DO NOTHING;"
		. " INSERT INTO $s.bookmarked SELECT b.*, b.xmin::text FROM $s.bookmark b ON CONFLICT DO NOTHING; COMMIT");
};

# A role without rights on the tables tries to subscribe into them.
action stranger => sub {
	my ($run, $step) = @_;
	my $done = $run->ask("SET ROLE stranger; SELECT atproto.subscribe('$run->{plan}{name}_stranger', '@{[ $run->{world}->url($run->{sources}[0]) ]}', 0, target => '$run->{name}')", 10);

	$run->ask('RESET ROLE', 5);
	return 'a stranger is refused' unless defined $done;
	$run->must("DELETE FROM atproto.subscription WHERE name = '$run->{plan}{name}_stranger'");
	$run->differ('a stranger may subscribe to the target');
	return 'a stranger is not refused';
};

action unlogged => sub {
	my ($run, $step) = @_;
	my $u = "$run->{plan}{name}_u";
	my $done = $run->ask("CREATE SCHEMA $u; SELECT atproto.create_tables('$u'); ALTER TABLE $u.record SET UNLOGGED;"
		. " SELECT atproto.subscribe('$u', '@{[ $run->{world}->url($run->{sources}[0]) ]}', 0, target => '$u')", 10);

	$run->must("DELETE FROM atproto.subscription WHERE name = '$u'; DROP SCHEMA IF EXISTS $u CASCADE");
	return 'an UNLOGGED table is refused' unless defined $done;
	$run->differ('an UNLOGGED table is not refused');
	return 'an UNLOGGED table is not refused';
};

# --- the server ---

# The database, dumped while the streams go on, and restored as another one, which takes its place.
action dump => sub {
	my ($run, $step) = @_;
	my $cluster = $run->{cluster};
	my $file = "$cluster->{dir}/dump";
	my $name = "restored$step->{number}";

	$run->thaw;
	$run->must('SELECT 1');
	outside($file, 'pg_dump', '-Fc', '-f', $file, $ENV{PGDATABASE});
	Chaos::Cluster::run('createdb', '-T', 'template0', $name);
	my $was = $ENV{PGDATABASE};
	eval { Chaos::Cluster::run('pg_restore', '--exit-on-error', '-d', $name, $file); 1 } or $run->differ("the dump does not load: $@");
	$run->must("ALTER SYSTEM SET atproto.databases = '$name'");
	$cluster->stop('fast');
	$cluster->start;
	$cluster->use_database($name);
	$run->must("DROP DATABASE $was WITH (FORCE)");
	$run->resume_stopped;
	$cluster->{spent} = 1;
	unlink $file;
	return 'dump and restore';
};

# A program that asks the server, which may be starting after a kill.  What it has written before goes.
sub outside
{
	my ($to, @command) = @_;
	my $until = time + 30;

	until (eval { Chaos::Cluster::run(@command); 1 })
	{
		die $@ if time > $until || $@ !~ /recovery|starting up|shutting down|terminat|closed the connection|could not connect|No such file/;
		remove_tree($to);
		usleep(50_000);
	}
	return;
}

# A server of a copy of the data directory, at a port of its own.
sub start_copy
{
	my ($run, $data) = @_;
	eval { Chaos::Cluster::run('pg_ctl', '-D', $data, '-l', "$data.log", '-w', '-o', '-c port=5499', 'start'); 1 }
	  or die "a copy of the server does not start: " . join '', (split /^/, Pairs::World::slurp("$data.log"))[ -12 .. -1 ];
	return;
}

sub wait_for_copy
{
	my ($sql) = @_;
	my $until = time + 60;

	local $ENV{PGPORT} = 5499;
	until ((eval { Chaos::Cluster::run('psql', '-XqAtc', $sql) } // '') =~ /^t/)
	{
		die "the copy does not say: $sql\n" if time > $until;
		usleep(20_000);
	}
	return;
}

# The copy takes the cluster's place.
sub take_over
{
	my ($run, $data) = @_;
	my $cluster = $run->{cluster};

	Chaos::Cluster::run('pg_ctl', '-D', $data, '-m', 'fast', '-w', 'stop');
	remove_tree($cluster->{data});
	rename $data, $cluster->{data} or die "cannot rename $data: $!";
	$cluster->start;
	return;
}

action promotion => sub {
	my ($run, $step) = @_;
	my $cluster = $run->{cluster};
	my $data = "$cluster->{dir}/standby";

	$run->thaw;
	$run->must('SELECT 1');
	outside($data, 'pg_basebackup', '-D', $data, '-c', 'fast', '-R', '-X', 'stream');
	start_copy($run, $data);
	my $lsn = $run->must('SELECT pg_current_wal_flush_lsn()');
	wait_for_copy("SELECT pg_last_wal_replay_lsn() >= '$lsn'");
	usleep(1000 * $step->{hold});
	$run->thaw;
	$cluster->kill9;
	Chaos::Cluster::run('pg_ctl', '-D', $data, '-w', 'promote');
	take_over($run, $data);
	return 'promotion of a standby';
};

# To a point in time: what was committed after it is gone.
action pitr => sub {
	my ($run, $step) = @_;
	my $cluster = $run->{cluster};
	my $data = "$cluster->{dir}/recovered";
	my $point = "$run->{plan}{name}_$step->{number}";

	$run->thaw;
	outside($data, 'pg_basebackup', '-D', $data, '-c', 'fast', '-X', 'stream');
	$run->must("SELECT pg_create_restore_point('$point')");
	usleep(1000 * $step->{hold});
	$run->thaw;
	$cluster->stop('fast');
	open my $f, '>>', "$data/postgresql.auto.conf" or die $!;
	print $f "restore_command = 'cp $cluster->{data}/pg_wal/%f %p'\nrecovery_target_name = '$point'\nrecovery_target_action = promote\n";
	close $f;
	open my $signal, '>', "$data/recovery.signal" or die $!;
	close $signal;
	start_copy($run, $data);
	wait_for_copy('SELECT NOT pg_is_in_recovery()');
	Chaos::Cluster::run('pg_ctl', '-D', $data, '-m', 'fast', '-w', 'stop');
	Chaos::Cluster::run('sed', '-i', '/^restore_command\|^recovery_target/d', "$data/postgresql.auto.conf");
	start_copy($run, $data);
	take_over($run, $data);
	return 'recovery to a point in time';
};

# The next version of the extension (doc/operate/operations.md, Upgrade).  Users restart the server before or after
# the update.
action upgrade => sub {
	my ($run, $step) = @_;
	my $cluster = $run->{cluster};
	my $next = $cluster->{next};
	my @orders = ([ 'update', 'restart' ], [ 'restart', 'update' ]);
	my $order = $orders[ $step->{u}[0] < 0.5 ];
	my $mode = $step->{u}[1] < 0.7 ? 'fast' : 'immediate';
	my $restart = sub { $run->thaw; $run->must('SELECT 1'); $cluster->stop($mode); $cluster->start; return "$mode restart" };
	my %of = (update => sub { return change($run, 'update', 'ALTER EXTENSION atproto UPDATE') }, restart => $restart);

	$next->install($cluster);
	my $first = $of{ $order->[0] }->();
	my $until = time + $step->{hold} / 1000;
	while (time < $until) { $run->run_timers; usleep(2_000) }
	my @words = ($first, $of{ $order->[1] }->());
	foreach my $target (split /\n/, $run->must('SELECT DISTINCT target FROM atproto.subscription'))
	{
		push @words, change($run, "tables of $target", "SET ROLE $run->{plan}{owner}; SELECT atproto.create_tables('$target'); RESET ROLE");
	}
	my $version = $run->must("SELECT extversion FROM pg_extension WHERE extname = 'atproto'");
	$run->differ("the extension is at version $version after the upgrade") if $version ne $next->version;
	return 'upgrade: ' . join ', ', @words;
};

1;
