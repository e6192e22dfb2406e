# 213_qualified.pl
#		A message of a space, which a member with this name shows, becomes no row of the public tables (S-10,
#		S-12 to S-14): from a relay at each level, with several workers, from both versions of Jetstream, from
#		labels, by retry(), from held events and from exports.  The repository is marked, the message counted,
#		and the operator learns of each unknown name.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Jetstream;
use AtprotoTest::Lookups;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = make_node('qualified', conf => "max_worker_processes = 30\natproto.reconnect_delay = 50ms\n");

# The accounts a to g; qualify.py adds the members below.
my @steps = (
	'a 1 +x', 'b 1 +x', 'c 1 +x', 'd 1 +x', 'e 1 +x', 'f 1 +x', 'g 1 +x',
	'a 2 +no', 'b 2 +no +no2', 'c 2 +no', 'd 2 +y', 'e 2 +no', 'd deactivated', 'f sync 2', 'g 2 +y',
	'a 3 +z', 'b 3 +z', 'c 3 +z', 'd 3 +z', 'e 3 +z', 'g 3 +listed');
my $plain = make_capture('steps.py', @steps);
my $relay = make_capture('qualify.py', $plain, '8:space', '9:op.space', '10:signed.skey', '11:colour', '12:frame.space', '13:spaceType',
	'14:space', '15:space=null', '21:audience');
my $text = 'did, collection, rkey';

sub log_of
{
	my ($name) = @_;
	return query("SELECT string_agg(detail, '; ' ORDER BY detail) FROM atproto.subscription_log WHERE subscription = '$name' AND event = 'unknown name'");
}

sub rows
{
	my ($schema) = @_;
	my %letter = map { did($_) => $_ } 'a' .. 'g';
	return join ' ', map { my @c = split /\|/; "$letter{$c[0]}$c[1]" } split /\n/, query("SELECT did, rkey FROM $schema.record ORDER BY did, rkey");
}

sub states
{
	my ($schema) = @_;
	return join ' ', map { query("SELECT COALESCE(min(left(sync, 1)), '-') FROM $schema.repo WHERE did = '" . did($_) . "'") } 'a' .. 'g';
}

sub qualify_by
{
	my ($names) = @_;

	$node->append_conf('postgresql.conf', "atproto.qualifying_names = '$names'\n");
	$node->reload;
	wait_for("SELECT current_setting('atproto.qualifying_names') = '$names'");
	return;
}

# --- a relay ---

my $names = 'member "audience" of #commit: ignored; member "colour" of #commit: ignored; member "skey" of signed: such messages are not applied; '
  . 'member "space" of #commit: such messages are not applied; member "space" of #sync: such messages are not applied; '
  . 'member "space" of frame: such messages are not applied; member "space" of op: such messages are not applied; '
  . 'member "spaceType" of #account: such messages are not applied';
my $server = AtprotoTest::Server->start($relay);
foreach my $s ([ 'hash', 1, 'ax az bx bz cx cz dx dy dz ex ez fx glisted gx gy', 'd d d p d d p' ],
	[ 'hash', 3, 'ax az bx bz cx cz dx dy dz ex ez fx glisted gx gy', 'd d d p d d p' ],
	[ 'chain', 1, 'ax az bx bz cx cz dx dy dz ex ez fx glisted gx gy', 'd d d s d d s' ])
{
	my ($level, $workers, $rows, $states) = @$s;
	my $name = "$level$workers";

	query("CREATE SCHEMA $name; " . subscribe_sql($name, $server, cursor => 0, target => "'$name'", workers => $workers, verify => "'$level'", events => "'keep'"));
	wait_for_seq($node, $name, scalar @steps);
	is(rows($name), $rows, "S-10: $name: the rows are those of the public messages");
	is(query("SELECT count(*) FROM $name.record_event WHERE rkey LIKE 'no%'"), '0', "S-10: $name: no event is kept of the others");
	is(states($name), $states, "S-13: $name: the repositories are marked, but not that of an #account, or of a null");
	is(query("SELECT active FROM $name.repo WHERE did = '" . did('d') . "'"), 't', "S-10: $name: the #account has no effect");
	is(query("SELECT skips->>'unknown' FROM atproto.stat_subscription WHERE name = '$name'"), '6', "S-13: $name: they are counted");
	wait_for("SELECT count(*) = 8 FROM atproto.subscription_log WHERE subscription = '$name' AND event = 'unknown name'");
	is(log_of($name), $names, "S-14: $name: each name has its row");
	is(query("SELECT string_agg(seq::text, ',' ORDER BY seq) FROM atproto.subscription_log WHERE subscription = '$name' AND detail ~ 'colour|skey'"), '10,11', "S-14: $name: with the message in which it came first");
}
is(query('SELECT count(*) FROM atproto.dead_letter'), '0', 'there are no letters');

