# 389_citus_accounts.pl
#		Hidden, erased and blocked accounts of tables that Citus keeps, beside a consumer: hide() and erase() reach the rows on
#		all nodes, also while shards move and nodes are added.  A worker refuses the calls, because a block there would be
#		obeyed by no consumer.  Values of the type dagcbor, too.
#
#		Needs Citus: see test/citus/build.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Changes;
use AtprotoTest::Citus;
use PostgreSQL::Test::Utils;
use Test::More;

if (my $why = AtprotoTest::Citus::missing())
{
	plan skip_all => $why;
}

my ($capture) = simulate(
	'--events' => 3000, '--accounts' => 40, '--history' => 0,
	'--mix' => 'account=6,delete=8,update=6,sync=0,like=40,post=30,profile=3');
my $last    = read_capture($capture);
my $server  = AtprotoTest::Server->start($capture, '--hold-at', 1500);
my %changes = changes_conf("wal_level = logical\nmax_worker_processes = 20\natproto.reconnect_delay = 100ms\n");
my ($node, @workers) = make_citus('accounts', conf => $changes{conf});

# What psql writes to its standard error.
sub said_by
{
	my ($where, $sql) = @_;
	return ($where->psql('postgres', $sql))[2];
}

query(q{CREATE SCHEMA packed; SELECT atproto.create_tables('packed', value => 'dagcbor')});
foreach my $target (qw(atproto packed))
{
	query("SELECT atproto.distribute('$target', 4), atproto.create_view('app.bsky.feed.post', target => '$target', view => 'post', active => true)");
	query(subscribe_sql($target, $server, cursor => 0, target => "'$target'", links => q{'all'}, events => q{'keep'}));
}
wait_for_seq($node, $_, 1499) foreach qw(atproto packed);
query("SELECT FROM pg_create_logical_replication_slot('reader', 'atproto')");
my ($hidden, $moved, $erased) = split /\n/, query(q{SELECT did FROM atproto.record GROUP BY did ORDER BY count(*) DESC, did LIMIT 3});
my $unknown = 'did:plc:aaaaaaaaaaaaaaaaaaaaaaaa';

# --- hide() ---

is(query("SELECT atproto.hide('$hidden'), atproto.hide('$hidden')"), 't|f', 'hide() changes the row on its node, and says whether something has changed');
is(query("BEGIN; SELECT atproto.hide('$moved'), atproto.hide('$unknown'), atproto.hide('$erased'), atproto.unhide('$erased'); COMMIT"), 't|t|t|t', 'several accounts in a transaction');
foreach my $target (qw(atproto packed))
{
	is(query("SELECT string_agg(did::text, ' ' ORDER BY did::text) FROM $target.repo WHERE hidden_at IS NOT NULL"), join(' ', sort $hidden, $moved, $unknown), "$target: these are hidden, and an unknown account has a row");
	foreach my $where ($node, @workers)
	{
		is(query("SELECT (SELECT count(*) FROM $target.visible_record WHERE did IN ('$hidden', '$moved')), (SELECT count(*) FROM $target.post WHERE did IN ('$hidden', '$moved'))", node => $where),
			'0|0', $where->name . ", $target: in no view");
	}
	cmp_ok(query("SELECT count(*) FROM $target.post"), '>', 10, "$target: other accounts are");
	like(said_by($node, "SELECT $_"), qr/ERROR:  repository $hidden in schema "$target" cannot be given out\n(?s:.*)DETAIL:  The account is hidden\./, "not given out: $_")
	  foreach "atproto.repo_car('$hidden', '$target')", "atproto.record_proof('$hidden', 'app.bsky.feed.post', 'x', '$target')";
	is(query("SET citus.enable_repartition_joins = on; SELECT count(*) FILTER (WHERE did IN ('$hidden', '$moved')), count(*) > 10 FROM $target.visible_link"), '0|t', "$target: in no link that is shown");
}
my @told = split /\n/, query(q{SELECT data FROM pg_logical_slot_get_changes('reader', NULL, NULL)});
is(join(' ', map { $_->{kind} } decoded(@told)), '', 'O-20: a reader of changes is told nothing, as of all rows of nodes');

# --- on a worker, and in a query that runs on workers ---

