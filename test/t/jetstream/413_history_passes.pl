# 413_history_passes.pl
#		A rare collection is read in two passes: the commits, and then all rows of the accounts that have records (H-26).
#
#		ATPROTO_SEED is the seed of the run.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Archive;
use AtprotoTest::Jetstream;
use AtprotoTest::Kills;
use JSON::PP;
use Test::More;

my $archive = AtprotoTest::Archive->begin('--events' => 1500, '--accounts' => 60);
my $preload = $archive->preload;
my $node    = make_node('passes', start => $preload, conf => $archive->settings);
my $last    = $archive->last_seq;
my $profile = 'app.bsky.actor.profile';

$archive->serve({});
query('CREATE SCHEMA whole');
query($archive->subscription_sql('whole', history => "'none'", cursor => 0, target => "'whole'"));
$archive->wait_for_end('whole');
query("SELECT atproto.unsubscribe('whole')");

# Handles of 400 accounts without records: each in a block of its own with an event of the capture.
my @rows = split /\n/, PostgreSQL::Test::Utils::slurp_file($archive->rows_file);
my ($identity) = grep { decode_json($_)->[2] == 4 } @rows;
my @strangers = map { my $r = decode_json($identity); $r->[0] = $last + $_; $r->[3] = 'did:plc:' . 'z' x 20 . join '', map { chr(ord('a') + $_) } (int($_ / 400), int($_ / 20) % 20, $_ % 20, 0); encode_json($r) } 1 .. 400;
my $file = PostgreSQL::Test::Utils::tempdir('strangers') . '/rows';
PostgreSQL::Test::Utils::append_to_file($file, join '', map { "$_\n" } @strangers);