# A second process meets the same names.
query("SELECT atproto.set_cursor('hash1', 0)");
wait_for("SELECT events = 42 FROM atproto.cursor WHERE subscription = 'hash1'");
wait_for("SELECT count(*) > 1 FROM atproto.subscription_log WHERE subscription = 'hash1' AND event = 'started'");
is(log_of('hash1'), $names, 'S-14: a second process adds no row for the same names');
is(rows('hash1'), 'ax az bx bz cx cz dx dy dz ex ez fx glisted gx gy', 'nor rows to the tables');

# --- the setting ---

my ($rc, $out, $err) = $node->psql('postgres', "ALTER SYSTEM SET atproto.qualifying_names = 'a b'");
like($err, qr/A name has 1 to 128 printable ASCII characters/, 'S-12: what is no name is refused');
qualify_by('nothing, #commit.audience, op.colour, #identity');
query("CREATE SCHEMA listed; " . subscribe_sql('listed', $server, cursor => 0, target => "'listed'"));
wait_for_seq($node, 'listed', scalar @steps);
is(rows('listed'), 'ax az bx bz cx cz dx dy dz ex ez fx gx gy', 'S-12: a name in atproto.qualifying_names qualifies, of the object with which it is listed');
is(states('listed'), 'd d d s d d d', 'S-12: and marks');
qualify_by('-#commit.space, -op.skey');
query("CREATE SCHEMA excepted; " . subscribe_sql('excepted', $server, cursor => 0, target => "'excepted'"));
wait_for_seq($node, 'excepted', scalar @steps);
is(rows('excepted'), 'ano ax az bx bz cx cz dx dy dz ex ez fx glisted gx gy', 'S-12: a name with a minus does not qualify, of the object with which it is listed');
qualify_by('#identity');
my $identity = AtprotoTest::Server->start(make_capture('steps.py', 'a 1 +x', 'a is x.test'));
query("CREATE SCHEMA kinds; " . subscribe_sql('kinds', $identity, cursor => 0, target => "'kinds'"));
wait_for_seq($node, 'kinds', 2);
is(query("SELECT handle IS NULL, (SELECT skips->>'unknown' FROM atproto.stat_subscription WHERE name = 'kinds') FROM kinds.repo"), 't|1', 'S-12: so does a kind of messages');

# --- retry() ---

my $letters = AtprotoTest::Server->start(make_capture('qualify.py', make_capture('steps.py', 'a 1 +x', 'a 2 !bad +good'), '2:audience2'));
query("CREATE SCHEMA letters; " . subscribe_sql('letters', $letters, cursor => 0, target => "'letters'"));
wait_for_seq($node, 'letters', 2);
is(query("SELECT count(*) FROM atproto.dead_letter"), '1', 'an invalid record is a letter');
qualify_by('audience2');
query('SELECT atproto.retry(id) FROM atproto.dead_letter');
is(query('SELECT attempts, message LIKE $$%not of the account%$$ FROM atproto.dead_letter'), '2|t', 'S-10: retry() applies nothing, and the letter stays');
query('DELETE FROM atproto.dead_letter');

# --- unknown kinds, and many names ---

my @many = map { "1:n$_=1" } 1 .. 40;
my $many = AtprotoTest::Server->start(make_capture('qualify.py', make_capture('steps.py', 'a 1 +x', 'a 2 +y', 'a 3 +no', 'a 4 +no2', 'a 5 +z'),
		@many, '2:kind.#space', '3:space', '4:space', '4:seq=null'));
