# Pairs/Run.pm
#		Runs one program: its world, its subscriptions, the changes while the streams go
#		on, rest, and the comparison with the simulator's tables.  Inherits processes, timers and
#		the story from Chaos::Run.

package Pairs::Run;

use strict;
use warnings FATAL => 'all';

use Chaos::Run;
use Pairs::Actions;
use Pairs::World;
use Time::HiRes qw(time usleep);

our @ISA = ('Chaos::Run');

my $PATIENCE = $ENV{PAIRS_PATIENCE} // 45;    # seconds for all to come to rest

sub between { my ($lo, $hi) = @_; return $lo + int rand($hi - $lo + 1) }
sub one_of { return $_[ int rand @_ ] }

# What a program with this seed does, all of it known before it begins.
sub plan
{
	my ($program, $number, $seed) = @_;
	my %p = %$program;
	my %plan = (program => $program, number => $number, seed => $seed, name => "p${number}_$seed", kind => 'pairs', database => 'postgres', deaths => 0);
	my $of = { superuser => 'postgres', owner => 'owner', granted => 'postgres' };

	srand(1000 * $number + $seed);
	rand() for 1 .. 3;
	$plan{events} = between(200, 350);
	$plan{rate} = between(250, 500);
	$plan{accounts} = between(6, 25);
	$plan{owner} = $of->{ $p{owner} };
	$plan{role} = $p{owner} eq 'granted' ? 'granted' : $plan{owner};
	$plan{batch_delay} = one_of(1, 10, 50);
	$plan{synchronous} = one_of('on', 'off');
	$plan{tally} = $p{triggers} eq 'yes';
	$plan{unlock} = 0;
	$plan{simulate} = [
		'--events' => $plan{events}, '--accounts' => $plan{accounts}, '--seed' => 1 + ($seed * 41 + $number) % 10000, '--history' => 0,
		'--batches' => one_of(1, 5, 20), '--p256' => 20, $p{level} eq 'full' ? () : '--no-sign',
		'--mix' => 'delete=10,update=6,profile=3,identity=1,other=1,sync=0,account=' . ($p{accounts} eq 'change' ? 3 : 0)
	];
	# a source lacks something where somebody else has it
	$plan{lossy} = $p{source} =~ /^(relay|pds)$/ && ($p{backfill} ne 'none' || $p{union} ne 'none') ? 1 : 0;

	my @names;
	my $add = sub { my ($name, $value, $early) = @_; push @names, { name => $name, value => $value, early => $early }; return };
	foreach (qw(rename rename_schema url filter target refill resync unsubscribe partition))
	{
		$add->("pairs_$_", $p{$_}) unless $p{$_} =~ /^(no|same)$/;
	}
	$add->('refuse', 'yes', 1) if $p{retry} eq 'yes';
	$add->(one_of('pause', 'pause_resume'), 'yes') if $p{pause} eq 'yes';
	$add->(one_of(qw(kill_consumer term_consumer freeze_consumer), $p{workers} > 1 ? qw(kill_worker freeze_worker) : ()), 'yes') for 1 .. ($p{kill} eq 'process' ? 2 : 0);
	$add->(one_of(qw(restart_fast restart_immediate kill_server)), 'yes') if $p{kill} eq 'server';
	$add->("pairs_$p{server}", 'yes') unless $p{server} eq 'stays';
	$add->('pairs_stranger', 'yes') if $p{stranger} eq 'yes';
	$add->('pairs_unlogged', 'yes') if $p{unlogged} eq 'yes';
	$add->('pairs_bookmark', 'yes', 1) if $p{foreign} eq 'yes';
	my $i = 0;
	$plan{steps} = [
		sort { $a->{at} <=> $b->{at} || $a->{number} <=> $b->{number} } map {
			{
				%$_, number => ++$i, at => int($plan{events} * ($_->{early} ? 0.1 + 0.3 * rand : 0.1 + 0.8 * rand)),
				delay => rand() < 0.5 ? 0 : between(1, 60), hold => one_of(10, 60, 150, 400), u => [ map { rand } 1 .. 6 ]
			}
		} @names
	];
	return \%plan;
}

sub new
{
	my ($class, @args) = @_;
	my $self = $class->SUPER::new(@args);

	$self->{p} = $self->{plan}{program};
	$self->{role} = $self->{plan}{role};
	$self->{schemas} = [ $self->{name} ];
	return $self;
}

