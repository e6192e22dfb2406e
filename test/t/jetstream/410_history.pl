# 410_history.pl
#		The archive of a Jetstream is read into the tables, and then the stream of the same numbers (H-01 to H-06, H-10
#		to H-16, H-20 to H-25, H-30 to H-36, H-40).  The page is doc/use/history.md.
#
#		ATPROTO_SEED is the seed of the run.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Archive;
use AtprotoTest::Jetstream;
use Digest::SHA qw(sha256_hex);
use JSON::PP;
use PostgreSQL::Test::Utils;
use Test::More;

my $archive = AtprotoTest::Archive->begin('--events' => 1500, '--accounts' => 60);
my $node    = make_node('history', start => $archive->preload, conf => $archive->settings);
my $last    = $archive->last_seq;
my $tables  = [qw(record repo)];

sub history { return query("SELECT $_[1] FROM atproto.history WHERE subscription = '$_[0]'") }

# --- the stream alone ---

$archive->serve({ block_rows => 20, segment_blocks => 5 }, seal => int($last / 100 * 0.6));
query('CREATE SCHEMA whole; CREATE SCHEMA a;');
query($archive->subscription_sql('whole', history => "'none'", cursor => 0, target => "'whole'"));
$archive->wait_for_end('whole');
query("SELECT atproto.unsubscribe('whole')");

# --- the whole archive, and then the stream ---

