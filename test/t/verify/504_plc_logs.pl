# 504_plc_logs.pl
#		Operations of a did:plc directory that follow an unknown one wait, and the account's log is asked for once (M-11).  With
#		"dids" the whole log is not read (M-14).  The tables are as the second verifier of test/oracle says.
#
#		ATPROTO_SEED is the seed of the run.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Network;
use AtprotoTest::Plc;
use AtprotoTest::Points;
use AtprotoTest::Preload;
use JSON::PP;
use PostgreSQL::Test::Utils;
use Test::More;

my $seed    = seed();
my $network = AtprotoTest::Network->start;
my $node    = make_node(
	'plc_logs', start => AtprotoTest::Preload->make(network => $network),
	conf => $network->settings . <<'CONF');
max_worker_processes = 30
atproto.reconnect_delay = 50ms
atproto.reconnect_max_delay = 200ms
atproto.fetch_host_rate = 1000
atproto.fetch_host_parallel = 8
atproto.fetch_allow = 'http://plc.example.com, http://plc2.example.com, http://plc3.example.com'
CONF
my $log     = plc_export(operations => 500, wrong => 0, seed => $seed);
my @entries = plc_entries($log);
my $last    = $entries[-1]{seq};
my $half    = int(@entries / 2);

sub directory
{
	my ($what, $host) = @_;
	$host //= $PLC;
	return $network->directories({ $host => $what })->{$host};
}

# A directory with the first entries of the log.
sub begin_directory
{
	my ($upto) = @_;
	directory({ log => $log, upto => $entries[ $upto - 1 ]{seq} });
	return;
}

sub follow
{
	my ($name, %o) = @_;
	my $target = delete $o{target} // $name;
	my $host   = delete $o{host}   // $PLC;
	my $more = join '', map { ", $_ => $o{$_}" } sort keys %o;

	query("CREATE SCHEMA IF NOT EXISTS $target; SELECT atproto.subscribe('$name', 'ws://$host/export/stream', target => '$target', allow_insecure => true$more)");
	return;
}

sub publish
{
	my ($name, $upto) = @_;

	directory({ do => { publish => $upto } });
	wait_for("SELECT COALESCE(max(seq), 0) >= $upto FROM atproto.cursor WHERE subscription = '$name'");
	return;
}

# No request of the subscription is open.
sub logs_have_come
{
	my ($name) = @_;
	wait_for("SELECT count(*) = 0 FROM atproto.plc_log_request WHERE subscription = '$name' AND (answer IS NOT NULL OR next_try IS NOT NULL)");
	return;
}

# The log of an account in dids has come; the consumer may have made the request just now.
sub log_was_read
{
	my ($name, $did) = @_;
	wait_for("SELECT count(*) = 1 FROM atproto.plc_log_request WHERE subscription = '$name' AND did = '$did' AND next_try IS NULL AND answer IS NULL");
	return;
}

sub array
{
	return q{ARRAY['} . join(q{','}, @_) . q{']::did[]};
}

# The tables have the whole logs of these accounts up to a number, and nothing else.
sub logs_are
{
	my ($target, $what, $upto, @dids) = @_;
	my %of   = map { $_ => 1 } @dids;
	my @want = grep { $of{ (split / /)[0] } } map { join ' ', (split /\t/)[ 0 .. 2 ] } split /\n/, plc_rows('operation', $log, last => $upto);
	my $have = query("SELECT concat_ws(' ', did, n, cid) FROM $target.plc_operation");

	return is_deeply([ sort split /\n/, $have ], [ sort @want ], $what);
}

