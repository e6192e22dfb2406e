# 474_search_promoted.pl
#		examples/search.py and a standby that is promoted without having all that the index has: the program finds this out by
#		the timeline, although a slot of its name is there, and begins anew.  (test/models/changes.pml, guard timeline.)
#		When the index is not ahead, and a slot is there, the program goes on.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Changes;
use AtprotoTest::Clients qw(works);
use PostgreSQL::Test::Utils;
use Test::More;

my $python = $ENV{PYTHON} || '/usr/bin/python3';
my $store  = PostgreSQL::Test::Utils::tempdir('promoted') . '/posts.db';
my $log    = "$PostgreSQL::Test::Utils::log_path/promoted.log";
my $posts  = q{SELECT aturi(did, collection, rkey)::text COLLATE "C" AS uri, cid FROM atproto.record WHERE collection = 'app.bsky.feed.post' ORDER BY uri};
my $row    = q{INSERT INTO atproto.record (did, collection, rkey, cid, rev, value) VALUES ('did:plc:z72i7hdynmk6r22z27h6tvur', 'app.bsky.feed.post', '%1$s',
	'bafyreigh2akiscaildcqabsyg3dfr6chu3fgpregiymsck7e7aqa4s52zy', '3jwdwj2ctlk26', '{"text": "%1$s"}')};

works($python, '-c', 'import psycopg') or plan skip_all => 'python3-psycopg is not installed';

sub sqlite
{
	my ($sql) = @_;
	my ($out, $err) = run_command([ $python, '-c', 'import sqlite3, sys; [print(*row, sep="|") for row in sqlite3.connect(sys.argv[1], timeout=60).execute(sys.argv[2])]', $store, $sql ]);
	return $err ne '' ? "error: $err" : $out;
}

my $primary = make_node('primary', changes_conf());
$primary->safe_psql('postgres', q{INSERT INTO atproto.repo (did) VALUES ('did:plc:z72i7hdynmk6r22z27h6tvur')});
$primary->backup('base');
my @standby = map {
	my $node = PostgreSQL::Test::Cluster->new($_);
	$node->init_from_backup($primary, 'base', has_streaming => 1);
	$node->start;
	$node;
} 'behind', 'level';
# Runs the program against a server until the index is the table there.
sub follows
{
	my ($node, $name) = @_;
	my $run;

	local $ENV{DATABASE_URL} = 'postgresql:///postgres?host=' . $node->host . '&port=' . $node->port . '&user=' . (getpwuid $<)[0];
	$run = IPC::Run::start([ 'setpriv', '--pdeathsig', 'KILL', $python, test_dir() . '/../examples/search.py', $store ], '>>', $log, '2>>', $log);
	wait_until(sub { sqlite('SELECT uri, cid FROM post ORDER BY uri') eq $node->safe_psql('postgres', $posts) }, $name);
	$run->signal('KILL');
	eval { $run->finish };
	return sqlite('SELECT count(*) FROM post');
}

$primary->safe_psql('postgres', sprintf $row, 'first');
is(follows($primary, 'the first post'), 1, 'the index has what the primary has');
$primary->wait_for_catchup($_, 'replay', $primary->lsn('insert')) foreach @standby;
$standby[0]->stop;
$primary->safe_psql('postgres', sprintf $row, 'second');
is(follows($primary, 'the second post'), 2, 'and goes on');
run_command([ 'cp', $store, "$store.kept" ]);
$primary->wait_for_catchup($standby[1], 'replay', $primary->lsn('insert'));
$primary->stop('immediate');

# A standby has the slot as it was on the primary's disk: so it is synchronized from PostgreSQL 17 on.
sub promote
{
	my ($node) = @_;

	$node->stop;
	run_command([ 'cp', '-r', $primary->data_dir . '/pg_replslot/search', $node->data_dir . '/pg_replslot/' ]);
	$node->start;
	$node->promote;
	return;
}

# --- a standby that has everything ---

promote($standby[1]);
$standby[1]->safe_psql('postgres', sprintf $row, 'third');
is(follows($standby[1], 'the third post'), 3, 'a standby that has everything');
is(slurp_file($log), '', 'the program has gone on where it was');

# --- a standby that is behind ---

run_command([ 'cp', "$store.kept", $store ]);
$standby[0]->start;
promote($standby[0]);
$standby[0]->safe_psql('postgres', sprintf $row, 'other');
is(follows($standby[0], 'another second post'), 2, 'a standby that lacks what the index has');
like(slurp_file($log), qr/begin anew: the server does not have what the index has/, 'the program says why it begins anew');

$_->stop foreach @standby;
done_testing();
