# 434_limits.pl
#		The view atproto.limits and the page doc/operate/limits.md have the same limits, and the page has each
#		table of the extension.  The numbers of the view are those of the tables; owners see their own.  What
#		strangers and other roles can make grow is bounded, and leaves a trace.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Clock;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = make_node('limits', conf => "max_worker_processes = 11\natproto.max_subscriptions = 7\natproto.queue_limit = 3\natproto.plc_url = 'https://127.0.0.1:1'\n");
my $page = slurp_file(test_dir() . '/../doc/operate/limits.md');
my $odd    = make_capture('synth.py', 'odd');
my $n      = () = read_capture($odd);
my $server = AtprotoTest::Server->start($odd);

# The rows of the page's table with this head: lists of cells.
sub page_table
{
	my ($head) = @_;
	my ($lines) = $page =~ /^\Q$head\E.*\n\|[-|]+\n((?:\|.*\n)+)/m or BAIL_OUT("limits.md has no table $head");
	return map { [ map { s/^\s+|\s+$//gr } grep { defined } (split /\|/)[ 1 .. 4 ] ] } split /\n/, $lines;
}

# The use and the bound of a limit.
sub limit
{
	my ($name, $object) = @_;
	return query("SELECT use, bound FROM atproto.limits WHERE name = '$name' AND object IS NOT DISTINCT FROM " . (defined $object ? "'$object'" : 'NULL'));
}

# --- the page ---

# the fetcher leaves these requests alone

query(subscribe_sql('odd', $server, cursor => 0));
wait_for_seq($node, 'odd', $n);
query("INSERT INTO atproto.identity_request (did, requested_at, next_try, role, owner, priority, web) SELECT '" . did('a') . "', now(), 'infinity', oid, oid, 0, false FROM pg_roles WHERE rolname = current_user");
query("INSERT INTO atproto.handle_request (did, role, requested_at, next_try) SELECT '" . did('a') . "', oid, now(), 'infinity' FROM pg_roles WHERE rolname = current_user");
query("INSERT INTO atproto.handle_lookup (handle, role, requested_at, next_try) SELECT h::handle, oid, now(), 'infinity' FROM pg_roles, (VALUES ('a.example.com'), ('b.example.com')) v (h) WHERE rolname = current_user");
my @rows = page_table('| name | scope |');
is(join("\n", sort map { "$_->[0] $_->[1]" =~ s/`//gr } @rows),
	query('SELECT DISTINCT name || $$ $$ || scope COLLATE "C" FROM atproto.limits ORDER BY 1'), 'the page has each limit of the view, and no other');
my %bound = map { $_->[0] =~ s/`//gr => $_->[3] } @rows;
is(join(' ', map { my ($name, $setting) = split /\|/; index($bound{$name}, "`$setting`") < 0 ? $name : () } split /\n/,
		query("SELECT DISTINCT name, setting FROM atproto.limits WHERE setting IS NOT NULL AND name <> 'buffers'")), '', 'the page names the setting that moves each bound');
is(query(q{SELECT string_agg(DISTINCT l.setting, ', ') FROM atproto.limits l WHERE NOT EXISTS (SELECT FROM pg_settings s WHERE s.name = l.setting)
	AND NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = 'atproto.subscription'::regclass AND a.attname = l.setting)}), '', 'each is a setting, or a column of subscriptions');
my %tables = map { $_ => 1 } map { $_->[0] =~ /`(\w+)`/g } page_table('| table | rows are made by |');
my @there = split /\n/, query(q{SELECT relname FROM pg_class WHERE relnamespace = 'atproto'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition ORDER BY 1});
my @data = slurp_file(test_dir() . '/../src/config/target.c') =~ /atp_target_tables\[\] = \{(.*?)NULL/s ? $1 =~ /"(\w+)"/g : ();
cmp_ok(scalar @data, '>', 10, 'the sources list the data tables');
my %all = map { $_ => 1 } @there, @data;
is(join(' ', sort keys %tables), join(' ', sort keys %all), 'the page says of each table what bounds it, and names no other');

# --- the numbers ---

is(limit('worker_processes'), query("SELECT count(*) FROM pg_stat_activity WHERE backend_type LIKE 'atproto %' OR backend_type IN ('logical replication launcher', 'background worker')") . '|11', 'worker processes');
is(limit('databases'), '1|64', 'databases');
is(limit('live_status'), '1|7', 'live status');
my $letters = query('SELECT count(*) FROM atproto.dead_letter');
cmp_ok($letters, '>', 0, 'there are dead letters');
is(limit('dead_letters', 'odd'), "$letters|10000", 'dead letters');
is(limit('dead_letter_bytes', 'odd'), query('SELECT sum(octet_length(bytes)) FROM atproto.dead_frame') . '|268435456', 'their bytes');
is(limit('held_bytes', 'odd'), '0|1073741824', 'events that wait');
is(limit('gaps', 'odd'), '0|10000', 'gaps');
is(limit('requests_hour'), '0|', 'requests of an hour, without a bound');
is(limit('handle_lookups', query('SELECT current_user')), '2|3', 'names that are asked for');
is(limit('role_processes', query('SELECT current_user')), '1|64', 'processes of a role');
is(limit('role_bytes', query('SELECT current_user')), (1073741824 + 268435456) . '|' . 100 * 1024**3, 'bytes of a role');
is(limit('buffers'), (8 * 1024**2 + 256 * 1024 + 5_000_000 + 16 * 1024**2) . '|', 'buffers: what the processes reserve, without a bound');
is(query("SELECT count(*), bool_and(use BETWEEN 1 AND 1e18), bool_and(percent BETWEEN 0 AND 100000) FROM atproto.limits WHERE name = 'disk'"), '2|t|t', 'the volumes of data and WAL');
query("INSERT INTO atproto.dead_letter (subscription, stage, sqlstate, message, did) SELECT 'odd', 'beyond', 'XX000', 'x', ('did:web:a' || n || '.example.com')::did FROM generate_series(1, 20001) n");
is(query("SELECT use >= 20000, estimated FROM atproto.limits WHERE name = 'dead_letters'"), 't|t', 'very many rows are not counted but estimated');
query("DELETE FROM atproto.dead_letter WHERE stage = 'beyond'");

# --- roles ---

query("CREATE ROLE $_ LOGIN; CREATE SCHEMA $_ AUTHORIZATION $_; SELECT atproto.grant_to('$_', '$_', what => 'subscribe')") foreach qw(one two);
query('CREATE ROLE watcher LOGIN; GRANT pg_monitor TO watcher');
my $limits = "SELECT string_agg(DISTINCT name || ' ' || coalesce(object, '-'), ', ' ORDER BY name || ' ' || coalesce(object, '-')) FROM atproto.limits";
my $url = $server->url;

sub as_role
{
	my ($role, $sql) = @_;
	my ($rc, $out, $err) = $node->psql('postgres', "SET SESSION AUTHORIZATION $role; $sql");
	return $rc == 0 ? $out : $err =~ s/^psql:<stdin>:\d+: //mgr =~ s/\nCONTEXT.*//sr;
}

query('ALTER SYSTEM SET atproto.max_role_processes = 4');
query('SELECT pg_reload_conf()');
wait_for("SELECT setting = '4' FROM pg_settings WHERE name = 'atproto.max_role_processes'");
is(as_role('one', "SELECT atproto.subscribe('s$_', '$url', target => 'one', workers => $_); SELECT atproto.pause('s$_')"), "\n", "a role may have so many processes: $_") foreach 1, 2;
like(as_role('one', "SELECT atproto.subscribe('s3', '$url', target => 'one')"),
	qr/^ERROR:  the subscriptions of role "one" would take 5 processes\nDETAIL:  "atproto.max_role_processes" allows 4\.\nHINT:  Remove a subscription, or let a superuser raise the setting\.$/, 'and no more');
like(as_role('one', "UPDATE atproto.subscription SET workers = 3 WHERE name = 's2'"), qr/would take 5 processes/, 'nor by more workers');
is(as_role('one', "UPDATE atproto.subscription SET max_dead_letters = 5, workers = 1 WHERE name = 's2'"), '', 'other changes are no error, and fewer workers make room');
is(as_role('two', "SELECT atproto.subscribe('t1', '$url', target => 'two', workers => 3); SELECT atproto.pause('t1')"), "\n", 'each role has its own limit');
like(as_role('two', "UPDATE atproto.subscription SET max_held_bytes = 100::bigint * 1024 * 1024 * 1024 WHERE name = 't1'"),
	qr/^ERROR:  the subscriptions of role "two" could keep 102656 MB of events that wait and of dead letters\nDETAIL:  "atproto.max_role_bytes" allows 102400 MB\./, 'so much may wait for a role');
like(as_role('two', "UPDATE atproto.subscription SET max_held_bytes = 9223372036854775807, max_dead_letter_bytes = 9223372036854775807"), qr/could keep \d+ MB/, 'any number is compared');
query("UPDATE atproto.subscription SET workers = 9 WHERE name = 't1'");
is(as_role('two', "UPDATE atproto.subscription SET workers = 8 WHERE name = 't1'"), '', 'a superuser has no limit, and less is always allowed');
is(as_role('two', "UPDATE atproto.subscription SET max_dead_letter_bytes = 268435457 WHERE name = 't1'"), '', 'too many processes of a superuser\'s making forbid no other change');
is(as_role('one', $limits), 'dead_letter_bytes s1, dead_letter_bytes s2, dead_letters s1, dead_letters s2, gaps s1, gaps s2, held_bytes s1, held_bytes s2, plc_log_requests s1, plc_log_requests s2, repo_jobs one, role_bytes one, role_processes one',
	'an owner sees the limits of the own role and subscriptions');
is(as_role('watcher', $limits), query($limits), 'a member of pg_monitor sees all');
is(as_role('one', "SELECT use, bound, at_bound FROM atproto.limits WHERE name = 'role_processes'"), '2|4|a further subscription or worker of the role is an error', 'what is used, and what happens at the bound');
query("SELECT atproto.unsubscribe(name) FROM atproto.subscription WHERE name <> 'odd'");

# --- a bound of zero ---

query("UPDATE atproto.subscription SET max_held_bytes = 0; ALTER SYSTEM SET atproto.min_free_disk = '1024TB'");
query('SELECT pg_reload_conf()');
wait_for("SELECT setting = '1073741824' FROM pg_settings WHERE name = 'atproto.min_free_disk'");
is(query("SELECT DISTINCT bound, percent FROM atproto.limits WHERE name = 'disk'"), '0|100.0', 'a volume that is smaller than min_free_disk is full');
is(query("SELECT bound, percent FROM atproto.limits WHERE name = 'held_bytes'"), '0|0.0', 'nothing may wait, and nothing waits');
query('ALTER SYSTEM RESET atproto.min_free_disk');
query('SELECT pg_reload_conf()');
wait_for("SELECT setting = '1024' FROM pg_settings WHERE name = 'atproto.min_free_disk'");

# --- very many gaps ---

query("SELECT atproto.unsubscribe('odd'); TRUNCATE atproto.record, atproto.repo");
$server = AtprotoTest::Server->start(capture('pds.frames.gz'), '--oldest', 300);
query('BEGIN; ' . subscribe_sql('gaps', $server, cursor => 100)
	. "; INSERT INTO atproto.gap (subscription, endpoint, after_seq, before_seq, reason) SELECT name, endpoint, 10, 20, 'OutdatedCursor' FROM atproto.subscription, generate_series(1, 10000) WHERE name = 'gaps'; COMMIT");
wait_for_seq($node, 'gaps', $PDS_LAST);
is(query('SELECT count(*), max(before_seq) FILTER (WHERE id < m), max(before_seq) FROM atproto.gap, (SELECT max(id) AS m FROM atproto.gap) g'), '10000|20|300', 'of very many gaps the newest grows');
is(limit('gaps', 'gaps'), '10000|10000', 'the view says so');

done_testing();
