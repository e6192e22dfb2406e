# 473_search.pl
#		The programs examples/search.py and search.mjs apply each change once, in the order of the commits, while readers and
#		server are killed: what triggers in the programs' own stores have written down is compared with the slot's
#		messages, change by change (O-23).  When changes are lost for a program, the program begins anew: its slot was read by somebody else, or is gone.
#
#		ATPROTO_KILLS=500 kills so often (CI: 4): the program, the server, the program, the slot's walsender; at random
#		moments while events come slowly.  ATPROTO_SEED draws the places.  Without npm's packages, search.mjs is left out.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Changes;
use AtprotoTest::Clients qw(works npm_directory $NO_NPM);
use File::Copy qw(copy);
use JSON::PP;
use List::Util qw(max min);
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $python   = $ENV{PYTHON} || '/usr/bin/python3';
my $examples = test_dir() . '/../examples';
my $files    = PostgreSQL::Test::Utils::tempdir('search');
my $kills    = $ENV{ATPROTO_KILLS} // 4;
my $places   = min($kills, 60);       # the stream server stops at 64 places at most
my $rounds   = $places + 2;
my $events   = max(1500, 60 * $rounds);
my $index    = 'SELECT uri, cid FROM post ORDER BY uri';
my $posts    = q{SELECT aturi(did, collection, rkey)::text COLLATE "C" AS uri, cid FROM atproto.record WHERE collection = 'app.bsky.feed.post' ORDER BY uri};
my $fewer    = q{DELETE FROM atproto.record WHERE collection = 'app.bsky.feed.post' AND did = (SELECT min(did) FROM atproto.record WHERE collection = 'app.bsky.feed.post')};
my @options  = (targets => 'atproto', collections => 'app.bsky.feed.post', kinds => 'commit', positions => 'changes');

works($python, '-c', 'import psycopg') or plan skip_all => 'python3-psycopg is not installed';
seed();

my ($capture) = simulate('--social', '--events', $events, '--accounts', 20, '--mix', 'post=60,profile=10,delete=30,account=1,identity=0,sync=0');
my $node = make_node('main', changes_conf("atproto.batch_delay = 5ms\nmax_replication_slots = 10\n"));

# The store, as a user sees it with SQL: rows with | between columns.
sub sqlite
{
	my ($store, $sql) = @_;
	my ($out, $err) = run_command([ $python, '-c', <<'END', $store, $sql ]);
import sqlite3, sys
store = sqlite3.connect(sys.argv[1], timeout=60, isolation_level=None)
for sql in sys.argv[2].split(";;"):
    for row in store.execute(sql):
        print(*row, sep="|")
END
	return $err ne '' ? "error: $err" : $out;
}

