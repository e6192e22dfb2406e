# 279_hide.pl
#		hide(): an account is in no view and no export, whatever status the network sends, while the rows follow the events
#		of the account; unhide() shows the present state of the account.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Changes;
use PostgreSQL::Test::Utils;
use Test::More;

my ($capture) = simulate(
	'--events' => 3000, '--accounts' => 40, '--history' => 0,
	'--mix' => 'account=6,delete=8,update=6,sync=0,like=40,post=30,profile=3');
my $last   = read_capture($capture);
my $server = AtprotoTest::Server->start($capture, '--hold-at', 1500);
my $node   = make_node('hide', changes_conf("max_worker_processes = 20\natproto.reconnect_delay = 100ms\n"));

# Targets of one stream: plain hides no account; hides, workers (three processes) and filtered (likes alone) hide two accounts.
my %options = (plain => {}, hides => {}, workers => { workers => 3 }, filtered => { collections => q{'{app.bsky.feed.like}'} });
foreach my $s (sort keys %options)
{
	query("CREATE SCHEMA $s; SELECT atproto.create_tables('$s')");
	query("SELECT atproto.create_view('app.bsky.feed.post', target => '$s', view => 'post', active => true)") if $s eq 'hides';
}
query(subscribe_sql('plain', $server, cursor => 0, target => q{'plain'}, links => q{'all'}));
wait_for_seq($node, 'plain', 1499);
# accounts with a later status, with later records, and with records now

my ($popular) = query(q{SELECT did FROM plain.record GROUP BY did ORDER BY count(*) DESC, did LIMIT 1});
my ($early)   = query(q{SELECT did FROM plain.record GROUP BY did ORDER BY count(*) DESC, did LIMIT 1 OFFSET 1});
query("SELECT pg_create_logical_replication_slot('reader', 'atproto')");

foreach my $s (qw(hides workers filtered))
{
	is(query("SELECT atproto.hide('$early', '$s')"), 't', "$s: hidden before there is a row");
	query(subscribe_sql($s, $server, cursor => 0, target => "'$s'", links => q{'all'}, %{ $options{$s} }));
}
wait_for_seq($node, $_, 1499) foreach qw(hides workers filtered);
my $commit = query("SELECT rev FROM hides.repo WHERE did = '$popular'");
is(query("SELECT atproto.hide('$popular', 'hides'), atproto.hide('$popular', 'hides')"), 't|f', 'hide() says whether something has changed');
is(query("SELECT atproto.hide('$popular', '$_')"), 't', "$_: also with several processes, and with a filter") foreach qw(workers filtered);

sub is_out
{
	my ($s, $when) = @_;
	my $of = "did IN ('$popular', '$early')";

	is(query("SELECT (SELECT count(*) FROM $s.visible_record WHERE $of), (SELECT count(*) FROM $s.visible_link WHERE $of), (SELECT count(hidden_at) FROM $s.repo WHERE $of)"),
		'0|0|2', "$s, $when: in no view");
	cmp_ok(query("SELECT count(DISTINCT did) FROM $s.record WHERE $of"), '>', 0, "$s, $when: but in the table");
	return;
}
is_out($_, 'at once') foreach qw(hides workers filtered);
is(query("SELECT count(*) FROM hides.post WHERE did IN ('$popular', '$early')"), '0', 'nor in a view of a collection');
cmp_ok(query('SELECT count(DISTINCT did) FROM hides.visible_record'), '>', 10, 'other accounts are visible');
like(($node->psql('postgres', "SELECT $_"))[2], qr/ERROR:  repository $popular in schema "hides" cannot be given out\nDETAIL:  The account is hidden\./, "not given out: $_")
  foreach "atproto.repo_car('$popular', 'hides')", "count(*) FROM atproto.repo_car_chunks('$popular', 'hides')", "atproto.record_proof('$popular', 'app.bsky.feed.post', 'x', 'hides')";
unlike(($node->psql('postgres', "SELECT octet_length(atproto.repo_car('$popular', 'plain'))"))[2], qr/hidden/, 'as elsewhere');

# A trigger of a data table is refused: the consumer writes the row by the state of the row before the trigger.
query(<<"EOSQL");
CREATE TABLE refused (message text);
CREATE FUNCTION plain.hides() RETURNS trigger LANGUAGE plpgsql SET search_path = public AS \$\$
BEGIN PERFORM atproto.hide(NEW.did, 'plain'); RETURN NEW; EXCEPTION WHEN OTHERS THEN INSERT INTO refused VALUES (SQLERRM); RETURN NEW; END \$\$;
CREATE TRIGGER hides AFTER INSERT ON plain.record FOR EACH ROW WHEN (NEW.did = '$popular') EXECUTE FUNCTION plain.hides();
EOSQL