# --- before ---

our %partitions = (month => q('month'), collection => q('collection', '{app.bsky.feed.like,app.bsky.feed.post}'));

# A target with what its users have made.
sub schema_sql
{
	my ($self, $s) = @_;
	my ($plan, $p) = @$self{qw(plan p)};
	local $self->{name} = $s;

	my $sql = "DROP SCHEMA IF EXISTS $s CASCADE; CREATE SCHEMA $s AUTHORIZATION $plan->{owner}; BEGIN; SET LOCAL ROLE $plan->{owner}; SELECT atproto.create_tables('$s');\n"
	  . "CREATE TABLE $s.tally (collection text PRIMARY KEY, n bigint);\n"
	  . "CREATE TABLE $s.handed (seq bigint, action text, did text, collection text, rkey text, rev text, cid text, value jsonb, old_cid text);\n";
	# what would be in the way of the first call comes after it: later ones find it there
	$sql .= "SELECT atproto.partition('$s', $partitions{$p->{partition}});\n"
	  if $p->{partition} ne 'no' && ($p->{foreign} eq 'yes' || $p->{triggers} eq 'yes' || $p->{events} eq 'hand');
	$sql .= "CREATE TRIGGER handed AFTER DELETE ON $s.record_event FOR EACH ROW EXECUTE FUNCTION chaos.handed();\n" if $p->{events} eq 'hand';
	$sql .= $self->triggers_sql;
	$sql .= "CREATE TABLE $s.bookmark (did did, collection nsid, rkey recordkey, PRIMARY KEY (did, collection, rkey),"
	  . " FOREIGN KEY (did, collection, rkey) REFERENCES $s.record ON DELETE CASCADE);\n"
	  . "CREATE TABLE $s.bookmarked (did did, collection nsid, rkey recordkey, at text, PRIMARY KEY (did, collection, rkey));\n"
	  if $p->{foreign} eq 'yes';
	$sql .= "ALTER TABLE $s.$_ ENABLE ROW LEVEL SECURITY; ALTER TABLE $s.$_ FORCE ROW LEVEL SECURITY; CREATE POLICY all_rows ON $s.$_ USING (true);\n"
	  foreach $p->{security} eq 'yes' ? qw(record repo) : ();
	$sql .= "COMMIT;\n";
	$sql .= "GRANT USAGE ON SCHEMA $s TO granted; GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA $s TO granted; GRANT USAGE ON ALL SEQUENCES IN SCHEMA $s TO granted;\n"
	  if $p->{owner} eq 'granted';
	$sql .= "CREATE PUBLICATION $s FOR TABLE $s.record, $s.repo WITH (publish_via_partition_root);\n" if $p->{publication} eq 'yes';
	return $sql;
}

# Is there an archive before the stream of this number?
sub has_archive
{
	my ($self, $source) = @_;
	return $source == 0 && $self->{p}{source} eq 'archive' && $self->{sources}[0]{kind} eq 'jetstream2';
}

# Arguments of subscribe() for the source of this number.
sub subscribe_sql
{
	my ($self, $name, $source, $cursor) = @_;
	my $p = $self->{p};
	my $stream = $self->{sources}[$source];
	my $behind = $source == 0 && $self->{behind} && $stream == $self->{behind};
	my %o = (
		target => "'$self->{name}'", events => "'$p->{events}'", workers => $p->{workers}, links => "'$p->{links}'",
		keep_raw => $p->{raw} eq 'yes' ? 'true' : 'false', count_collections => $p->{count} eq 'yes' ? 'true' : 'false', validate => "'$p->{validate}'",
		backfill => "'$p->{backfill}'", repo_source => "'$self->{world}{origin}'");

	$o{verify} = "'$p->{level}'" unless $Pairs::World::version{ $stream->{kind} };
	$o{slice} = q('0/2') if $p->{slice} eq 'yes';
	$o{collections} = q('{app.bsky.feed.*}') if $p->{filter} eq 'wider';
	@o{qw(history archive_source allow_insecure)} = (q('archive'), "'$self->{world}{origin}'", 'true') if $self->has_archive($source);
	return "atproto.subscribe('$name', '@{[ $self->{world}->url($stream, $behind) ]}', $cursor" . join('', map { ", $_ => $o{$_}" } sort keys %o) . ')';
}