query("CREATE SCHEMA many; " . subscribe_sql('many', $many, cursor => 0, target => "'many'"));
wait_for_seq($node, 'many', 5);
wait_for("SELECT count(*) = 19 FROM atproto.subscription_log WHERE subscription = 'many' AND event = 'unknown name'");
is(query("SELECT count(*) FILTER (WHERE detail ~ 'member \"n\\d+\" of #commit: ignored'), bool_or(detail = 'further unknown members of #commit are not listed'),
	bool_or(detail = 'kind \"#space\": such messages are not applied') FROM atproto.subscription_log WHERE subscription = 'many' AND event = 'unknown name'"),
	'16|t|t', 'S-14: of the names of strangers a bounded number is remembered; a kind is a name, too');
is(rows('many'), 'ax az', 'S-10: a message of an unknown kind becomes no row');
is(query("SELECT drops, skips->>'unknown', (SELECT count(*) FROM atproto.dead_letter) FROM atproto.stat_subscription WHERE name = 'many'"), '{}|3|0',
	'S-10: such a message without a sequence number does not end the connection');
query("INSERT INTO atproto.subscription_event (subscription, number, at, last_at, times, event, detail) SELECT 'many', 1000 + n, now(), now(), 1, 'unknown name', n::text"
	  . " FROM generate_series(1, 200) n; DELETE FROM atproto.subscription_event WHERE subscription = 'many' AND detail ~ '\"(n1|space)\"'; SELECT atproto.set_cursor('many', 0)");
wait_for("SELECT count(*) = 1 FROM atproto.subscription_log WHERE subscription = 'many' AND detail = 'member \"space\" of #commit: such messages are not applied'");
is(query("SELECT count(*) FROM atproto.subscription_log WHERE subscription = 'many' AND detail LIKE '%\"n1\"%'"), '0', 'S-14: a log full of names has room for those that qualify');

# xrpc.v1.cbor: a type with the NSID of another Lexicon, where #commit has another meaning.
query('CREATE SCHEMA other; '
	  . subscribe_sql('other', AtprotoTest::Server->start(make_capture('v1.py', 'com.example.space.subscribe', $plain)), cursor => 0, target => "'other'"));
wait_for_seq($node, 'other', scalar @steps);
is(rows('other'), '', 'S-10: a message of another Lexicon becomes no row');
wait_for("SELECT count(*) = 3 FROM atproto.subscription_log WHERE subscription = 'other' AND event = 'unknown name'");
like(log_of('other'), qr/^kind "com\.example\.space\.subscribe#account": such/, 'S-14: its kind is named');

# An #info with the member space tells of missed events.
my $outdated = write_capture(PostgreSQL::Test::Utils::tempdir('info') . '/info', "\xa2\x61t\x65#info\x62op\x01\xa2\x64name\x6eOutdatedCursor\x65space\x61x");
my $late = write_capture(PostgreSQL::Test::Utils::tempdir('late') . '/late', (read_capture($plain))[ 9 .. $#steps ]);
query('CREATE SCHEMA outdated; ' . subscribe_sql('outdated', AtprotoTest::Server->start($late, '--inject', "$outdated\@0"), cursor => 3, target => "'outdated'"));
wait_for_seq($node, 'outdated', scalar @steps);
is(query("SELECT after_seq, before_seq FROM atproto.gap WHERE subscription = 'outdated'"), '3|10', 'S-10: a gap is noted all the same');

# --- labels ---

my $labels = capture('labels.frames.gz');
my @all = read_capture($labels);
my $qualified = AtprotoTest::Server->start(make_capture('qualify.py', $labels, '1:space', '2:label.space', '3:label.colour'));
query("CREATE SCHEMA lp; CREATE SCHEMA lq; "
	  . subscribe_sql('lp', AtprotoTest::Server->start($labels), nsid => 'com.atproto.label.subscribeLabels', cursor => 0, target => "'lp'") . ';'
	  . subscribe_sql('lq', $qualified, nsid => 'com.atproto.label.subscribeLabels', cursor => 0, target => "'lq'"));
wait_for("SELECT count(*) = 2 AND bool_and(events >= @{[ scalar @all ]}) FROM atproto.cursor WHERE subscription IN ('lp', 'lq')");
my $of_first = query("SELECT jsonb_array_length(payload->'labels') FROM atproto.frame('\\x" . unpack('H*', $all[0]) . "')");
is(query("SELECT skips->>'unknown' FROM atproto.stat_subscription WHERE name = 'lq'"), '2', 'S-10: a message of labels, and a label, are passed over');
is(query("SELECT record_ops FROM atproto.cursor WHERE subscription = 'lp'") - query("SELECT record_ops FROM atproto.cursor WHERE subscription = 'lq'"),
	$of_first + 1, 'S-10: but not the labels beside them');

# A constraint refuses a label; then the setting names the label's member.
my $refused = AtprotoTest::Server->start(make_capture('qualify.py', $labels, '1:label.audience3'));
query('CREATE SCHEMA ll; BEGIN; ' . subscribe_sql('ll', $refused, nsid => 'com.atproto.label.subscribeLabels', cursor => 0, target => "'ll'")
	  . '; ALTER TABLE ll.label ADD CONSTRAINT no CHECK (seq > 1); COMMIT');
wait_for("SELECT events >= @{[ scalar @all ]} FROM atproto.cursor WHERE subscription = 'll'");
query('ALTER TABLE ll.label DROP CONSTRAINT no');
qualify_by('audience3');
query("SELECT atproto.retry(id) FROM atproto.dead_letter WHERE path = 'labels/0'");
is(query("SELECT attempts, message LIKE '%not of the account%', (SELECT count(*) FROM ll.label WHERE seq = 1) FROM atproto.dead_letter WHERE path = 'labels/0'"),
	'2|t|0', 'S-10: retry() leaves the letter of a label');
query('DELETE FROM atproto.dead_letter');

# --- Jetstream ---

foreach my $version (qw(v1 v2))
{
	my $texts = texts($version, make_capture('steps.py', 'a 1 +x', 'b 1 +x', 'a 2 +no', 'b 2 +no', 'a 3 +z', 'b 3 +z', 'a deactivated', 'b deactivated'));
	my $changed = make_capture('qualify.py', $texts, '3:space', '5:colour', '7:op.space', $version eq 'v1' ? '4:op.space' : '4:frame.space');

	query("CREATE SCHEMA $version; " . subscribe_sql($version, AtprotoTest::Server->start($changed), cursor => 0, target => "'$version'"));
	wait_for("SELECT sum(events) = 8 FROM atproto.cursor WHERE subscription = '$version'");
	is(rows($version), 'ax az bx bz', "S-10: $version: the rows are those of the public messages");
	is(query("SELECT string_agg(left(sync, 1) || active, ' ' ORDER BY did) FROM $version.repo"), 'dtrue dfalse', "S-13: $version: the repositories are marked, and a wrapped event has no effect");
	is(query("SELECT skips->>'unknown' FROM atproto.stat_subscription WHERE name = '$version'"), '3', "S-13: $version: they are counted");
}

# A Jetstream sends a message again after an export of the message's revision.
my $python = $ENV{PYTHON} || '/usr/bin/python3';

sub export_of
{
	my ($who, $rev, $rkey) = @_;
	my ($hex) = run_command([ $python, '-B', '-c', <<"EOF" ]);
import sys; sys.path.insert(0, '@{[ test_dir() ]}/oracle')
import exports, synth
print(exports.make('@{[ did($who) ]}', synth.tid($rev), {'app.bsky.feed.post/$rkey': synth.post('x')}).hex())
EOF
	return $hex;
}

my $again = AtprotoTest::Server->start(make_capture('qualify.py', texts('v1', make_capture('steps.py', 'a 1 +x', 'a 2 +no', 'b 1 +x', 'b 2 +y +no')), '2:space', '5:space'));
query('CREATE SCHEMA again; ' . subscribe_sql('again', $again, cursor => 0, target => "'again'"));
wait_for("SELECT sum(events) = 5 FROM atproto.cursor WHERE subscription = 'again'");
query("SELECT atproto.load_car('" . did('a') . "', '\\x" . export_of('a', 2, 'x') . "', target => 'again'); SELECT atproto.set_cursor('again', 0)");
wait_for("SELECT sum(events) = 10 FROM atproto.cursor WHERE subscription = 'again'");
is(states('again'), 's d - - - - -', 'S-13: v1: an event of a fetched revision marks nothing, but one of a revision that has come in part');

# The setting names the member before the refill: the message may have deleted a record of the refill.
my $refill = AtprotoTest::Server->start(make_capture('qualify.py', texts('v1', make_capture('steps.py', 'a 1 +x', 'a 2 -x', 'a 3 +y')), '2:audience2'));
my $last = AtprotoTest::Server->start(make_capture('qualify.py', make_capture('steps.py', 'b 1 +x', 'b 2 -x'), '2:audience2'));
query(join('; ', map { "CREATE SCHEMA refill$_; " . subscribe_sql("refill$_", $_ eq 'b' ? $last : $refill, cursor => 0, target => "'refill$_'", actions => "'{update}'") } qw(a b)));
wait_for("SELECT sum(events) = 5 FROM atproto.cursor WHERE subscription LIKE 'refill_'");
qualify_by('audience2');
query("UPDATE atproto.subscription SET actions = DEFAULT WHERE name LIKE 'refill_'; SELECT atproto.refill(name) FROM atproto.subscription WHERE name LIKE 'refill_'");
wait_for("SELECT sum(events) = 10 FROM atproto.cursor WHERE subscription LIKE 'refill_'");
is(rows('refilla') . ' ' . states('refilla'), 'ay d - - - - - -', 'S-13: v1: a refill removes what it has written before, and marks');
is(rows('refillb') . ' ' . states('refillb'), ' - d - - - - -', 'S-13: so does the refill from a relay, at the last commit');

# --- level full: only the account's signature can mark ---

my %who = accounts_of('full.py', 'again');
know(@{ $who{same} }{qw(did first)});
my $full = AtprotoTest::Server->start(make_capture('qualify.py', make_capture('full.py', 'again'), '1:space', '2:space', '5:late'), '--hold-at', 6);
query("CREATE SCHEMA fully; " . subscribe_sql('fully', $full, cursor => 0, target => "'fully'", verify => "'full'"));
wait_for_seq($node, 'fully', 5);
is(query("SELECT string_agg(sync, ',') FROM fully.repo WHERE did = '$who{same}{did}'"), 'desynchronized', 'S-13: full: a signed commit marks');
is(query("SELECT string_agg(seq::text, ',' ORDER BY seq) FROM atproto.held_event"), '4,5', 'S-10: full: a commit that may be signed or not neither waits nor marks');
is(query("SELECT string_agg(did || rkey::text, ',') FROM fully.record"), "$who{same}{did}20", 'S-10: full: neither becomes a row');

# A held event is judged by the setting at its release.  The key is known before the restart: a consumer that begins may judge held events.
know(@{ $who{late} }{qw(did first)});
$node->append_conf('postgresql.conf', "atproto.qualifying_names = 'late'\n");
$node->restart;
looked_up(', resolved_at = now()', "did = '$who{late}{did}'");
wait_for("SELECT count(*) = 0 FROM atproto.held_event WHERE seq = 5");
is(query("SELECT (SELECT count(*) FROM fully.record WHERE did = '$who{late}{did}'), (SELECT sync FROM fully.repo WHERE did = '$who{late}{did}')"), '0|desynchronized',
	'S-10: full: released, it becomes no row, and marks');

# A signed commit marks its repository during a fetch, too.
query("SELECT atproto.unsubscribe('fully'); DELETE FROM atproto.identity_request");
my $waits = AtprotoTest::Server->start(make_capture('qualify.py', make_capture('full.py', 'again'), '3:space'), '--hold-at', 3);
query('CREATE SCHEMA waits; ' . subscribe_sql('waits', $waits, cursor => 0, target => "'waits'", verify => "'full'"));
wait_for_seq($node, 'waits', 2);
query("UPDATE waits.repo SET hold = 'resync', sync = 'resyncing' WHERE did = '$who{same}{did}'");
$waits->release;
wait_for_seq($node, 'waits', 3);
is(query("SELECT sync FROM waits.repo WHERE did = '$who{same}{did}'"), 'desynchronized', 'S-13: full: a signed commit marks while its repository is fetched');

# The account's fourth message is signed by a key that the directory does not name.
query("SELECT atproto.unsubscribe('waits'); DELETE FROM atproto.identity_request");
know(@{ $who{$_} }{qw(did first)}) foreach qw(same turned);
query('CREATE SCHEMA forged; ' . subscribe_sql('forged', AtprotoTest::Server->start(make_capture('qualify.py', make_capture('full.py', 'again'), '4:space'), '--hold-at', 5),
	cursor => 0, target => "'forged'", verify => "'full'"));
wait_for_seq($node, 'forged', 4);
is(query("SELECT sync FROM forged.repo WHERE did = '$who{turned}{did}'"), 'synchronized', 'S-13: full: a forged commit marks nothing');
is(query("SELECT count(*) FROM atproto.identity_request WHERE did = '$who{turned}{did}'"), '0', 'and has nobody looked up');

# --- exports ---

query("SELECT atproto.load_car('" . did('g') . "', '\\x" . export_of('g', 9, 'car') . "', target => 'hash1')");
is(query("SELECT count(*) FROM hash1.record WHERE rkey = 'car'"), '1', 'an export comes in');
my ($car) = run_command([ $python, '-B', '-c', <<"EOF" ]);
import sys; sys.path.insert(0, '@{[ test_dir() ]}/oracle')
import exports, synth, wire
(root,), blocks = wire.car(exports.make('@{[ did('g') ]}', synth.tid(10), {'app.bsky.feed.post/no': synth.post('x')}))
block = synth.encode({**wire.decode(blocks.pop(root)), 'space': 'x'})
print(synth.car(synth.cid(block), [(synth.cid(block), block), *blocks.items()]).hex())
EOF
($rc, $out, $err) = $node->psql('postgres', "SELECT atproto.load_car('" . did('g') . "', '\\x$car', target => 'hash1')");
like($err, qr/not of the account's public repository/, 'S-10: an export whose commit has such a member is refused');
is(query("SELECT count(*) FROM hash1.record WHERE rkey = 'no'"), '0', 'S-10: and has no effect');

$node->stop;
done_testing();