# The applied changes in the words of the log: create|URI|CID.
sub told
{
	my ($slot, $from) = @_;
	my @changes = grep { $_->{kind} eq 'commit' && lsn($_->{lsn}) > $from } decoded(peek($slot, @options));

	return map { join '|', ($_->{commit}{operation}, "at://$_->{did}/$_->{commit}{collection}/$_->{commit}{rkey}", $_->{commit}{cid} // '') } @changes;
}

sub lsn
{
	my ($high, $low) = map { hex } split m{/}, $_[0];
	return ($high << 32) + $low;
}

sub follows
{
	my ($name, @command) = @_;
	my $store  = "$files/$name.db";
	my $server = AtprotoTest::Server->start($capture, ($kills > $places ? ('--rate', 30) : ()), map { ('--hold-at', int($events * ($_ + 1) / ($rounds + 1))) } 0 .. $rounds - 1);
	my $run;
	# the program ends with the test, however that ends
	my $start = sub { $run = IPC::Run::start([ 'setpriv', '--pdeathsig', 'KILL', @command, $store ], '>>', "$PostgreSQL::Test::Utils::log_path/$name.log", '2>>', "$PostgreSQL::Test::Utils::log_path/$name.log") };
	my $kill = sub { $run->signal('KILL'); eval { $run->finish } };
	my $unread = sub { wait_until(sub { query(q{SELECT active FROM pg_replication_slots WHERE slot_name = 'search'}) eq 'f' }, 'the slot without a process') };
	my $position = sub { my $at = sqlite($store, 'SELECT lsn FROM position'); return $at =~ m{^[0-9a-f]+/}i ? lsn($at) : $at =~ /^\d+$/ ? $at : 0 };
	local $ENV{DATABASE_URL} = 'postgresql:///postgres?host=' . $node->host . '&port=' . $node->port . '&user=' . (getpwuid $<)[0];

	query("SELECT atproto.create_tables('atproto')");
	query(subscribe_sql('s', $server, cursor => 0));
	wait_for_seq($node, 's', int($events / ($rounds + 1)) - 1);
	make_slot('audit');
	$start->();
	wait_until(sub { $position->() > 0 }, "$name copies the table");
	my $from = $position->();
	is(sqlite($store, $index), query($posts), "$name: the copy");
	is(sqlite($store, 'CREATE TABLE log (n INTEGER PRIMARY KEY, line)' . join '', map { my ($event, $row) = @$_;
		qq{;;CREATE TRIGGER log_$event AFTER $event ON post BEGIN INSERT INTO log (line) VALUES ('$row->[0]|' || $row->[1].uri || '|' || $row->[2]); END} }
		[ insert => [ 'create', 'new', 'new.cid' ] ], [ update => [ 'update', 'new', 'new.cid' ] ], [ delete => [ 'delete', 'old', q{''} ] ]), '', "$name: a log");

	my $n = 0;
	foreach my $round (1 .. $rounds)
	{
		my $was = $position->();
		$server->release;
		next if $round > $places;
		wait_until(sub { $position->() > $was }, "$name goes on") if $round % 4 == 2 || rand() < 0.7;
		foreach (1 .. int($kills * $round / $places) - int($kills * ($round - 1) / $places))
		{
			usleep(int rand 600_000) if $kills > $places;
			if (++$n % 4 == 2)
			{
				$node->stop('immediate');
				$node->start;
			}
			elsif ($n % 4 == 0)
			{
				query(q{SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = 'search' AND active});
			}
			else
			{
				$kill->();
				$start->();
			}
		}
	}
	wait_for_seq($node, 's', $events);
	my @told = told('audit', $from);
	my $last = max(map { lsn($_->{lsn}) } decoded(peek('audit', @options)));
	wait_until(sub { $position->() >= $last }, "$name comes to the end");
	my @applied = split /\n/, sqlite($store, 'SELECT line FROM log ORDER BY n');
	cmp_ok(scalar(@told), '>', 300, "$name: there are changes");
	is(join("\n", @applied), join("\n", @told), "$name: each change once, in the order of the commits");
	is(sqlite($store, $index), query($posts), "$name: the index is the table");
	is(sqlite($store, 'SELECT count(*) FROM word'), sqlite($store, 'SELECT count(*) FROM post'), "$name: with a text for each post");

	my $log = sub { slurp_file("$PostgreSQL::Test::Utils::log_path/$name.log") };
	my $follow = sub {
		my ($what, $sql) = @_;
		my $failures = () = $log->() =~ /connect again/g;
		$node->safe_psql('postgres', $sql) if $sql;
		wait_until(sub { my $now = () = $log->() =~ /connect again/g; $now > $failures + 4 || sqlite($store, $index) eq query($posts) }, "$name: $what");
		return is(sqlite($store, $index), query($posts), "$name: $what");
	};
	my $new = sub { qq{INSERT INTO atproto.record (did, collection, rkey, cid, rev, value) SELECT r.did, r.collection, $_[0], r.cid, r.rev, $_[1]
		FROM (SELECT * FROM atproto.record WHERE collection = 'app.bsky.feed.post' ORDER BY did, rkey LIMIT 1) r} };

	# an account writes posts whose text is none, of which one is in a copy, and one comes after it
	my $odd = sub { $new->("'$_[0]' || i", 'v::jsonb') . q{, unnest(ARRAY['{"text": {}}', '{"text": true}', '{"text": 1e400}', '{"text": null}', '[]', '"x"']) WITH ORDINALITY o (v, i)} };
	my $silent = q{SELECT count(*) FROM word JOIN post ON post.id = word.rowid WHERE uri LIKE '%/odd%' AND text IS NULL};
	$follow->('texts that are none', $odd->('odd'));
	is(sqlite($store, $silent), '6', "$name: are no words");
	# WAL does not have a large value that a change of the key leaves alone
	$follow->('a large value', $new->(q{'large'}, q{jsonb_build_object('text', (SELECT string_agg(md5(i::text), '') FROM generate_series(1, 400) i))}));
	$follow->('the large value under another key', q{UPDATE atproto.record SET rkey = 'moved' WHERE rkey = 'large'});
	is(sqlite($store, q{SELECT length(text) FROM word JOIN post ON post.id = word.rowid WHERE uri LIKE '%/moved'}), '12800', "$name: has its text");
	is(sqlite($store, $silent), '6', "$name: texts of a copy that are none are no words");

	# a transaction with a post, and then much of which nothing is told: the server ends the connection of a program that does not answer
	my $again = sub {
		my ($timeout) = @_;
		$kill->();
		$unread->();
		local $ENV{DATABASE_URL} = "$ENV{DATABASE_URL}&options=-cwal_sender_timeout%3D$timeout%20-clogical_decoding_work_mem%3D64kB";
		$start->();
	};
	$again->('400ms');
	wait_until(sub { query(q{SELECT active FROM pg_replication_slots WHERE slot_name = 'search'}) eq 't' }, "$name runs again");
	$follow->('a long transaction', 'BEGIN; ' . $new->(q{'first'}, q{'{}'}) . '; CREATE TABLE other AS SELECT generate_series(1, 400000) i; DROP TABLE other; ' . $new->(q{'last'}, q{'{}'}) . '; COMMIT');
	# without a timeout, the server asks for no answer
	$again->('0');
	wait_until(sub { query(q{SELECT active FROM pg_replication_slots WHERE slot_name = 'search'}) eq 't' }, "$name runs again");
	my $before = query('SELECT pg_current_wal_lsn()');
	query(q{SELECT pg_logical_emit_message(false, 'x', repeat(md5(i::text), 200000)) FROM generate_series(1, 3) i});
	wait_until(sub { query("SELECT confirmed_flush_lsn > '$before' FROM pg_replication_slots WHERE slot_name = 'search'") eq 't' }, "$name: the slot moves without posts");

	# a stranger reads the slot: changes are lost for the program, which finds out, and begins anew
	$kill->();
	query($fewer);
	$unread->();
	changes('search');
	$start->();
	wait_until(sub { sqlite($store, $index) eq query($posts) }, "$name: the index after a stranger has read the slot");
	$kill->();
	$unread->();
	query(q{SELECT pg_drop_replication_slot('search')});
	query($fewer);
	$start->();
	wait_until(sub { sqlite($store, $index) eq query($posts) }, "$name: the index after the slot was dropped");
	like(slurp_file("$PostgreSQL::Test::Utils::log_path/$name.log"), qr/somebody else has read the slot.*the slot is gone/s, "$name: says why it begins anew");
	# whatever ends the program then, the position is not beyond a change that was not applied
	query('TRUNCATE atproto.record');
	wait_until(sub { slurp_file("$PostgreSQL::Test::Utils::log_path/$name.log") =~ /begin anew: truncate/ }, "$name is told of a TRUNCATE");
	$kill->();
	$start->();
	wait_until(sub { sqlite($store, $index) eq '' }, "$name: the index of a table that was emptied");
	$kill->();
	$unread->();
	query(q{SELECT pg_drop_replication_slot('search'), pg_drop_replication_slot('audit')});
	query(q{SELECT atproto.unsubscribe('s')});
	query(q{TRUNCATE atproto.record, atproto.repo});
	return;
}

follows('search.py', $python, "$examples/search.py");
SKIP:
{
	my $dir = npm_directory();
	if (!$dir)
	{
		diag('LEFT OUT: search.mjs is not run: ' . $NO_NPM);
		skip($NO_NPM, 1);
	}
	copy("$examples/search.mjs", "$dir/search.mjs") or BAIL_OUT("cannot copy search.mjs: $!");
	follows('search.mjs', 'node', "$dir/search.mjs");
}
$node->stop;
done_testing();