sub prepare
{
	my ($self) = @_;
	my ($s, $plan, $p) = @$self{qw(name plan p)};
	my $cluster = $self->{cluster};

	$cluster->{next}->move($cluster) if $p->{server} eq 'upgrade';
	$self->{world} = Pairs::World->new(dir => "$self->{dir}/world", simulate => $plan->{simulate}, events => $plan->{events});
	my $world = $self->{world};
	$world->start_network;
	my $kind = { pds => 'relay', archive => 'jetstream2' }->{ $p->{source} } // $p->{source};
	$self->{stream} = $world->serve('main', $kind, $plan->{lossy}, '--rate', $plan->{rate});
	$self->{sources} = [ $self->{stream} ];
	push @{ $self->{sources} }, $world->serve('second', $p->{union} eq 'relay' ? 'relay' : 'jetstream2', 0, '--rate', int($plan->{rate} * (0.6 + 0.8 * rand))) if $p->{union} ne 'none';
	$world->archive(1 + int($plan->{events} / 40 * rand), 10 / $plan->{rate}) if $p->{source} eq 'archive';
	if ($p->{source} eq 'pds')
	{
		$world->stream_behind($self->{stream});
		$self->{behind} = $self->{stream};
	}
	$cluster->use_database($ENV{PGDATABASE});
	$self->must("ALTER SYSTEM SET " . s/ = / TO /r) foreach $world->settings, "atproto.batch_delay = $plan->{batch_delay}", "synchronous_commit = $plan->{synchronous}";
	$self->must('SELECT pg_reload_conf()');
	$self->must($self->schema_sql($s));
	my @names = ($s, "${s}_2");
	$self->must('BEGIN; SET LOCAL synchronous_commit = on; SET LOCAL ROLE ' . $self->{role} . ';'
		. join('', map { 'SELECT ' . $self->subscribe_sql($names[$_], $_, 0) . ';' } 0 .. $#{ $self->{sources} })
		. ' COMMIT; UPDATE atproto.subscription SET max_dead_letters = 100000');
	return;
}

# --- while it goes on ---

sub ends
{
	my ($self, $stream) = @_;
	return @{ $self->{ends}{"$stream->{kind} $stream->{lossy}"} //= [ $self->{world}->bounds($stream->{kind}, $stream->{lossy}, $self->{p}{filter} eq 'narrower') ] };
}

# Steps are at numbers of events: so far as the first source is.
sub progress
{
	my ($self) = @_;
	my $out = $self->ask("SELECT min(seq), max(seq) FROM atproto.cursor c JOIN atproto.subscription s ON s.name = c.subscription AND s.endpoint = c.endpoint WHERE s.name = '$self->{sub}'", 2);
	my ($first, $last) = $self->ends($self->{stream});

	delete $self->{lowest};
	return unless defined $out && $out =~ /^(\d+)\|(\d+)$/m;
	($self->{lowest}, $self->{seq}) = map { $_ <= $first ? 0 : int($self->{plan}{events} * ($_ - $first) / ($last - $first)) } $1, $2;
	return;
}

# --- rest ---

# What is not done yet; '' when nothing is, undef while nobody can say.
sub outstanding
{
	my ($self) = @_;
	my $s = $self->{name};
	my $out = $self->ask(<<"SQL", 5) // return undef;
SELECT concat_ws(', ', NULLIF((SELECT count(*) FROM atproto.held_event WHERE target = '$s'), 0) || ' held',
    (SELECT string_agg(did || ' ' || state || coalesce(' ' || error, ''), ', ') FROM (SELECT * FROM atproto.repo_job WHERE target = '$s' AND state IN ('queued', 'running', 'throttled', 'waiting') LIMIT 3) j),
    NULLIF((SELECT count(*) FROM $s.repo WHERE hold IS NOT NULL), 0) || ' on hold',
    NULLIF((SELECT count(*) FROM $s.repo WHERE purge_rev IS NOT NULL), 0) || ' to be purged',
    (SELECT string_agg(name || ' stopped: ' || stopped, ', ') FROM atproto.subscription WHERE target = '$s' AND stopped IS NOT NULL),
    (SELECT string_agg(concat_ws(' ', 'archive in phase', phase, waits_for), ', ') FROM atproto.history_progress WHERE subscription IN (SELECT name FROM atproto.subscription WHERE target = '$s' AND history = 'archive') AND phase <> 'live'
        -- the end of the sweep waits for an hour of silence, since the other stream's events are of the past
        AND waits_for IS DISTINCT FROM 'subscription "' || (SELECT name FROM atproto.subscription WHERE target = '$s' AND history <> 'archive') || '" of the same tables is behind'),
    -- a stream that had ended before the upgrade would hide that no process runs after it
    (SELECT string_agg(name || ' does not run', ', ') FROM atproto.stat_subscription WHERE state IN ('not running', 'starting') AND '$self->{p}{server}' = 'upgrade'))
SQL
	my $at = $self->ask("SELECT s.endpoint, min(c.seq) FROM atproto.subscription s LEFT JOIN atproto.cursor c ON s.name = c.subscription AND s.endpoint = c.endpoint WHERE target = '$s' GROUP BY 1", 5) // return undef;
	my %at = map { /^(.*)\|(\d*)$/ ? ($1 => $2) : () } split /\n/, $at;

	$out .= ' not all sources' if keys %at != @{ $self->{sources} };
	foreach my $stream (@{ $self->{sources} })
	{
		my $port = $self->{behind} && $stream == $self->{behind} ? $self->{world}{ports}{http} : $stream->{port};
		my ($seq) = map { $at{$_} } grep { /:$port\// } sort keys %at;
		my (undef, $last) = $self->ends($stream);
		$out .= " $stream->{name} at " . ($seq // 'none') . " of $last" if ($seq // '') eq '' || $seq < $last;
	}
	return $out;
}

# Fetches that wait since they failed, or were many, are tried now.
sub hurry
{
	my ($self) = @_;
	$self->ask("UPDATE atproto.repo_job SET next_try = '-infinity' WHERE state = 'queued' AND next_try > now()", 5);
	# an account is asked for once a minute
	$self->ask("UPDATE atproto.identity SET asked_at = asked_at - interval '10 min' WHERE asked_at > now() - interval '2 min'; UPDATE atproto.identity_request SET next_try = '-infinity'", 5);
	$self->ask("UPDATE atproto.repo_job SET state = 'queued', next_try = '-infinity' WHERE state = 'throttled'; DELETE FROM atproto.repo_fetched", 5);
	return;
}

sub rest
{
	my ($self) = @_;
	my $until = time + $PATIENCE;
	my $calm = time;
	# as in chaos: on a busy machine a nudge ends the processes that have just begun
	my ($nudged, $nudge) = ($calm, 1);
	my ($seen, $left) = ('');

	$self->run_timers(1);
	$self->thaw;
	$self->{world}->seal(0) if $self->{p}{source} eq 'archive';
	$self->must("DROP TRIGGER IF EXISTS refuse ON $self->{name}.record");
	for (;;)
	{
		$left = $self->outstanding;
		if (($left // '?') ne $seen) { $seen = $left // '?'; $calm = $nudged = time }
		last if defined $left && $left eq '' && defined $self->ask('INSERT INTO chaos.flushed VALUES (1)', 5) && ($self->outstanding // '?') eq '';
		if (time > $until)
		{
			$self->differ('it did not come to rest: ' . ($left // $self->error));
			last;
		}
		$self->resume_stopped;
		if (time > $calm + 1)
		{
			$self->hurry;
			$calm = time;
		}
		if ($self->{deaths} && time > $nudged + $nudge)
		{
			$self->nudge;
			$nudge *= 1.3;
			$nudged = time;
		}
		usleep(20_000);
	}
	$self->tell('rest');
	return;
}

# Only what was broken may stop them, or a restore.
sub resume_stopped
{
	my ($self) = @_;
	my $out = $self->ask("SELECT name, stopped FROM atproto.subscription WHERE stopped IS NOT NULL", 5) or return;

	foreach my $row (split /\n/, $out)
	{
		my ($name, $why) = split /\|/, $row, 2;

		$self->tell("$name has stopped: $why") unless $self->{stops}{$why};
		$self->differ("$name has stopped: $why") unless $self->{outage} || $self->{stops}{$why} || $why =~ /^restored/;
		$self->{stops}{$why}++;
		$self->must("SELECT atproto.resume('$name')");
	}
	return;
}

sub touch
{
	my ($self) = @_;
	$self->ask("UPDATE atproto.subscription SET max_dead_letters = max_dead_letters WHERE target = '$self->{name}'", 5);
	return;
}

# --- comparison ---

# Rows of what the network has and of what the tables have, where they differ: did, what.
sub differences
{
	my ($self) = @_;
	my ($s, $p) = @$self{qw(name p)};
	my $wanted = join '', map { join("\t", (split /\t/)[ 0 .. 4 ]) . "\n" } split /\n/, Pairs::World::slurp("$self->{world}{dir}/expect/record");
	my $where = join ' AND ', 'true', $p->{slice} eq 'yes' ? 'did_slice(did::did, 2) = 0' : (), $p->{filter} ne 'same' ? "collection LIKE 'app.bsky.feed.%'" : ();
	my $out = $self->must(<<"SQL");
CREATE TEMP TABLE want (did text, collection text, rkey text, cid text, rev atproto.tid);
COPY want FROM STDIN;
$wanted\\.
CREATE TEMP TABLE have AS SELECT did::text, collection::text, rkey::text, cid::text, rev FROM $s.record;
SELECT d.did, coalesce(r.sync, 'no repository'), coalesce(r.active, true), what, collection, rkey, cid,
    EXISTS (SELECT FROM atproto.dead_letter l WHERE l.did::text = d.did AND l.path IN ('', d.collection || '/' || d.rkey)),
    coalesce(d.rev < r.first_rev, false)
FROM (SELECT 'lacks' AS what, w.* FROM want w WHERE NOT EXISTS (SELECT FROM have h WHERE (h.did, h.collection, h.rkey, h.cid) = (w.did, w.collection, w.rkey, w.cid)) AND $where
    UNION ALL SELECT 'has too much', h.* FROM have h WHERE NOT EXISTS (SELECT FROM want w WHERE (h.did, h.collection, h.rkey, h.cid) = (w.did, w.collection, w.rkey, w.cid)) AND $where) d
LEFT JOIN $s.repo r ON r.did::text = d.did ORDER BY 1, 5, 6;
DROP TABLE want, have;
SQL
	return map { [ split /\|/ ] } split /\n/, $out;
}

sub verify
{
	my ($self) = @_;
	my ($s, $plan, $p) = @$self{qw(name plan p)};
	my (%told, $n);
	# events that the removed subscription held
	my $dropped = $p->{unsubscribe} eq 'yes' && $self->must("SELECT count(*) FROM atproto.gap WHERE closed_at IS NULL AND target = '$s' AND reason = 'held events dropped'") ne '0';

	$self->must("SET statement_timeout = '60s'; SET search_path = \"\$user\", public");
	foreach my $row ($self->differences)
	{
		my ($did, $sync, $active, $what, $collection, $rkey, $cid, $letter, $before) = @$row;

		# what a letter or a mark tells of is no silent loss; but who fetches has no mark left, unless the job went with the only subscription
		my $told = $letter eq 't' || ($sync eq 'desynchronized' && ($p->{backfill} eq 'none' || $active eq 'f' || ($p->{unsubscribe} eq 'yes' && $p->{union} eq 'none')));

		# the first commits of a repository can be lost, and nobody can tell that they are: partial promises nothing about what is
		# older than first_rev. backfill "seen" fetches it, but no job outlives its subscription. A relay's first commit
		# makes older operations of a Jetstream useless (sources.md)
		$told ||= $what eq 'lacks' && $sync eq 'partial' && $before eq 't' && $plan->{lossy}
		  && ($p->{backfill} eq 'repair' || $p->{unsubscribe} eq 'yes' || $p->{union} eq 'jetstream');
		# unsubscribe() can mark no repository all of whose events were held: the open gap tells of the first commits
		$told ||= $what eq 'lacks' && $dropped && ($sync eq 'no repository' || ($sync eq 'partial' && $before eq 't'));
		# no audit can say more where some records are left out
		$told ||= $sync eq 'unproven' && $p->{filter} ne 'same';
		if ($told) { $told{$did}++; next }
		$self->differ("$s $what: $did $collection/$rkey $cid ($sync)") if ++$n < 8;
	}
	$self->differ("$n rows differ") if ($n // 0) >= 8;
	$self->tell(keys(%told) . ' repositories with differences that a mark or letter tells of') if %told;

	$self->tell("the subscriptions: $_") foreach split /\n/, $self->must("SELECT name, state, seq, skips, last_error FROM atproto.stat_subscription ORDER BY name");
	$self->tell("accounts: $_") foreach split /\n/, $self->must('SELECT state, error, count(*) FROM atproto.identity GROUP BY 1, 2 ORDER BY 1');

	# nothing is to be repaired where somebody repairs; but no job outlives the only subscription of its target
	if ($p->{backfill} ne 'none' && ($p->{unsubscribe} eq 'no' || $p->{union} ne 'none'))
	{
		my $out = $self->must("SELECT string_agg(did || ' ' || sync, ', ') FROM (SELECT * FROM $s.repo r WHERE sync = 'desynchronized' AND active"
			. " AND NOT EXISTS (SELECT FROM atproto.dead_letter l WHERE l.did = r.did) LIMIT 4) x");
		$self->differ("desynchronized in the end: $out") if $out ne '';
	}
	my $repos = join '', map { join("\t", (split /\t/)[ 0, 1, 4, 5 ]) . "\n" } split /\n/, Pairs::World::slurp("$self->{world}{dir}/expect/repo");
	my $out = $self->must(<<"SQL");
CREATE TEMP TABLE want (did text, rev text, active boolean, status text);
COPY want FROM STDIN;
$repos\\.
SELECT concat_ws(' ', w.did, w.active, w.status, 'but', r.active, r.status, r.sync) FROM want w LEFT JOIN $s.repo r ON r.did::text = w.did
WHERE (w.active, coalesce(w.status, '')) IS DISTINCT FROM (r.active, coalesce(r.status, '')) AND (r.did IS NOT NULL OR ('$p->{slice}' = 'no' AND '$p->{source}' <> 'archive'))
LIMIT 5;
DROP TABLE want;
SQL
	$self->differ("repo: $_") foreach split /\n/, $out;
	if ($p->{level} eq 'full')
	{
		my $out = $self->must("SELECT state, error, count(*) FROM atproto.identity WHERE state NOT IN ('good', 'gone') GROUP BY 1, 2");
		$self->differ("accounts without a key: $out") if $out ne '';
	}
	# audits, where all records of a repository are stored
	if ($p->{filter} eq 'same')
	{
		my $bad = $self->must("SELECT string_agg(r.did || ' ' || coalesce(a.reason, ''), ', ') FROM $s.repo r, LATERAL atproto.audit(r.did, '$s', deep => true) a"
			. " WHERE r.sync = 'synchronized' AND r.active AND a.equal IS NOT TRUE AND NOT EXISTS (SELECT FROM atproto.dead_letter l WHERE l.did = r.did)");
		$self->differ("synchronized, but an audit says: $bad") if $bad ne '';
	}
	if ($p->{links} eq 'all')
	{
		my $bad = $self->must("SELECT problem, count(*), min(target) FROM atproto.link_problems('$s') GROUP BY 1");
		$self->differ("links are not those of the records: $bad") if $bad ne '';
	}
	if ($p->{triggers} eq 'yes')
	{
		my $bad = $self->must("SELECT * FROM (SELECT collection::text, count(*) AS n FROM $s.record GROUP BY 1) r"
			. " FULL JOIN (SELECT * FROM $s.tally WHERE n <> 0) t USING (collection) WHERE t.n IS DISTINCT FROM r.n");
		$self->differ("collection, rows, what triggers have counted: " . join '; ', split /\n/, $bad) if $bad ne '';
	}
	if ($self->{bookmarks} && $plan->{name})
	{
		# of a record that was replaced the bookmark stays; of one that was deleted it goes
		my $bad = $self->must("SELECT count(*) FROM $s.bookmarked b JOIN $s.record r USING (did, collection, rkey) LEFT JOIN $s.bookmark k USING (did, collection, rkey) WHERE k.did IS NULL AND collection <> 'app.bsky.actor.profile'");
		$self->differ("$bad bookmarks are gone, and their records are not") if $bad ne '0';
	}
	# a refill tells of what it fills in, and of what it removes again; a relay in place of an archive is read from its beginning, and the
	# archive's revisions do not count for the relay (H-44)
	if ($p->{events} ne 'none' && $p->{refill} eq 'no' && !($p->{source} eq 'archive' && $p->{url} eq 'kind'))
	{
		my $table = $p->{events} eq 'keep' ? 'record_event' : 'handed';
		my $bad = $self->must("SELECT concat_ws(' ', did, collection, rkey, rev, action, count(*)) FROM $s.$table WHERE rev IS NOT NULL GROUP BY did, collection, rkey, rev, action HAVING count(*) > 1 LIMIT 3");
		$self->differ("twice in $table: " . join '; ', split /\n/, $bad) if $bad ne '';
	}
	# what a subscription held that went, or whose tables did, has a row that says so
	my $known = $p->{unsubscribe} eq 'yes' || $p->{target} ne 'same' || $p->{rename_schema} eq 'yes' ? " AND reason <> 'held events dropped'" : '';
	my $gaps = $self->must("SELECT subscription, after_seq, before_seq, reason FROM atproto.gap WHERE closed_at IS NULL$known");
	$self->differ("gaps: " . join '; ', split /\n/, $gaps) if $gaps ne '';
	# the monthly call, for the months that have come
	$self->must("SET ROLE $plan->{owner}; SELECT atproto.partition('$s'); RESET ROLE")
	  if $p->{partition} eq 'month' && $self->must("SELECT relkind FROM pg_class WHERE oid = '$s.record'::regclass") eq 'p';
	my $bad = $self->must("SELECT c FROM atproto.check('$s') c LIMIT 6");
	$self->differ("check(): $_") foreach split /\n/, $bad;
	return;
}

# Letters of rows that were refused are tried again until nothing changes any more.
sub retry_letters
{
	my ($self) = @_;

	for (1 .. 5)
	{
		my $out = $self->must("SELECT id, stage, atproto.retry(id) FROM atproto.dead_letter WHERE stage = 'apply' ORDER BY id");
		$self->tell("retry: $_") foreach grep { !/\|(applied|obsolete)$/ } split /\n/, $out;
		last unless grep { /\|(applied|obsolete)$/ } split /\n/, $out;
	}
	$self->rest;
	return;
}

sub clear
{
	my ($self) = @_;
	my $until = time + 30;

	$self->must("DELETE FROM atproto.subscription");
	until ($self->must("SELECT count(*) FROM pg_stat_activity WHERE backend_type IN ('atproto consumer', 'atproto apply worker')") eq '0')
	{
		if (time > $until) { $self->differ('its processes stay after it was removed'); last }
		usleep(5_000);
	}
	$self->must("DROP PUBLICATION IF EXISTS $_") foreach @{ $self->{schemas} };
	$self->must("DROP SCHEMA IF EXISTS $_ CASCADE") foreach @{ $self->{schemas} };
	$self->must("DELETE FROM atproto.gap; TRUNCATE chaos.cursor_log, chaos.setting, chaos.flushed; DELETE FROM atproto.repo_job; DELETE FROM atproto.host; DELETE FROM atproto.identity; DELETE FROM atproto.repo_fetched");
	$_->stop foreach @{ $self->{sources} }, @{ $self->{old_streams} // [] };
	$self->{world}->stop;
	return;
}

sub run
{
	my ($self) = @_;

	eval {
		$self->prepare;
		$self->chaos;
		$self->rest;
		$self->retry_letters if $self->{refused};
		$self->verify;
		1;
	} or do { my $error = $@; $self->{broken} = 1; $self->differ("it broke off: $error") };
	eval { $self->run_timers(1); $self->thaw; $self->clear unless $self->{cluster}{spent} || $self->{broken}; 1 } or $self->differ("it could not be cleared away: $@");
	$_->stop foreach grep { defined } @{ $self->{sources} // [] }, @{ $self->{old_streams} // [] }, $self->{world};
	eval { $self->read_log };
	return @{ $self->{differences} };
}

# Warnings that the program itself asks for.
sub read_log
{
	my ($self) = @_;
	my $before = @{ $self->{differences} };

	$self->SUPER::read_log;
	my @new = splice @{ $self->{differences} }, $before;
	push @{ $self->{differences} }, grep { !/WARNING:.*(terminating connection|fills? the same tables|differ|could not open directory|useless files)/ } @new;
	return;
}

sub report
{
	my ($self) = @_;
	my $plan = $self->{plan};
	my @out = ("program $plan->{number}, seed $plan->{seed}: $plan->{events} events at $plan->{rate}/s" . ($plan->{lossy} ? ', lossy' : '') . ", as $self->{role}");

	push @out, '  ' . join ' ', map { "$_->[0]=$self->{p}{ $_->[0] }" } @Pairs::Array::switches;
	push @out, map { "  $_" } @{ $self->{story} };
	push @out, map { "  DIFFERENCE: $_" } @{ $self->{differences} };
	return join("\n", @out) . "\n";
}

1;