# The stream has statuses: active, inactive, active again; the rows follow the statuses, and stay hidden.
$server->release;
# Workers write whole rows beside hide() and unhide(): no hiding is lost.
my $before = query('SELECT count(*) FROM workers.repo');
foreach my $hides (1, 0, 1, 0, 1)
{
	$node->safe_psql('postgres', "SELECT format('SELECT atproto.%s(%L, %L)', '" . ($hides ? 'hide' : 'unhide') . "', did, 'workers') FROM workers.repo ORDER BY did \\gexec");
}
wait_for_seq($node, $_, $last) foreach qw(plain hides workers filtered);
cmp_ok(query('SELECT count(hidden_at) FROM workers.repo'), '>=', $before, 'no hiding is lost');
$node->safe_psql('postgres', "SELECT format('SELECT atproto.unhide(%L, %L)', did, 'workers') FROM workers.repo WHERE did NOT IN ('$popular', '$early') \\gexec");
is_out($_, 'after the rest of the stream') foreach qw(hides workers filtered);
cmp_ok(query("SELECT count(*) FROM plain.repo WHERE status_at IS NOT NULL AND active"), '>', 0, 'accounts have become active again');
foreach my $s (qw(hides workers))
{
	is(query("SELECT count(*) FROM (SELECT did, collection, rkey, cid FROM $s.record) s FULL JOIN (SELECT did, collection, rkey, cid FROM plain.record) p USING (did, collection, rkey, cid) WHERE s IS NULL OR p IS NULL"),
		'0', "$s: all records are those of a target that hides nothing");
	is(query("SELECT count(*) FROM (SELECT did, rev, active, status, sync FROM $s.repo EXCEPT SELECT did, rev, active, status, sync FROM plain.repo) r"), '0', "$s: and so are the states of the accounts");
}
# The law of readers: the last message about an account, or active without a message, is what the row says.
foreach my $s (qw(hides workers filtered))
{
	my $law = q{WITH m AS MATERIALIZED (SELECT row_number() OVER () AS n, data::jsonb AS j FROM pg_logical_slot_peek_changes('reader', NULL, NULL, 'kinds', 'account')),
	l AS (SELECT DISTINCT ON (j ->> 'did') j ->> 'did' AS did, (j -> 'account' ->> 'active')::boolean AS active, j -> 'account' ->> 'status' AS status FROM m
	WHERE j ->> 'target' = '%1$s' AND j ->> 'kind' = 'account' ORDER BY j ->> 'did', n DESC)
	SELECT count(*) > 30, count(*) FILTER (WHERE (COALESCE(l.active, true), l.status) IS DISTINCT FROM
	(p.active AND p.hidden_at IS NULL, CASE WHEN p.active AND p.hidden_at IS NOT NULL THEN 'takendown' ELSE p.status END)) FROM %1$s.repo p LEFT JOIN l ON l.did = p.did::text};

	is(query(sprintf $law, $s), 't|0', "$s: a reader knows of each account whether the account is shown");
}
is(query('SELECT DISTINCT message FROM refused'), 'accounts cannot be erased, hidden or shown by a trigger of the tables that are being filled', 'a trigger is refused');
isnt(query("SELECT rev FROM hides.repo WHERE did = '$popular'"), $commit, 'the account has gone on');

# hide() makes a row of an unknown account.
query("SELECT atproto.hide('did:plc:aaaaaaaaaaaaaaaaaaaaaaaa', 'hides')");
is(query(q{SELECT did, active, sync, rev IS NULL, hidden_at IS NOT NULL FROM hides.repo WHERE did = 'did:plc:aaaaaaaaaaaaaaaaaaaaaaaa'}), 'did:plc:aaaaaaaaaaaaaaaaaaaaaaaa|t|partial|t|t', 'an account without a row gets one');

# check() and a replaced view.
is(query(q{SELECT * FROM atproto.check('hides', deep => true)}), '', 'check() finds nothing');
query(q{BEGIN; CREATE OR REPLACE VIEW hides.visible_record AS SELECT r.* FROM hides.record r JOIN hides.repo p USING (did) WHERE p.active; COMMIT});
is(query(q{SELECT DISTINCT what FROM atproto.check('hides')}), 'hidden account that a view shows', 'a view that shows the account is found');
query(q{DROP VIEW hides.visible_record CASCADE; SELECT atproto.create_tables('hides')});
is(query(q{SELECT * FROM atproto.check('hides')}), '', 'and create_tables() makes it anew');