my $refused = qr/ERROR:  accounts of schema "\w+" are erased, blocked and hidden on the coordinator of Citus only\n/;
foreach my $call ("SELECT atproto.hide('$erased')", "SELECT atproto.unhide('$hidden')", "CALL atproto.erase('$erased', block => true)", "SELECT atproto.unblock('$erased')")
{
	like(said_by($workers[0], $call), $refused, "a worker refuses $call");
}
is(query('SELECT count(*) FROM atproto.blocked_account', node => $workers[0]), '0', '... and blocks nothing');
like(said_by($node, "SELECT atproto.hide(did) FROM atproto.repo WHERE did = '$erased'"), $refused, 'a query over a distributed table calls the function on a worker');
is(query("SELECT count(hidden_at) FROM atproto.repo WHERE did = '$erased'"), '0', '... and changes nothing');
my ($loop) = slurp_file(test_dir() . '/../doc/operate/citus.md') =~ /^```sql\n(DO \$\$.*?)^```/ms or BAIL_OUT('citus.md has no loop');
$loop =~ s/WHERE host = '.*?'/WHERE did IN ('$hidden', '$erased')/ or BAIL_OUT('the loop of citus.md has no condition');
query($loop);
is(query("SELECT string_agg(did::text, ' ' ORDER BY did::text) FROM atproto.repo WHERE hidden_at IS NOT NULL"), join(' ', sort $hidden, $moved, $erased, $unknown), 'the loop of the page hides the accounts');

# --- shards move, a node is away, a node is added ---

sub placement_of
{
	my ($did) = @_;
	return split /\|/, query("SELECT shardid, nodeport FROM citus_shards WHERE shardid = get_shard_id_for_distribution_column('atproto.repo', '$did')");
}

# A session has changed the account's row, and the row's shard is to move.
sub moves_beside
{
	my ($sql, $name) = @_;
	my ($shard, $from) = placement_of($moved);
	my ($to) = grep { $_ != $from } map { $_->port } @workers;
	my ($changes, $moves) = map { $node->background_psql('postgres', on_error_stop => 1) } 1 .. 2;

	$changes->query_safe("SET client_min_messages = error; BEGIN; $sql");
	$moves->query_until(qr/begins/, "\\echo begins\nSELECT citus_move_shard_placement($shard, '127.0.0.1', $from, '127.0.0.1', $to, 'block_writes');\n");
	wait_for("SELECT count(*) > 0 FROM pg_stat_activity WHERE query LIKE 'SELECT citus_move_shard%' AND wait_event_type = 'Lock'");
	$changes->query_safe('COMMIT');
	$_->quit foreach $changes, $moves;
	is((placement_of($moved))[1], $to, "$name: the shard moves afterwards");
	return;
}
moves_beside("SELECT atproto.unhide('$moved', 'atproto')", 'unhide()');
is(query("SELECT count(*), count(hidden_at) FROM atproto.repo WHERE did = '$moved'"), '1|0', '... with the changed row');
moves_beside("CALL atproto.erase('$moved', target => 'atproto')", 'erase()');
is(query("SELECT (SELECT count(*) FROM atproto.repo WHERE did = '$moved') + (SELECT count(*) FROM atproto.record WHERE did = '$moved') + (SELECT count(*) FROM atproto.link WHERE did = '$moved')"), '0', '... without the rows');

$workers[1]->stop('immediate');
like(said_by($node, "CALL atproto.erase('$erased', block => true)"), qr/ERROR:/, 'erase() while a node is away');
is(query('SELECT did, target FROM atproto.blocked_account'), "$erased|", '... an error, but the block counts');
$workers[1]->start;
query("CALL atproto.erase('$erased', block => true)");

push @workers, add_worker($node, 'accounts_w3', conf => $changes{conf});
ask_from_now_on($node);
$server->release;
my $rebalances = $node->background_psql('postgres', on_error_stop => 1);
$rebalances->query_until(qr/begins/, "\\echo begins\nSET client_min_messages = error;\nSELECT rebalance_table_shards(rebalance_strategy => 'by_shard_count', shard_transfer_mode => 'block_writes');\n");
my @others = split /\n/, query("SELECT did FROM packed.repo WHERE did NOT IN ('$hidden', '$unknown', '$erased', '$moved') ORDER BY did LIMIT 6");
foreach my $hides ('hide', 'unhide', 'hide')
{
	query("SELECT atproto.$hides('$_')") foreach @others;
}
my $blocked = pop @others;
query("CALL atproto.erase('$blocked', block => true)");
$rebalances->quit;
wait_for_seq($node, $_, $last) foreach qw(atproto packed);
is(query(q{SELECT count(DISTINCT nodeport) FROM citus_shards WHERE table_name = 'atproto.repo'::regclass}), '3', 'the new node has shards');
is(query("SELECT string_agg(did::text, ' ' ORDER BY did::text) FROM packed.repo WHERE hidden_at IS NOT NULL"), join(' ', sort $hidden, $moved, $unknown, @others), 'no hiding is lost, or made');