sub begin_case
{
	my ($name, $options, %args) = @_;

	$archive->serve({ block_rows => 2, segment_blocks => 50, %$options }, seal => 1);
	$archive->do(append => $file);
	$archive->do(seal => 0);
	query("CREATE SCHEMA $name; " . (delete $args{before} // ''));
	my $after = delete $args{after} // '';
	query('SET synchronous_commit = on; BEGIN; ' . $archive->subscription_sql($name, target => "'$name'", collections => "'{$profile}'", %args) . "; $after; COMMIT");
}

sub is_whole
{
	my ($name, $what) = @_;
	my $columns = 'did, collection, rkey, cid, rev, value';
	my @sides = ("SELECT $columns FROM $name.record", "SELECT $columns FROM whole.record WHERE collection = '$profile'");

	wait_for("SELECT phase IN ('seam', 'live') FROM atproto.history WHERE subscription = '$name'");
	is(query("SELECT count(*) FROM (($sides[0] EXCEPT ALL $sides[1]) UNION ALL ($sides[1] EXCEPT ALL $sides[0])) d"), '0', "$what: the records");
	is(query("SELECT count(*) FROM $name.repo r JOIN whole.repo w USING (did) WHERE (r.active, r.status, r.handle) IS DISTINCT FROM (w.active, w.status, w.handle)"), '0', "$what: statuses and handles");
	is(query("SELECT count(*) FROM whole.record w WHERE collection = '$profile' AND did NOT IN (SELECT did FROM $name.repo)"), '0', "$what: all accounts with records");
	is(query("SELECT count(*) FROM $name.repo WHERE did::text LIKE 'did:plc:zzz%'"), '0', "$what: no account without records");
	return;
}

begin_case('two', {}, before => q{CREATE TABLE written (did text); SELECT atproto.create_tables('two');
	CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN INSERT INTO public.written VALUES (NEW.did); RETURN NULL; END';
	CREATE TRIGGER note AFTER INSERT OR UPDATE ON two.record FOR EACH ROW EXECUTE FUNCTION note()});
is_whole('two', 'two passes');
my %marked = map { $_->[3] => 1 } grep { $_->[2] == 5 || $_->[2] == 6 } map { decode_json($_) } @rows;
my @puts = grep { $_->[2] < 3 && $_->[4] eq $profile } map { decode_json($_) } @rows;
is_deeply([ sort grep { !$marked{$_} } split /\n/, query('SELECT did FROM written') ], [ sort grep { !$marked{$_} } map { $_->[3] } @puts ],
	'H-26: the second pass applies no operation again before a change of the account');
my @plans = map { decode_json($_->{body}) } $archive->requests('planSnapshot');
is((grep { @{ $_->{kinds} // [] } == 1 } @plans) > 0, 1, 'H-26: a plan of commits is compared with a plan of all kinds');
my ($dids) = grep { @{ $_->{dids} // [] } } @plans;
ok($dids, '... and the second pass asks for the accounts with records');
cmp_ok(scalar @{ $dids->{dids} }, '<', 70, '... and for no others');
query(q{SELECT atproto.unsubscribe('two')});

begin_case('compacted', {});
$archive->do(compact => undef);
query(q{SELECT atproto.history_again('compacted')});
wait_for(q{SELECT cycles > 0 FROM atproto.history WHERE subscription = 'compacted'});
is_whole('compacted', 'after compaction');
query(q{SELECT atproto.unsubscribe('compacted')});

# --- the position is set between the passes ---

# in the first pass, a block is refused, and the operator sets the position
$archive->network->fault({ host => $AtprotoTest::Archive::HOST, path => 'getBlock.*seg_000000000[5-9a-z]', status => 500 });
begin_case('set', { whole => 1.1 });
wait_for(q{SELECT error IS NOT NULL AND passes = 2 AND phase = 'rows' FROM atproto.history WHERE subscription = 'set'});
query(q{SELECT atproto.history_again('set', (SELECT seq FROM atproto.cursor WHERE subscription = 'set'))});
is(query(q{SELECT phase, passes FROM atproto.history WHERE subscription = 'set'}), 'rows|2', 'H-26: the second pass is still to come');
$archive->network->unfault(undef);
is_whole('set', 'the position was set between the passes');
query(q{SELECT atproto.unsubscribe('set')});

# a jump over the first rows; a change of the server between the passes
# (paused before a row is read: the rows that were read are no gap)
begin_case('jump', { whole => 1.1 }, after => q{SELECT atproto.pause('jump')});
query(q{SELECT atproto.set_cursor('jump', 0); SELECT atproto.history_again('jump', 3)});
is(query(q{SELECT after_seq, before_seq FROM atproto.gap WHERE subscription = 'jump' ORDER BY id DESC LIMIT 1}), '0|4', 'a jump over the first rows of an archive is a gap');
query(q{UPDATE atproto.history SET phase = 'rows', passes = 2, tip = 100, began_after = 3 WHERE subscription = 'jump'; UPDATE atproto.cursor SET seq = 50 WHERE subscription = 'jump'});
query(q{UPDATE atproto.history SET phase = 'markers' WHERE subscription = 'jump'; SELECT atproto.history_again('jump', 51)});
is(query(q{SELECT phase, passes, tip, began_after FROM atproto.history WHERE subscription = 'jump'}), 'markers|2|100|3', 'H-26: a later position goes on in the second pass');
query(q{SELECT atproto.history_again('jump', 40)});
is(query(q{SELECT phase, passes, tip, began_after FROM atproto.history WHERE subscription = 'jump'}), 'plan|2||3', '... and an earlier one begins the passes again');
query(q{SELECT atproto.history_again('jump', 2)});
is(query(q{SELECT phase, passes, tip FROM atproto.history WHERE subscription = 'jump'}), 'plan||', '... as a new cycle, before the begin of the cycle');
query(q{UPDATE atproto.history SET phase = 'rows', passes = 2, tip = 100, began_after = 3 WHERE subscription = 'jump'; UPDATE atproto.cursor SET seq = 50 WHERE subscription = 'jump'});
query(q{UPDATE atproto.subscription SET url = replace(url, 'jetstream.example.com', 'other.example.com') WHERE name = 'jump'; SELECT atproto.set_cursor('jump', 0)});
query(q{SELECT atproto.resume('jump')});
wait_for(q{SELECT endpoint LIKE '%other%' FROM atproto.history WHERE subscription = 'jump'});
is(query(q{SELECT seq FROM atproto.cursor WHERE subscription = 'jump' AND endpoint NOT LIKE '%other%'}), '3', 'H-26: a server that is left between the passes is read again from there');
query(q{SELECT atproto.unsubscribe('jump'); DELETE FROM atproto.gap});

# events are kept: the second pass would bring operations twice
begin_case('events', {}, events => "'keep'");
wait_for(q{SELECT phase IN ('seam', 'live') FROM atproto.history WHERE subscription = 'events'});
is(query('SELECT count(*) - count(DISTINCT (seq, did, collection, rkey)) FROM events.record_event'), '0', 'with events, one pass is made, and no event comes twice');
query(q{SELECT atproto.unsubscribe('events')});

# --- H-27: a server that accepts few accounts in a request ---

sub pid_of { return query("SELECT pid FROM atproto.stat_subscription WHERE name = '$_[0]'") }

foreach my $workers (1, 2)
{
	my $name = "groups$workers";

	$archive->network->fault({ host => $AtprotoTest::Archive::HOST, path => 'planSnapshot', hold => $name, times => 1 });
	begin_case($name, { most => { dids => 17 } }, workers => $workers);
	wait_for("SELECT state = 'history' FROM atproto.stat_subscription WHERE name = '$name'");
	my $pid = pid_of($name);
	$archive->network->release($name);
	is_whole($name, "$workers workers: the second pass in groups");
	is(pid_of($name), $pid, '... without a restart');
	my @sizes = grep { $_ } map { scalar @{ decode_json($_->{body})->{dids} // [] } } $archive->requests('planSnapshot');
	cmp_ok((grep { $_ > 0 && $_ <= 17 } @sizes), '>=', 3, "... of as many accounts as the server accepts");
	query("SELECT atproto.unsubscribe('$name')");
}

# --- H-27: a filter with more accounts than a request may have, and a server without a filter of collections ---

my @wanted = split /\n/, query("SELECT did FROM whole.record WHERE collection = '$profile' GROUP BY 1 ORDER BY did LIMIT 40");
my $list   = join ',', @wanted;
begin_case('dids', { most => { dids => 17, collections => 0 } }, dids => "'{$list}'", events => "'keep'");
wait_for(q{SELECT phase IN ('seam', 'live') FROM atproto.history WHERE subscription = 'dids'});
is(query("SELECT count(*) FROM ((SELECT did, rkey, cid FROM dids.record EXCEPT ALL SELECT did, rkey, cid FROM whole.record WHERE collection = '$profile' AND did = ANY ('{$list}'))"
	. " UNION ALL (SELECT did, rkey, cid FROM whole.record WHERE collection = '$profile' AND did = ANY ('{$list}') EXCEPT ALL SELECT did, rkey, cid FROM dids.record)) d"),
	'0', 'H-27: groups of the accounts in the filter');
is(query('SELECT count(*) - count(DISTINCT (seq, did, collection, rkey)) FROM dids.record_event'), '0', '... each event once');
is(query(q{SELECT filtered_here FROM atproto.history_progress WHERE subscription = 'dids'}), '{collections}', '... and what the server does not filter is filtered here');
query(q{SELECT atproto.unsubscribe('dids')});

# --- kills between the passes ---

$archive->network->fault({ host => $AtprotoTest::Archive::HOST, path => 'getBlock', delay => 0.02 });
begin_case('killed', { whole => 1.1 }, workers => 2);
my %met;
AtprotoTest::Kills->new($node, $preload)->settle(8,
	sub { (try_query(q{SELECT cycles > 0 FROM atproto.history WHERE subscription = 'killed'}) // 'no answer') eq 't' ? 'done' : 'not yet' }, 'done',
	sub { $met{ try_query(q{SELECT phase FROM atproto.history WHERE subscription = 'killed'}) // '' }++ });
note(join ', ', map { "$_: $met{$_}" } sort keys %met);
is_whole('killed', 'killed in both passes');

done_testing();