# The output plugin: a message for each change, as of an account with the network's status takendown.
my $told = "SELECT string_agg(json_data -> 'account' ->> 'active' || ' ' || COALESCE(json_data -> 'account' ->> 'status', '-') || ' ' || (json_data ->> 'target'), ', ' ORDER BY n)"
  . " FROM (SELECT data::jsonb AS json_data, row_number() OVER () AS n FROM pg_logical_slot_get_changes('reader', NULL, NULL)) c WHERE json_data ->> 'kind' = 'account' AND json_data ->> 'did' = '%s'";
like(query(sprintf $told, $popular), qr/\bfalse takendown hides\b/, 'a reader is told');
query("UPDATE hides.repo SET active = true, status = NULL WHERE did = '$popular'");
is(query("SELECT atproto.unhide('$popular', 'hides'), atproto.unhide('$popular', 'hides')"), 't|f', 'unhide() says whether something has changed');
is(query(sprintf $told, $popular), 'true - hides', 'and told of unhide()');
query("UPDATE hides.repo SET active = false, status = 'deactivated' WHERE did = '$popular'; SELECT atproto.hide('$popular', 'hides'), atproto.unhide('$popular', 'hides')");
is(query(sprintf $told, $popular), 'false deactivated hides, false deactivated hides', 'the network\'s status of an inactive account is told as it is');
query("UPDATE hides.repo SET active = true, status = NULL WHERE did = '$popular'; INSERT INTO hides.repo (did, hidden_at) VALUES ('did:web:a.example', now())");
is(query(sprintf $told, 'did:web:a.example'), 'false takendown hides', 'a copied row, too');
query("ALTER TABLE hides.repo REPLICA IDENTITY FULL; UPDATE hides.repo SET hidden_at = NULL WHERE did = 'did:web:a.example'");
is(query(sprintf $told, 'did:web:a.example'), 'true - hides', 'an UPDATE by hand, where WAL has the old row');
is(query("SELECT (SELECT count(*) FROM hides.visible_record WHERE did = '$popular') = (SELECT count(*) FROM hides.record WHERE did = '$popular')"), 't', 'the account is shown as it is now');

# Beside other commands.
is(query("BEGIN; SELECT atproto.unhide('$early', 'hides'); ROLLBACK; SELECT count(hidden_at) FROM hides.repo WHERE did = '$early'"), "t\n1", 'a part of the transaction');
is(query("SELECT atproto.hide('$popular'), string_agg(s, ' ') FROM unnest('{plain,hides,workers,filtered}'::text[]) s"), 't|plain hides workers filtered', 'all targets');
is(query("SELECT count(*) FROM plain.visible_record WHERE did = '$popular'"), '0', '... also one that had not hidden it');
query("CALL atproto.erase('$popular', block => true, target => 'hides')");
is(query("SELECT count(*) FROM hides.repo WHERE did = '$popular'"), '0', 'erase() removes the row');
my @came = $node->psql('postgres', "SELECT atproto.hide('$popular', 'hides')");
is($came[1], 'f', 'a blocked account is not hidden');
like($came[2], qr/NOTICE:  the account is blocked in schema "hides"/, 'with a notice');
is(query("SELECT count(*) FROM hides.repo WHERE did = '$popular'"), '0', 'no row of a blocked account');
query(<<'EOSQL');
CREATE ROLE mallory LOGIN; CREATE ROLE owner LOGIN; CREATE SCHEMA own AUTHORIZATION owner; SELECT atproto.grant_to('owner', 'own', 'subscribe');
GRANT EXECUTE ON FUNCTION atproto.hide, atproto.unhide TO owner; SET ROLE owner; SELECT atproto.create_tables('own');
EOSQL
@came = $node->psql('postgres', "SET SESSION AUTHORIZATION owner; SELECT atproto.hide('$early')");
is($came[1], 't', 'an owner of tables');
like($came[2], qr/NOTICE:  the tables of \d+ schemas belong to other owners/, 'and the tables of others');
is(query("SELECT count(hidden_at) FROM own.repo") . query("SELECT count(hidden_at) FROM plain.repo WHERE did = '$early'"), '10', '... stay as they are');
like(($node->psql('postgres', "SET SESSION AUTHORIZATION owner; SELECT atproto.hide('$early', 'plain')"))[2], qr/ERROR:  must have the rights of the owner of the tables of schema "plain"/, 'a target of another owner');
like(($node->psql('postgres', "SET SESSION AUTHORIZATION mallory; SELECT atproto.unhide('$early')"))[2], qr/ERROR:  permission denied for function unhide/, 'without a grant');

done_testing();