# --- block ---

my $of = "did IN ('$erased', '$blocked')";
foreach my $target (qw(atproto packed))
{
	is(query("SELECT (SELECT count(*) FROM $target.record WHERE $of) + (SELECT count(*) FROM $target.repo WHERE $of) + (SELECT count(*) FROM $target.link WHERE $of) + (SELECT count(*) FROM $target.record_event WHERE $of)"),
		'0', "$target: no row of a blocked account");
	cmp_ok(query("SELECT (skips ->> 'blocked')::int FROM atproto.stat_subscription WHERE name = '$target'"), '>', 0, "$target: its events are passed over");
	is(query("SELECT count(*) FROM atproto.link_problems('$target')"), '0', "$target: the links are those of the records");
	query("CALL atproto.audit_all('$target')");
	# later events have brought a part of the account back that is erased from one target without a block
	is(query("SELECT COALESCE(string_agg(did::text, ' ') FILTER (WHERE sync = 'desynchronized' AND (did <> '$moved' OR '$target' = 'packed')), 'none'), count(*) FILTER (WHERE sync = 'synchronized') > 20 FROM $target.repo"),
		'none|t', "$target: audits find the signed records");
}
is(query('SELECT count(*) FROM atproto.dead_letter'), '0', 'nothing was refused');
like(said_by($node, "SELECT atproto.hide('$blocked')"), qr/NOTICE:  the account is blocked in schema "atproto"/, 'a blocked account is not hidden');
is(query('SELECT * FROM atproto.check(deep => true)'), '', 'check() finds nothing');
query("INSERT INTO packed.repo (did) VALUES ('$blocked'); INSERT INTO packed.label (src, uri, val, neg, cts) VALUES ('$hidden', 'at://$blocked/app.bsky.feed.post/1', 'x', false, now())");
is(query("SELECT string_agg(target || ' ' || did || ' ' || object, ', ' ORDER BY object) FROM atproto.check(deep => true)"), "packed $blocked label, packed $blocked repo", '... but would find rows of a blocked account');
query("CALL atproto.erase('$blocked')");

# --- account_traces() ---

my $traces = "SELECT string_agg(object, ' ' ORDER BY object) FROM atproto.account_traces('$erased') WHERE place = '%s'";
is(query(sprintf $traces, 'node'), join(' ', map { '127.0.0.1:' . $_->port } @workers), 'account_traces() names the nodes whose files it does not look at');
unlike(query(sprintf $traces, 'dead rows'), qr/\.record/, '... whose removed rows it does not see');
like($workers[0]->safe_psql('postgres', "SET citus.show_shards_for_app_name_prefixes = '*'; " . sprintf $traces, 'dead rows'), qr/\batproto\.record_\d+/, 'a node names the shards with removed rows');
is(query(sprintf($traces, 'table') =~ s/object,/object || ':' || rows,/r), 'atproto.blocked_account:1 ' . join(' ', map { "$_.link:" . query("SELECT count(*) FROM $_.link WHERE authority = 'at://$erased'") } qw(atproto packed)),
	'and counts the rows on all nodes');

# --- the way back ---

query("SELECT atproto.$_('packed')") foreach qw(pause);
query(q{SET client_min_messages = error; SELECT alter_distributed_table('packed.repo', shard_count => 6, cascade_to_colocated => true)});
is(query("SELECT count(*) FROM packed.visible_record WHERE did = '$hidden'"), '0', 'a hidden account stays hidden when Citus makes the tables and views again');
query("SET client_min_messages = error; SELECT undistribute_table('packed.$_')") foreach qw(record repo record_event sweep_deletion link label);
is(query("SELECT (SELECT count(hidden_at) FROM packed.repo), (SELECT count(*) FROM packed.visible_record WHERE did = '$hidden')"), scalar(@others) + 3 . '|0', 'and when the tables are plain again');
like(said_by($node, "SELECT atproto.hide('$blocked', 'packed')"), qr/NOTICE:  the account is blocked/, 'a blocked account stays blocked');
is(query("SELECT * FROM atproto.check('packed', deep => true)"), '', 'check() finds nothing');

stop_citus();
done_testing();