query($archive->subscription_sql('a', target => "'a'"));
$archive->wait_for_end('a');
same_rows('a', 'whole', 'the archive and then the stream leave what the stream alone does', tables => $tables);
wait_for(q{SELECT phase = 'live' FROM atproto.history WHERE subscription = 'a'});
is(history('a', q{tip, error, cycles, seams}), '||1|{}', 'all is read');
is(query(q{SELECT state FROM atproto.stat_subscription WHERE name = 'a'}), 'streaming', 'then the stream is followed');
is(query(q{SELECT count(*) FROM atproto.dead_letter}), '0', 'no row is refused');
is(query('SELECT count(*) FROM a.record r JOIN whole.record w USING (did, collection, rkey) WHERE r.cid <> w.cid'), '0', 'H-30: the CIDs are those of the accounts');
my @plans = map { decode_json($_->{body}) } $archive->requests('planSnapshot');
is_deeply([ map { [ $_->{afterSeq} // 0, $_->{beforeSeq} // 0 ] } @plans ], [ [ 0, 0 ] ], 'H-05: a single page is asked for, and nothing at the end');

# --- the requests of an hour are used up, and there is no room on the disk ---

my $asked = query("SELECT use FROM atproto.limits WHERE name = 'requests_hour'");
cmp_ok($asked, '>', 0, 'the requests to the archive are counted');
cmp_ok(query("SELECT use FROM atproto.limits WHERE name = 'download_hour'"), '>', 10_000, 'and its bytes');
query("SELECT atproto.unsubscribe('a'); CREATE SCHEMA limited");
$archive->serve({ block_rows => 20, segment_blocks => 5 }, seal => int($last / 100 * 0.6));
query("ALTER SYSTEM SET atproto.max_requests_hour = $asked");
query('SELECT pg_reload_conf()');
wait_for("SELECT setting = '$asked' FROM pg_settings WHERE name = 'atproto.max_requests_hour'");
query($archive->subscription_sql('limited', target => "'limited'"));
wait_for("SELECT state = 'waiting' AND last_error = '$asked requests were sent within an hour: \"atproto.max_requests_hour\" allows $asked' FROM atproto.stat_subscription");
is(query('SELECT count(*) FROM limited.record'), '0', 'without requests left, the archive is not read');
is(query("SELECT use FROM atproto.limits WHERE name = 'requests_hour'"), $asked, 'no further request is sent');
query("ALTER SYSTEM SET atproto.min_free_disk = '2000TB'");
query('ALTER SYSTEM SET atproto.max_requests_hour = 0');
query('SELECT pg_reload_conf()');
wait_for("SELECT state = 'waiting' AND last_error LIKE 'only % MB are free on the volume of the data directory: %' FROM atproto.stat_subscription");
is(query('SELECT count(*) FROM limited.record'), '0', 'nor without room');
query('ALTER SYSTEM RESET atproto.min_free_disk');
query('SELECT pg_reload_conf()');
$archive->wait_for_end('limited');
same_rows('limited', 'whole', 'then the archive is read, and nothing is missing', tables => $tables);
query("SELECT atproto.unsubscribe('limited')");

# --- whole segments and ranges of blocks, small pages, workers, compaction, other generations ---

# Subscribe with these options to a new archive, wait for its end, and compare.
my $number = 0;
sub reads_all
{
	my ($what, $options, %o) = @_;
	my $name = 's' . ++$number;

	$archive->serve({ block_rows => 20, segment_blocks => 5, %$options }, seal => $o{seal} // 0);
	$archive->do(%{ $_ }) foreach @{ $o{do} // [] };
	query("CREATE SCHEMA $name");
	$o{before}->() if $o{before};
	query($archive->subscription_sql($name, target => "'$name'", %{ $o{with} // {} }));
	$o{meanwhile}->($name) if $o{meanwhile};
	$archive->wait_for_end($name);
	if ($o{posts})
	{
		my $columns = 'did, collection, rkey, cid, rev, value';
		my @sides = ("SELECT $columns FROM $name.record", "SELECT $columns FROM whole.record WHERE collection = 'app.bsky.feed.post'");
		is(query("SELECT count(*) FROM (($sides[0] EXCEPT ALL $sides[1]) UNION ALL ($sides[1] EXCEPT ALL $sides[0])) d"), '0', "$what: the records");
	}
	else
	{
		same_rows($name, 'whole', $what, tables => $o{compacted} ? ['record'] : $tables);
		# of an account that was deleted, compaction has removed the last revision
		is(differences('repo', $name, 'whole', 'rev'), '0', "$what: statuses and handles") if $o{compacted};
	}
	is(query("SELECT phase IN ('seam', 'live'), error FROM atproto.history WHERE subscription = '$name'"), 't|', "$what: all is read");
	query("SELECT atproto.unsubscribe('$name')");
	return $name;
}

reads_all('H-16: ranges of blocks', { whole => 2 });
reads_all('H-06: pages of one unit', { whole => 2, page => 1, generous => 3 });
reads_all('H-40: three workers', {}, with => { workers => 3 });
reads_all('half compacted', { lag => 1 }, compacted => 1, do => [ { compact => int($last / 2) } ]);
reads_all('all compacted', { whole => 2 }, compacted => 1, do => [ { compact => undef } ]);
reads_all('H-11: compacted while it is read', { whole => 0.9 }, compacted => 1, do => [ { compact => int($last / 3), before => 3 }, { compact => undef, before => 6 }, { rewrite => JSON::PP::true(), before => 9 } ]);
reads_all('answers without an ETag', { etag => JSON::PP::false() });

my $posts = reads_all('a collection', { whole => 2 }, posts => 1, with => { collections => "'{app.bsky.feed.post}'" });
is(query("SELECT count(*) FROM $posts.repo r WHERE NOT EXISTS (SELECT FROM $posts.record WHERE did = r.did) AND rev IS NULL"),
	'0', 'H-34: accounts without a record in the collection have no row');

# --- accounts that are inactive by the word of a relay ---

$archive->serve({ block_rows => 20, segment_blocks => 5 });
query("CREATE SCHEMA told; SELECT atproto.create_tables('told')");
query("INSERT INTO told.repo (did, active, status, status_at, status_endpoint, sync) SELECT did, false, 'deactivated', now(), 'wss://relay.example.com', 'partial' FROM whole.repo WHERE active");
query($archive->subscription_sql('told', target => "'told'"));
$archive->wait_for_end('told');
same_rows('told', 'whole', 'F-05: a later status of another stream keeps no row of the archive out', tables => ['record']);
query("SELECT atproto.unsubscribe('told')");

# --- a token ---

reads_all('a token', { token => 'secret-token' }, with => { archive_token => "'secret-token'" });
is(query("SELECT count(*) FROM atproto.subscription_log WHERE detail LIKE '%secret-token%'"), '0', 'the token is not in the log of the subscription');
unlike(slurp_file($node->logfile) =~ s/^.*statement: .*$//mgr, qr/secret-token/, '... nor in that of the server');
my @with_token = grep { ($_->{headers}{authorization} // '') eq 'Bearer secret-token' } $archive->network->log(host => $AtprotoTest::Archive::HOST);
is((grep { $_->{path} !~ /planSnapshot|getSegment|getBlock/ } @with_token), 0, 'H-15: the token goes with requests to the archive only');
cmp_ok(scalar(@with_token), '>', 1, '... with these');

reads_all('a token that comes late', { token => 'secret-token' },
	meanwhile => sub {
		my ($name) = @_;
		wait_for("SELECT last_error LIKE '%with this token%' FROM atproto.stat_subscription WHERE name = '$name'");
		is(query("SELECT phase, error LIKE '%401%', next_try > now() FROM atproto.history WHERE subscription = '$name'"), 'plan|t|t', 'the row says what the reading waits for');
		query("INSERT INTO atproto.request_header VALUES ('$name', 'Authorization', 'Bearer secret-token', true)");
		query("UPDATE atproto.subscription SET enabled = enabled WHERE name = '$name'");
	});

# --- each fault once ---

my @once = (
	[ 'a plan is refused', { path => 'planSnapshot', status => 500, times => 2 } ],
	[ 'a plan that is not JSON', { path => 'planSnapshot', status => 200, body => '{"sealedTipSeq": 1', times => 1 } ],
	[ 'a plan that stands still', { path => 'planSnapshot', status => 200, body => '{"sealedTipSeq": 9, "plannedThroughSeq": 0, "segments": [], "stats": {"blocksMatched": 0}}', times => 1 } ],
	[ 'the server is busy', { path => 'getSegment', status => 503, times => 1 } ],
	[ 'H-14: a segment is cut off', { path => 'getSegment', truncate => 3000, times => 2 } ],
	[ 'a connection is reset', { path => 'getSegment', reset => 2500, times => 2 } ],
	[ 'a byte is another', { path => 'getSegment', xor => 2000, times => 1 } ],
	[ 'a segment is not there', { path => 'getSegment', status => 404, times => 1 } ],
	[ 'a redirect', { path => 'getSegment', redirect => 'http://other.example.com/', times => 1 } ],
	[ 'a block is cut off', { path => 'getBlock', truncate => 100, times => 2 }, { whole => 2 } ],
	[ 'a byte of a block is another', { path => 'getBlock', xor => 60, times => 2 }, { whole => 2 } ],
	[ 'H-22: a block without its end', { path => 'getBlock', size => 40, times => 2 }, { whole => 2 } ],
	[ 'a bomb', { path => 'getBlock', status => 200, bomb => 2, times => 1 }, { whole => 2 } ],
);
foreach my $case (@once)
{
	my ($what, $fault, $options) = @$case;

	reads_all("$what, once", $options // {}, before => sub { $archive->network->fault({ host => $AtprotoTest::Archive::HOST, %$fault }) });
	$archive->network->unfault(undef);
}
is((grep { $_->{kind} eq 'http' } $archive->network->log(host => 'other.example.com')), 0, 'H-01: no redirect is followed');

# --- a server that sends nothing more ---

reads_all('H-02: a server that stops in the middle of a segment', {},
	before => sub { $archive->network->fault({ host => $AtprotoTest::Archive::HOST, path => 'getSegment', hang => 2000, times => 1 }) },
	meanwhile => sub {
		my ($name) = @_;
		wait_for("SELECT state = 'history' FROM atproto.stat_subscription WHERE name = '$name'");
		wait_for("SELECT tip = $last FROM atproto.history WHERE subscription = '$name'");
		is(query(q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'atproto consumer' AND xact_start IS NOT NULL}), '0', 'no transaction is open meanwhile');
		query("SELECT atproto.pause('$name')");
		wait_for("SELECT state = 'paused' FROM atproto.stat_subscription WHERE name = '$name'");
		$archive->network->unfault(undef);
		query("SELECT atproto.resume('$name')");
	});

# --- a block that stays bad: the row of atproto.history names the block ---

my $no_frame = 'not a frame' x 50;
reads_all('a block that stays bad until it is mended', { whole => 2 },
	before => sub { $archive->network->fault({ host => $AtprotoTest::Archive::HOST, path => 'blockIndex=3', status => 200, body => $no_frame }) },
	meanwhile => sub {
		my ($name) = @_;
		wait_for("SELECT error LIKE '%block 3 of segment seg_0000000000.jss is refused%' FROM atproto.history WHERE subscription = '$name'");
		is(query("SELECT seq FROM atproto.cursor WHERE subscription = '$name'"), '60', 'H-22: what comes before the block is applied, and nothing behind it');
		wait_for("SELECT error ~ 'refused [0-9]+ times, SHA-256 of its 550 bytes: @{[ sha256_hex($no_frame) ]}' FROM atproto.history WHERE subscription = '$name'");
		wait_for("SELECT state IN ('waiting', 'history') FROM atproto.stat_subscription WHERE name = '$name'");
		query("SELECT atproto.pause('$name')");
		wait_for("SELECT state = 'paused' FROM atproto.stat_subscription WHERE name = '$name'");
		$archive->network->unfault(undef);
		query("SELECT atproto.resume('$name')");
	});

my $requests = () = $archive->requests('getSegment');
reads_all('a block in the middle of a segment, wrong once', { block_rows => 10, segment_blocks => 40 },
	before => sub { $archive->network->fault({ host => $AtprotoTest::Archive::HOST, path => 'getSegment', xor => 20000, times => 1 }) });
my @later  = $archive->requests('getSegment');
my @ranges = grep { defined } map { $_->{headers}{range} } @later[ $requests .. $#later ];
is(scalar @ranges, 1, 'H-22: only the rest of the segment is requested again');
like($ranges[0], qr/^bytes=\d{4,5}-$/, '... from the begin of the block on');

# --- H-21: a block beyond the limit ---

query(q{ALTER SYSTEM SET atproto.history_block_max = '64kB'; SELECT pg_reload_conf()});
reads_all('a block beyond the limit', { block_rows => 400 },
	meanwhile => sub {
		my ($name) = @_;
		wait_for("SELECT error LIKE '%is longer than 65536 bytes, the limit of atproto.history_block_max%refused 3 times%' FROM atproto.history WHERE subscription = '$name'");
		is(query("SELECT seq FROM atproto.cursor WHERE subscription = '$name'"), '0', 'H-21: nothing of the block is applied');
		query(q{ALTER SYSTEM RESET atproto.history_block_max; SELECT pg_reload_conf()});
	});

# --- a busy server, slices, a replaced archive, a repository with a second source ---

reads_all('H-60: a server that wants to be left alone', {},
	before => sub { $archive->network->fault({ host => $AtprotoTest::Archive::HOST, path => 'getSegment', status => 429, headers => { 'Retry-After' => '3000' }, times => 1 }) },
	meanwhile => sub {
		my ($name) = @_;
		wait_for("SELECT next_try > now() + interval '40 min' FROM atproto.history WHERE subscription = '$name'");
		query("SELECT atproto.pause('$name')");
		wait_for("SELECT state = 'paused' FROM atproto.stat_subscription WHERE name = '$name'");
		is(query("SELECT phase, tip = $last FROM atproto.history WHERE subscription = '$name'"), 'rows|t', 'H-03: phase and tip are kept');
		query("SELECT atproto.resume('$name')");
	});

$archive->serve({ block_rows => 20 });
query('CREATE SCHEMA half');
query($archive->subscription_sql('half', target => "'half'", slice => "'0/2'"));
$archive->wait_for_end('half');
is(query('SELECT count(*) FROM (SELECT did, collection, rkey, cid FROM half.record EXCEPT SELECT did, collection, rkey, cid FROM whole.record) d'), '0', 'H-27: no row of another slice');
is(query('SELECT count(*) FROM whole.record WHERE did_slice(did, 2) = 0') - query('SELECT count(*) FROM half.record'), 0, '... and each of this one');
query(q{SELECT atproto.pause('half')});
wait_for(q{SELECT state = 'paused' FROM atproto.stat_subscription WHERE name = 'half'});
query("UPDATE atproto.history SET phase = 'rows', tip = $last + 1000 WHERE subscription = 'half'; SELECT atproto.resume('half')");
wait_for(q{SELECT state = 'stopped' FROM atproto.stat_subscription WHERE name = 'half'});
like(query(q{SELECT last_error FROM atproto.stat_subscription WHERE name = 'half'}), qr/not the same archive/, 'H-55: an archive that ends before its end is another one');
query(q{SELECT atproto.unsubscribe('half')});

query(q{CREATE SCHEMA other; SELECT atproto.create_tables('other')});
query(q{INSERT INTO other.repo (did, rev, data, sync) SELECT did, '3jzfcijpj2z2a', 'bafyreie5cvv4h45feadgeuwhbcutmh6t2ceseocckahdoe6uat64zmz454', 'synchronized' FROM whole.repo WHERE active ORDER BY did LIMIT 1});
query($archive->subscription_sql('other', target => "'other'"));
$archive->wait_for_end('other');
is(query(q{SELECT rev FROM other.repo WHERE data IS NOT NULL}), '3jzfcijpj2z2a', 'H-44: the revision of a repository that another source knows does not move');
query(q{SELECT atproto.unsubscribe('other'); DROP SCHEMA other CASCADE});

# --- #sync and its records, falling revisions, wrong rows ---

# Rows behind sequence number $after, made by a program in Python for the accounts in @dids.
my @dids = split /\n/, query("SELECT did FROM (SELECT did, count(*) FROM whole.record GROUP BY 1 HAVING count(*) > 5 ORDER BY 2 DESC, 1 LIMIT 3) d");
my $begin = <<'EOP';
import sys
test, seq, (a, b, c) = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
sys.path[:0] = [test + "/network", test + "/oracle"]
import cbor2
from archive import line_of
from segment import *
LATE, EARLY, FUTURE = b"3zzzzzzzzzzzz", b"3jzfcijpj2z2a", b"7zzzzzzzzzzzz"
LATE = b"3mzzzzzzzzzz2"[:13]
def row(kind, did, collection=b"", rkey=b"", rev=b"", payload=b""):
    global seq
    seq += 1
    print(line_of(Row(seq, 1767225600000000 + 1000 * seq, kind, did.encode(), collection, rkey, rev, payload)))
def post(text):
    return cbor2.dumps({"$type": "app.bsky.feed.post", "text": text}, canonical=True)
def sync(did, rev):
    row(SYNC, did, rev=rev, payload=cbor2.dumps({"did": did, "rev": rev.decode(), "seq": 0, "time": "2026-01-01T00:00:00Z", "blocks": b""}, canonical=True))
EOP

sub more_rows
{
	my ($after, $program) = @_;
	my $file = PostgreSQL::Test::Utils::tempdir('more') . '/rows';

	IPC::Run::run([ $ENV{PYTHON} || '/usr/bin/python3', '-B', '-', test_dir(), $after, @dids ], '<', \"$begin$program", '>', $file) or BAIL_OUT('no rows');
	return $file;
}

my $more = more_rows($last, <<'EOP');
# an account whose repository the server has fetched again
sync(a, b"3mdzzzzzzzz2a")
for n in range(3):
    row(CREATE_RESYNC, a, b"app.bsky.feed.post", b"new%d" % n, b"3mdzzzzzzzz2a", post("new %d" % n))
# an account of a restored host: the revision falls
sync(b, EARLY)
row(CREATE_RESYNC, b, b"app.bsky.feed.post", b"old", EARLY, post("old"))
row(UPDATE, b, b"app.bsky.feed.post", b"old", EARLY[:-1] + b"b", post("older"))
# wrong rows
row(CREATE, c, b"app.bsky.feed.post", b"bad", b"3mdzzzzzzzz2a", b"\xff")
row(CREATE, c, b"not an nsid", b"bad", b"3mdzzzzzzzz2a", post("x"))
row(CREATE, c, b"app.bsky.feed.post", b"ahead", FUTURE, post("x"))
row(CREATE, c, b"app.bsky.feed.post", b"bad rev", b"x", post("x"))
row(IDENTITY, c, payload=b"\xa0")
row(CREATE, c, b"app.bsky.feed.post", b"good", b"3mdzzzzzzzz2a", post("good"))
EOP

$archive->serve({ block_rows => 20, segment_blocks => 5 });
$archive->do(append => $more);
$archive->do(seal => 0);
query('CREATE SCHEMA syncs');
query($archive->subscription_sql('syncs', target => "'syncs'"));
wait_for("SELECT seq >= $last + 13 FROM atproto.cursor WHERE subscription = 'syncs'");
is(query("SELECT string_agg(rkey::text, ' ' ORDER BY rkey) FROM syncs.record WHERE did = '$dids[0]'"), 'new0 new1 new2', 'H-31: a #sync removes all records of the account, and what follows brings them back');
is(query("SELECT string_agg(rkey || ' ' || (value ->> 'text'), ' ') FROM syncs.record WHERE did = '$dids[1]'"), 'old older', 'H-33: also where the revision falls');
is(query("SELECT value ->> 'text' FROM syncs.record WHERE did = '$dids[2]' AND rkey = 'good'"), 'good', 'H-25: a wrong row does not hinder the next one');
is(query("SELECT string_agg(stage, ' ' ORDER BY seq) FROM atproto.dead_letter WHERE subscription = 'syncs'"), 'record message commit message message', '... and each becomes a dead letter');
is(query("SELECT count(*) FROM syncs.record WHERE did = '$dids[2]' AND rkey::text ~ 'bad|ahead'"), '0', '... and no record');
is(query(q{SELECT count(*) FROM (SELECT atproto.retry(id) FROM atproto.dead_letter WHERE subscription = 'syncs') r}), '5', 'retry() reads rows of an archive');
is(query(q{SELECT count(*), min(attempts) > 1 FROM atproto.dead_letter WHERE subscription = 'syncs'}), '5|t', '... which are still wrong');

# --- H-32: an account whose repository the server has fetched again, after one change ---

query(q{SELECT atproto.pause('syncs')});
wait_for(q{SELECT state = 'paused' FROM atproto.stat_subscription WHERE name = 'syncs'});
query(q{CREATE TABLE touched (what text); GRANT ALL ON touched TO PUBLIC;
	CREATE FUNCTION touch() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN INSERT INTO public.touched VALUES (lower(left(TG_OP, 1)) || ' ' || coalesce(NEW.rkey, OLD.rkey)::text); RETURN NULL; END$$;
	CREATE TRIGGER touch AFTER INSERT OR UPDATE OR DELETE ON syncs.record FOR EACH ROW EXECUTE FUNCTION touch()});
my $unchanged = "SELECT rev || ' ' || xmin || ' ' || ctid FROM syncs.record WHERE did = '$dids[0]' AND rkey::text = 'new0'";
query(qq{INSERT INTO syncs.record SELECT did, collection, r::recordkey, cid, rev, indexed_at, value FROM syncs.record, unnest('{new4,new6}'::text[]) r WHERE did = '$dids[0]' AND rkey::text = 'new0'; DELETE FROM touched});
my $before = query($unchanged);
$archive->do(append => more_rows($last + 13, <<'EOP'));
sync(a, b"3mdzzzzzzzz2c")
row(CREATE_RESYNC, a, b"app.bsky.feed.post", b"new0", b"3mdzzzzzzzz2c", post("new 0"))
row(CREATE_RESYNC, a, b"app.bsky.feed.post", b"new1", b"3mdzzzzzzzz2c", post("changed"))
row(CREATE_RESYNC, a, b"app.bsky.feed.post", b"new2", b"3mdzzzzzzzz2c", post("between"))
row(UPDATE, a, b"app.bsky.feed.post", b"new2", b"3mdzzzzzzzz2d", post("new 2"))
row(CREATE_RESYNC, a, b"app.bsky.feed.post", b"new3", b"3mdzzzzzzzz2c", post("new 3"))
row(CREATE_RESYNC, a, b"app.bsky.feed.post", b"new4", b"3mdzzzzzzzz2c", post("new 0"))
row(UPDATE, a, b"app.bsky.feed.post", b"new4", b"3mdzzzzzzzz2d", post("last"))
row(CREATE_RESYNC, a, b"app.bsky.feed.post", b"new5", b"3mdzzzzzzzz2d", post("first"))
row(UPDATE, a, b"app.bsky.feed.post", b"new5", b"3mdzzzzzzzz2e", post("second"))
# a #sync of account b without rows
sync(b, b"3mdzzzzzzzz2c")
EOP
$archive->do(seal => 0);
query(q{UPDATE atproto.history SET phase = 'plan' WHERE subscription = 'syncs'; SELECT atproto.resume('syncs')});
wait_for("SELECT seq >= $last + 24 FROM atproto.cursor WHERE subscription = 'syncs'");
is(query("SELECT string_agg(rkey || ' ' || (value ->> 'text'), ',' ORDER BY rkey) FROM syncs.record WHERE did = '$dids[0]'"),
	'new0 new 0,new1 changed,new2 new 2,new3 new 3,new4 last,new5 second', 'H-32: a #sync and its rows are one replacement');
is(query($unchanged), $before, '... a record that is the same keeps its row');
is(query(q{SELECT string_agg(what, ',' ORDER BY what) FROM touched WHERE what ~ 'new[0-246]'}), 'd new1,d new2,d new6,i new1,i new2,u new2,u new4', '... for which no trigger fires');
is(query("SELECT count(*) FROM syncs.record WHERE did = '$dids[1]'"), '0', '... and the records of the next account are removed');

# a child table has the same record many times
query(q{SELECT atproto.pause('syncs')});
wait_for(q{SELECT state = 'paused' FROM atproto.stat_subscription WHERE name = 'syncs'});
query("CREATE TABLE syncs.child () INHERITS (syncs.record); INSERT INTO syncs.child SELECT r.* FROM syncs.record r, generate_series(1, 300000) WHERE did = '$dids[0]' AND rkey::text = 'new0'");
$archive->do(append => more_rows($last + 24, <<'EOP'));
sync(a, b"3mdzzzzzzzz2f")
row(CREATE_RESYNC, a, b"app.bsky.feed.post", b"new0", b"3mdzzzzzzzz2f", post("new 0"))
EOP
$archive->do(seal => 0);
my $log_before = -s $node->logfile;
query(q{UPDATE atproto.history SET phase = 'plan' WHERE subscription = 'syncs'; SELECT atproto.resume('syncs')});
wait_for("SELECT seq >= $last + 26 FROM atproto.cursor WHERE subscription = 'syncs'");
is(query("SELECT string_agg(rkey::text, ',') FROM ONLY syncs.record WHERE did = '$dids[0]'"), 'new0', 'H-31: a #sync, and a child table with the same record many times');
unlike(slurp_file($node->logfile, $log_before), qr/terminated by signal/, '... ends no process');
query("SELECT atproto.unsubscribe('syncs'); DROP TABLE syncs.child");

done_testing();