my %first;
$first{ $entries[$_]{did} } //= $_ foreach 0 .. $#entries;
my %later;	# accounts that began before the middle, with their entries behind it
foreach my $i ($half .. $#entries)
{
	push @{ $later{ $entries[$i]{did} } }, $i if $first{ $entries[$i]{did} } < $half;
}
my @late = sort { @{ $later{$b} } <=> @{ $later{$a} } || $a cmp $b } keys %later;
my %seen = map { $entries[$_]{did} => 1 } $half .. $#entries;

# --- the stream from the middle on ---

begin_directory($half);
follow('middle', cursor => $entries[ $half - 1 ]{seq});
wait_for("SELECT state = 'streaming' FROM atproto.stat_subscription WHERE name = 'middle'");
publish('middle', $last);
logs_have_come('middle');
logs_are('middle', 'M-11: the logs of all accounts that the stream names are whole', $last, keys %seen);
is(query('SELECT count(*) FROM middle.plc_refused'), '0', '... and what waited is not refused any more');
is(query('SELECT count(*) FROM atproto.plc_log_request'), '0', '... no request is left');
is(directory({ do => {} })->{asked}{audit}, scalar(keys %later), '... each account was asked for once');
is(query(q{SELECT count(*) FROM middle.plc_operation o WHERE seq IS NULL AND did = '} . $late[0] . q{'}),
	scalar(grep { $entries[$_]{did} eq $late[0] } 0 .. $half - 1), 'M-11: an operation of a log has no number, one that waited has');


# --- some accounts: the stream is joined, and the logs are asked for ---

# of the first, the second entry behind the middle follows the first one
my ($here) = grep { my ($i, $k) = @{ $later{$_} }; defined $k && $entries[$k]{operation}{prev} eq $entries[$i]{cid} } @late;
my ($there, $added, $never) = grep { $_ ne $here } @late;
begin_directory($half);
my $exports = directory({ do => {} })->{asked}{export};
follow('few', dids => array($here, $there));
log_was_read('few', $_) foreach $here, $there;
logs_are('few', 'M-14: the logs of the accounts in dids', $entries[ $half - 1 ]{seq}, $here, $there);
is(directory({ do => {} })->{asked}{export}, $exports, '... without a page of the whole log');
is(query(q{SELECT seq IS NULL FROM atproto.cursor WHERE subscription = 'few'}), 't', '... the stream has brought nothing yet');
my $quarter = int(($half + @entries) / 2);
publish('few', $entries[$quarter]{seq});
logs_have_come('few');
logs_are('few', 'M-14: what the stream brings goes on', $entries[$quarter]{seq}, $here, $there);
query("UPDATE atproto.subscription SET dids = @{[ array($there, $added) ]} WHERE name = 'few'");
log_was_read('few', $added);
is(query("SELECT string_agg(did || ' ' || why, ',' ORDER BY did::text) FROM atproto.plc_log_request WHERE subscription = 'few'"),
	join(',', map { "$_ dids" } sort $there, $added), 'M-14: a request for each account in dids, and for no other');
publish('few', $last);
my %counts;
$counts{ $_->{did} }++ foreach @entries;
is(query("SELECT count(*) FROM few.plc_operation WHERE did IN ('$there', '$added')"), $counts{$there} + $counts{$added}, 'M-14: the log of an added account is whole');
my $before = () = grep { $_->{did} eq $here && $_->{seq} <= $entries[$quarter]{seq} } @entries;
is(query("SELECT count(*) FROM few.plc_operation WHERE did = '$here'"), $before, '... and of a removed one nothing more is stored');
query(q{SELECT atproto.pause('few')});

# --- an account that the directory has without an operation ---

begin_directory($half);
directory({ do => { change => { on => 'audit', did => $here, times => undef, line => 0, what => 'empty' } } });
follow('blank', dids => array($here));
wait_for("SELECT tries = 1 AND answer IS NULL FROM atproto.plc_log_request WHERE subscription = 'blank'");
query("UPDATE atproto.plc_log_request SET next_try = now() WHERE subscription = 'blank' AND next_try IS NOT NULL");
query(q{SELECT atproto.resume('blank')});
logs_have_come('blank');
is(query(q{SELECT tries || ' ' || error FROM atproto.plc_log_request WHERE subscription = 'blank'}), '2 The answer has no entry.', 'M-14: an empty log is a failure, as a status 404 is');
is(query(q{SELECT what || ' ' || did FROM atproto.check() WHERE target = 'blank'}), "log that was not read $here", '... and check() says so');
query(q{SELECT atproto.unsubscribe('blank')});

# --- answers without the operation, and wrong answers ---

# A subscription from the middle on, and a directory with wrong answers about an account.
sub answer_badly
{
	my ($name, $did, %change) = @_;

	query("DROP SCHEMA IF EXISTS $name CASCADE");
	begin_directory($half);
	directory({ do => { change => { on => 'audit', did => $did, times => undef, line => 0, %change } } });
	follow($name, cursor => $entries[ $half - 1 ]{seq});
	publish($name, $entries[ $later{$did}[0] ]{seq});
	wait_for("SELECT count(*) = 1 FROM atproto.plc_log_request WHERE subscription = '$name' AND did = '$did' AND tries = 1 AND answer IS NULL")
	  if $change{what} ne 'cid';
	return;
}

sub ask_now
{
	my ($name) = @_;
	query("UPDATE atproto.plc_log_request SET next_try = now() WHERE subscription = '$name' AND next_try IS NOT NULL");
	query("SELECT atproto.resume('$name')");
	return;
}

# The account's refused entries, by their numbers.
sub refused
{
	my ($name, $did) = @_;
	return query("SELECT COALESCE(string_agg(seq || ' ' || reason, ',' ORDER BY seq), '') FROM $name.plc_refused WHERE did = '$did'");
}

my $first = $entries[ $later{$here}[0] ]{seq};
answer_badly('older', $here, what => 'empty');
is(refused('older', $here), "$first prev", 'M-11: an operation that the log lacks waits');
is(query("SELECT next_try > now() FROM atproto.plc_log_request WHERE did = '$here' AND subscription = 'older'"), 't', '... and the log is asked for once more, later');
directory({ do => { forget => undef } });
ask_now('older');
logs_have_come('older');
is(refused('older', $here), '', 'M-11: the second answer has it');
is(query("SELECT count(*) FROM older.plc_operation WHERE did = '$here'"), scalar(grep { $_->{did} eq $here && $_->{seq} <= $first } @entries), '... the log is whole');
query(q{SELECT atproto.unsubscribe('older')});

my %wrong = (
	empty => [ { what => 'empty' }, undef ],
	other => [ { what => 'none', other => $never }, qr/another account/ ],
	unlisted => [ { what => 'without', value => 'did' }, qr/another account/ ],
	large => [ { what => 'long', size => 9 }, qr/./ ]);
foreach my $kind (sort keys %wrong)
{
	my ($change, $error) = @{ $wrong{$kind} };

	answer_badly('bad', $here, %{$change});
	ask_now('bad');
	logs_have_come('bad');
	is(query("SELECT tries || ' ' || why FROM atproto.plc_log_request WHERE subscription = 'bad' AND did = '$here'"), '2 prev', "M-11: $kind: asked for twice, and not again");
	like(query("SELECT error FROM atproto.plc_log_request WHERE subscription = 'bad' AND did = '$here'"), $error, '... the row says why') if defined $error;
	like(refused('bad', $here), qr/\b$first prev/, '... what waited is refused');
	my $second = $entries[ $later{$here}[1] ]{seq};
	publish('bad', $second);
	wait_for("SELECT count(*) > 0 FROM bad.plc_refused WHERE seq = $second");
	is(query("SELECT next_try IS NULL FROM atproto.plc_log_request WHERE subscription = 'bad' AND did = '$here'"), 't',
		'M-11: an operation that follows a refused one is not asked about');
	directory({ do => { forget => undef } });
	query("SELECT atproto.plc_ask('bad')");
	logs_have_come('bad');
	is(refused('bad', $here), '', 'M-11: plc_ask() heals');
	is(query("SELECT string_agg(DISTINCT problem, ',') FROM (SELECT DISTINCT did FROM bad.plc_operation) d, LATERAL atproto.plc_audit(d.did, 'bad') a"), '', '... and all that is stored holds');
	query(q{SELECT atproto.unsubscribe('bad')});
}

answer_badly('bad', $here, what => 'cid', value => 'bafyreiaaaa');
wait_for(q{SELECT count(*) = 1 FROM bad.plc_refused WHERE reason = 'cid'});
logs_have_come('bad');
is(query("SELECT count(*) FROM atproto.plc_log_request WHERE subscription = 'bad' AND did = '$here'"), '0', 'M-11: what follows a refused operation of the log itself is not asked about');
like(refused('bad', $here), qr/\b$first prev/, '... and is refused');
directory({ do => { forget => undef } });
query("SELECT atproto.plc_ask('bad', '$here')");
logs_have_come('bad');
is(refused('bad', $here), '', '... until the directory is right, and somebody asks');
query(q{SELECT atproto.unsubscribe('bad')});

answer_badly('bad', $here, what => 'empty');
query("UPDATE atproto.plc_log_request SET answered_at = now(), error = NULL, answer = convert_to('[' || repeat('{\"did\":\"$here\"},', 33000) || '{\"did\":\"$here\"}]', 'UTF8') WHERE subscription = 'bad' AND did = '$here'");
query("SELECT atproto.pause('bad'); SELECT atproto.resume('bad')");
wait_for("SELECT answer IS NULL FROM atproto.plc_log_request WHERE subscription = 'bad' AND did = '$here'");
is(query("SELECT error FROM atproto.plc_log_request WHERE subscription = 'bad' AND did = '$here'"), 'The answer has too many entries.', 'M-11: a log of very many short entries');
like(refused('bad', $here), qr/\b$first prev/, '... what waited is refused');
query(q{SELECT atproto.unsubscribe('bad')});

# an entry with a wrong "cid" hides no entry of the same operation
my ($genesis) = grep { $_->{did} eq $here } @entries;
begin_directory(scalar @entries);
directory({ do => { change => { on => 'audit', did => $here, times => undef, what => 'line', line => 0, value => JSON::PP->new->encode({ %{$genesis}, cid => 'bafyreiaaaa' }) } } });
follow('twice', dids => array($here));
log_was_read('twice', $here);
logs_are('twice', 'M-11: a wrong "cid" hides no entry of the same operation', $last, $here);
is(query(q{SELECT count(*) FROM twice.plc_refused}), '0', '... and the operation is not refused');
directory({ do => { forget => undef } });
query(q{SELECT atproto.unsubscribe('twice')});

# --- a storm of invented accounts ---

my $storm = $node->basedir . '/storm.jsonl';
my @model = grep { defined $_->{operation}{prev} } @entries;
my $made = join '', map {
	my $did = 'did:plc:' . sprintf('%024d', $_) =~ tr/0-9/a-j/r;
	JSON::PP->new->canonical->utf8->encode({ %{ $model[ $_ % @model ] }, did => $did, seq => $last + $_, nullifies => [] }) . "\n"
} 1 .. 60;
append_to_file($storm, $made);
query('ALTER SYSTEM SET atproto.queue_limit = 20');
query('SELECT pg_reload_conf()');
begin_directory(scalar @entries);
follow('storm', cursor => $last);
wait_for(q{SELECT state = 'streaming' FROM atproto.stat_subscription WHERE name = 'storm'});
directory({ do => { append => $storm } });
publish('storm', $last + 60);
wait_for(q{SELECT count(*) = 0 FROM atproto.plc_log_request WHERE subscription = 'storm' AND (answer IS NOT NULL OR tries = 0)});
is(query(q{SELECT count(*) FROM storm.plc_refused WHERE reason = 'prev'}), '60', 'M-11: a storm of unknown accounts: each operation has its row');
is(query(q{SELECT count(*) FROM atproto.plc_log_request WHERE subscription = 'storm'}), '20', '... and requests are bounded');
is(query(q{SELECT skips ->> 'held_dropped' FROM atproto.cursor WHERE subscription = 'storm'}), '40', '... what found no room is counted');
ask_now('storm');
logs_have_come('storm');
is(query(q{SELECT stopped IS NULL FROM atproto.subscription WHERE name = 'storm'}), 't', '... the subscription goes on');
foreach my $more (40, 60)
{
	is(query(q{SELECT atproto.plc_ask('storm')}), '20', 'M-11: plc_ask() asks for as many accounts as may wait');
	wait_for(q{SELECT count(*) = 0 FROM atproto.plc_log_request WHERE subscription = 'storm' AND (answer IS NOT NULL OR tries = 0)});
	ask_now('storm');
	logs_have_come('storm');
	is(query(q{SELECT count(*) FROM atproto.plc_log_request WHERE subscription = 'storm'}), $more, '... first for those that were not asked for');
}
query('ALTER SYSTEM RESET atproto.queue_limit');
query('SELECT pg_reload_conf()');

# --- renames and removals while an operation waits ---

answer_badly('waits', $here, what => 'empty');
query(q{SELECT atproto.pause('waits')});
query(q{UPDATE atproto.subscription SET name = 'renamed' WHERE name = 'waits'});
query('ALTER SCHEMA waits RENAME TO moved');
is(query("SELECT string_agg(subscription, ',') FROM atproto.plc_log_request WHERE did = '$here' AND subscription IN ('waits', 'renamed')"), 'renamed', 'M-11: a request goes along with a rename');
directory({ do => { forget => undef } });
ask_now('renamed');
logs_have_come('renamed');
is(refused('moved', $here), '', '... and the log comes');
query(q{SELECT atproto.unsubscribe('renamed')});
answer_badly('waits', $here, what => 'empty');
query(q{SELECT atproto.unsubscribe('waits')});
is(refused('waits', $here), "$first prev", 'M-11: what waits stays refused when the subscription goes');
is(query(q{SELECT count(*) FROM atproto.plc_log_request WHERE subscription = 'waits'}), '0', '... and nobody asks any more');

query('DROP SCHEMA waits CASCADE');
answer_badly('waits', $here, what => 'empty');
directory({ log => $log, upto => $first }, 'plc2.example.com');
query(q{UPDATE atproto.subscription SET url = 'ws://plc2.example.com/export/stream' WHERE name = 'waits'});
ask_now('waits');
logs_have_come('waits');
is(refused('waits', $here), '', 'M-11: after a change of the URL, the new directory is asked');
query(q{SELECT atproto.unsubscribe('waits')});

# --- dump and restore ---

answer_badly('dumped', $here, what => 'empty');
query(q{SELECT atproto.pause('dumped')});
my $dump = $node->basedir . '/waiting.sql';
$node->command_ok([ 'pg_dump', '-f', $dump, $node->connstr('postgres') ], 'pg_dump');
query('CREATE DATABASE restored TEMPLATE template0');
$node->command_ok([ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-f', $dump, $node->connstr('restored') ], 'restored');
is(query("SELECT why || ' ' || tries || ' ' || (next_try IS NOT NULL) FROM atproto.plc_log_request WHERE subscription = 'dumped' AND did = '$here'", database => 'restored'),
	'prev 1 true', 'M-11: requests are in a dump');
is(query("SELECT seq || ' ' || reason FROM dumped.plc_refused WHERE did = '$here'", database => 'restored'), "$first prev", '... and what waits');
query('DROP DATABASE restored');
query(q{SELECT atproto.unsubscribe('dumped')});

# --- two directories, one target ---

begin_directory($half);
directory({ do => { change => { on => 'audit', did => $here, times => undef, line => 0, what => 'empty' } } });
directory({ log => $log, upto => $entries[ $half - 1 ]{seq} }, 'plc2.example.com');
follow('pair_a', cursor => $entries[ $half - 1 ]{seq}, target => 'pair');
follow('pair_b', cursor => $entries[ $half - 1 ]{seq}, target => 'pair', host => 'plc2.example.com');
publish('pair_a', $first);
wait_for("SELECT count(*) = 1 FROM atproto.plc_log_request WHERE subscription = 'pair_a' AND did = '$here' AND tries = 1 AND answer IS NULL");
directory({ do => { publish => $first } }, 'plc2.example.com');
wait_for("SELECT seq >= $first FROM atproto.cursor WHERE subscription = 'pair_b'");
ask_now('pair_b') if refused('pair', $here) ne '' and query(q{SELECT atproto.plc_ask('pair_b')}) > 0;
wait_for("SELECT count(*) = 0 FROM pair.plc_refused WHERE did = '$here'");
ask_now('pair_a');
logs_have_come($_) foreach qw(pair_a pair_b);
is(refused('pair', $here), '', 'M-11: of two directories of one target, one that has the log is enough');
is(query("SELECT string_agg(DISTINCT problem, ',') FROM atproto.plc_audit('$here', 'pair') a"), '', '... and the log holds');
query("INSERT INTO pair.plc_refused (did, digest, reason, detail, subscription) SELECT did, cidlink_digest(cid), 'prev', 'written at the same moment', 'pair_a'"
	. " FROM pair.plc_operation WHERE did = '$here' AND n = 1");
is(query("SELECT atproto.plc_ask('pair_b', '$here')"), '1', 'M-11: plc_ask() says for how many accounts');
logs_have_come('pair_b');
is(refused('pair', $here), '', '... and a stored operation does not stay refused');
query("SELECT atproto.unsubscribe('$_')") foreach qw(pair_a pair_b);

# --- another source writes the same operation at the same moment ---

begin_directory($half);
follow('race', dids => array($here));
log_was_read('race', $here);
my $other = $node->background_psql('postgres');
$other->query_safe("BEGIN; INSERT INTO race.plc_operation SELECT * FROM middle.plc_operation WHERE did = '$here' AND seq = $first");
directory({ do => { publish => $first } });
wait_for("SELECT count(*) = 1 FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE NOT l.granted AND l.locktype = 'transactionid' AND a.backend_type LIKE 'atproto%'");
my $logged = -s $node->logfile;
$other->query_safe('COMMIT');
$other->quit;
wait_for("SELECT seq >= $first FROM atproto.cursor WHERE subscription = 'race'");
is(query("SELECT count(*) FROM race.plc_operation WHERE did = '$here' AND seq = $first"), '1', 'M-10: two sources of a target bring an operation at the same moment: one has it stored');
unlike(slurp_file($node->logfile, $logged), qr/another source of the same tables has written/, '... and no process ends because of that');
query(q{SELECT atproto.unsubscribe('race'); DROP SCHEMA race CASCADE});

# --- a subscription goes while the fetcher has claimed its requests ---

directory({ log => $log, upto => $entries[ $half - 1 ]{seq} }, 'plc3.example.com');
my $busy = $network->fault({ host => 'plc3.example.com', path => '/log/audit', status => 429, headers => { 'Retry-After' => '600' } });
follow('leaves', dids => array($here, $there), host => 'plc3.example.com');
wait_for(q{SELECT count(*) > 0 FROM atproto.plc_log_request WHERE subscription = 'leaves' AND error IS NOT NULL});
# The host rests, so that a claimed request is put off.  Until plc_ask() no request is due: the fetcher at its point would have
# locked the rows that plc_ask() writes.  (requested_at: a late answer belongs to an older request.)
query(q{UPDATE atproto.plc_log_request SET next_try = 'infinity', requested_at = clock_timestamp() WHERE subscription = 'leaves'});
my $points = AtprotoTest::Points->new($node);
$points->hold('logs claimed', 'atproto fetcher');
query(q{SELECT atproto.plc_ask('leaves')});
$points->wait('logs claimed', 'atproto fetcher');
my $leaving = $node->background_psql('postgres', on_error_stop => 0);
$logged = -s $node->logfile;
$leaving->query_until(qr/begins/, "\\echo begins\nSELECT atproto.unsubscribe('leaves');\n");
wait_for(q{SELECT count(*) = 1 FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE NOT l.granted AND l.locktype = 'transactionid' AND a.backend_type = 'client backend'});
$points->release('logs claimed', 'atproto fetcher');
$leaving->quit;
is(query(q{SELECT count(*) FROM atproto.subscription WHERE name = 'leaves'}), '0', 'M-11: a subscription is removed while the fetcher has claimed its requests');
unlike(slurp_file($node->logfile, $logged), qr/deadlock detected/, '... and neither waits for the other');
$network->unfault($busy);

# --- a recovery comes before what it replaces ---

# before: the operation that the recovery follows; the operations between are replaced
my %at = map { $entries[$_]{cid} => $_ } 0 .. $#entries;
my ($recovery) = grep { @{ $entries[$_]{nullifies} // [] } && $entries[$_]{operation}{prev} } 0 .. $#entries;
my ($before_it, $whose, $came) = ($at{ $entries[$recovery]{operation}{prev} }, @{ $entries[$recovery] }{qw(did seq)});
# A log that has the recovery, and lacks what the recovery replaces.
sub make_hole
{
	my ($name) = @_;

	begin_directory($before_it + 1);
	follow($name, dids => array($whose));
	log_was_read($name, $whose);
	my $known = query("SELECT count(*) FROM $name.plc_operation");
	query("SELECT atproto.pause('$name')");
	query("SELECT atproto.set_cursor('$name', @{[ $came - 1 ]})");
	my $fault = $network->fault({ host => $PLC, path => '/log/audit', did => $whose, status => 404 });
	# (before the consumer connects: to a directory without so high a number, the cursor would be of the future)
	directory({ do => { publish => $came } });
	query("SELECT atproto.resume('$name')");
	wait_for("SELECT COALESCE(max(seq), 0) >= $came FROM atproto.cursor WHERE subscription = '$name'");
	is(query("SELECT n || ' ' || seq FROM $name.plc_operation WHERE seq = $came"), ($known + 1) . " $came", 'M-11: a recovery that follows a stored operation is stored, although what it replaces is not known');
	$network->unfault($fault);
	return;
}

make_hole('hole');
# the answer lacks the recovery: it is older
query(q{UPDATE hole.plc_operation SET created_at = created_at - interval '1 s' WHERE n = 1});
directory({ do => { change => { on => 'audit', did => $whose, what => 'drop', line => -1, count => 1 } } });
is(query("SELECT atproto.plc_ask('hole', '$whose')"), '1', 'M-11: asked again');
logs_have_come('hole');
logs_are('hole', 'M-11: an operation before the stored ones: the log is judged anew, and the places are those of every directory', $came, $whose);
is(query("SELECT seq FROM hole.plc_operation ORDER BY n DESC LIMIT 1"), $came, '... a stored operation keeps its number');
is(query("SELECT created_at - '$entries[ $first{$whose} ]{createdAt}' FROM hole.plc_operation WHERE n = 1"), '-00:00:01', 'M-10: ... and the time that came first');
is(query("SELECT string_agg(cid::text, ' ' ORDER BY n) FROM hole.plc_operation WHERE nullified_by = (SELECT n FROM hole.plc_operation WHERE seq = $came)"),
	join(' ', sort { $at{$a} <=> $at{$b} } @{ $entries[$recovery]{nullifies} }), 'M-05: ... with what the recovery nullified');
is(query("SELECT count(*) FROM hole.plc_refused"), '0', '... nothing is refused');
is(query("SELECT string_agg(DISTINCT problem, ',') FROM atproto.plc_audit('$whose', 'hole') a"), '', '... and the log holds');
query(q{SELECT atproto.unsubscribe('hole')});

# a stored operation behind the hole cannot be read: the answer has it, without a number
make_hole('spoilt');
query("UPDATE spoilt.plc_operation SET packed = '\\x00' WHERE seq = $came");
query("SELECT atproto.plc_ask('spoilt', '$whose')");
logs_have_come('spoilt');
logs_are('spoilt', 'M-11: an operation before a spoilt one', $came, $whose);
is(query("SELECT seq FROM spoilt.plc_operation ORDER BY n DESC LIMIT 1"), $came, '... which keeps its number');
is(query("SELECT string_agg(DISTINCT problem, ',') FROM atproto.plc_audit('$whose', 'spoilt') a"), '', '... and holds again');
query(q{SELECT atproto.unsubscribe('spoilt'); DROP SCHEMA spoilt CASCADE});

# a user's trigger keeps rows in the table, or out: nothing is replaced, and the stream does not wait
foreach my $trigger ([ kept => 'BEFORE DELETE' ], [ left_out => 'BEFORE INSERT', 'WHEN (NEW.seq IS NULL)' ])
{
	my ($name, $when, $which) = @{$trigger};

	make_hole($name);
	my $rows = query("SELECT string_agg(n || ' ' || cid, ',' ORDER BY n) FROM $name.plc_operation");
	query("CREATE FUNCTION $name.nothing() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'");
	query("CREATE TRIGGER nothing $when ON $name.plc_operation FOR EACH ROW @{[ $which // '' ]} EXECUTE FUNCTION $name.nothing()");
	query("SELECT atproto.plc_ask('$name', '$whose')");
	logs_have_come($name);
	is(query("SELECT string_agg(n || ' ' || cid, ',' ORDER BY n) FROM $name.plc_operation"), $rows, "M-11: a trigger $when: nothing is replaced");
	is(query("SELECT state FROM atproto.stat_subscription WHERE name = '$name'"), 'streaming', '... and the subscription goes on');
	query("SELECT atproto.unsubscribe('$name'); DROP SCHEMA $name CASCADE");
}

# --- an answer with other times ---

sub stored_times
{
	return query(q{SELECT string_agg(cid || ' ' || created_at, ',' ORDER BY n) FROM times.plc_operation});
}

begin_directory($recovery);
follow('times', dids => array($whose));
log_was_read('times', $whose);
query(q{UPDATE times.plc_operation SET created_at = created_at - interval '100 h'});
my $times = stored_times();
publish('times', $came);
is(refused('times', $whose), "$came late", 'M-09: a recovery is too late, by the times that came first');
query("SELECT atproto.plc_ask('times', '$whose')");
log_was_read('times', $whose);
is(stored_times(), $times, 'M-10: a log with other times takes back no stored operation');
# stored operations that cannot be read, and so have the answer's times
foreach my $packed ('', '\x00')
{
	query("UPDATE times.plc_operation SET packed = '$packed' WHERE n > (SELECT n FROM times.plc_operation WHERE cid::text = '$entries[$recovery]{operation}{prev}')");
	query("SELECT atproto.plc_ask('times', '$whose')");
	log_was_read('times', $whose);
	is(stored_times(), $times, "... neither where the table is spoilt ('$packed')");
	is(refused('times', $whose), "$came late", '... the recovery stays refused');
}
is(query("SELECT string_agg(DISTINCT problem, ',') FROM atproto.plc_audit('$whose', 'times') a WHERE problem IS NOT NULL") ne '', 1, 'plc_audit() names what is spoilt');
query(q{SELECT atproto.unsubscribe('times'); DROP SCHEMA times CASCADE});

# --- tables that cannot be read ---

begin_directory(scalar @entries);
follow('broken', cursor => $last);
wait_for("SELECT state = 'streaming' FROM atproto.stat_subscription WHERE name = 'broken'");
query('ALTER TABLE broken.plc_refused RENAME COLUMN entry TO other');
query("SELECT atproto.plc_ask('broken', '$here')");
wait_for(q{SELECT stopped IS NOT NULL FROM atproto.subscription WHERE name = 'broken'});
like(query(q{SELECT stopped FROM atproto.subscription WHERE name = 'broken'}), qr/has no table "plc_refused" with a column "entry"/, 'M-11: tables that an answer cannot be judged by stop the subscription');
query(q{SELECT atproto.unsubscribe('broken'); DROP SCHEMA broken CASCADE});

# --- identities follow ---

begin_directory($half);
# asked for just now: the fetcher removes identities that nobody has asked for
query("INSERT INTO atproto.identity (did, state, asked_at, resolved_at, log_time) VALUES ('$here', 'invalid', now(), '2020-01-01', '2020-01-01')");
my $second = $entries[ $later{$here}[1] ]{seq};
my ($behind) = grep { $_ ne $here && $entries[ $later{$_}[-1] ]{seq} > $second } @late;
follow('ids', dids => array($here, $behind), identities => 'true');
log_was_read('ids', $_) foreach $here, $behind;
is(query("SELECT i.log_time = h.since FROM atproto.identity i, ids.plc_history h WHERE i.did = '$here' AND h.did = i.did AND h.until IS NULL"), 't',
	'M-30: the identity of an account follows its log, in the transaction that ends the request');
# a source of the same tables, without identities, brings the operation first
directory({ log => $log, upto => $entries[ $half - 1 ]{seq} }, 'plc2.example.com');
follow('ids_too', dids => array($here), target => 'ids', host => 'plc2.example.com');
log_was_read('ids_too', $here);
wait_for("SELECT count(*) = 2 FROM atproto.stat_subscription WHERE name IN ('ids', 'ids_too') AND state = 'streaming'");
directory({ do => { publish => $first } }, 'plc2.example.com');
wait_for("SELECT seq >= $first FROM atproto.cursor WHERE subscription = 'ids_too'");
publish('ids', $first);
is(query("SELECT (i.log_time = h.since) || ' ' || o.seq FROM atproto.identity i, ids.plc_history h, ids.plc_operation o WHERE i.did = '$here' AND h.did = i.did AND h.until IS NULL AND o.did = h.did AND o.n = h.n"),
	"true $first", 'M-30: ... also if another source of the same tables has stored the operation already');
query(q{SELECT atproto.unsubscribe('ids_too')});
# the next operation cannot be stored
is(query("SELECT stale FROM atproto.identity WHERE did = '$here'"), 'f', 'M-30: the identity is that of the log ...');
query("ALTER TABLE ids.plc_operation ADD CHECK (seq <> $second)");
publish('ids', $second);
is(query("SELECT count(*) FROM atproto.dead_letter WHERE subscription = 'ids' AND did = '$here'"), '1', '... then an operation becomes a dead letter ...');
is(query("SELECT stale FROM atproto.identity WHERE did = '$here'"), 't', 'M-31: ... and the key is doubtful from then on');
# as if nobody had followed when the letter came
query(q{SELECT atproto.pause('ids')});
query("UPDATE atproto.identity SET stale = false, said_by = '{}', doubted_by = '{}' WHERE did = '$here'");
query(q{SELECT atproto.resume('ids')});
publish('ids', $entries[ $later{$behind}[-1] ]{seq});
is(query("SELECT stale FROM atproto.identity WHERE did = '$here'"), 't', 'M-31: ... also if the identities follow the log only later');
query(q{SELECT atproto.unsubscribe('ids')});

$node->stop;
$network->stop;
done_testing();
