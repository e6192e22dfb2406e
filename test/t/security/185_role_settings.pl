# 185_role_settings.pl
#		Settings of the owner's role (time-outs, isolation level, read-only transactions) and activity of
#		the server (checkpoints) must not make the consumer lose or repeat an event.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use Test::More;

# Of the consumer's owner, not of this test's sessions, which are the same role's.
$ENV{PGOPTIONS} = '-c statement_timeout=0 -c role=none';

my $pds    = capture('pds.frames.gz');
my $node   = make_node('role_settings', conf => "atproto.reconnect_delay = 50ms\natproto.reconnect_max_delay = 200ms\n");
my $server = AtprotoTest::Server->start($pds, '--rate', 2000);

query(q{CREATE ROLE another; CREATE TABLE public.levels (level text);
	CREATE FUNCTION note_level() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN INSERT INTO public.levels VALUES (current_setting('transaction_isolation')); RETURN NULL; END$$;
	CREATE TRIGGER note_level AFTER INSERT ON atproto.repo FOR EACH STATEMENT EXECUTE FUNCTION note_level()});
for my $setting (
	q{role = 'another'},
	q{statement_timeout = '1ms'},
	q{idle_in_transaction_session_timeout = '1ms'},
	q{default_transaction_isolation = 'serializable'},
	q{default_transaction_isolation = 'repeatable read'},
	q{search_path = 'nowhere'},
	q{default_transaction_deferrable = on})
{
	query("ALTER ROLE CURRENT_USER SET $setting");
	query(subscribe_sql('s', $server, cursor => 0));

	# checkpoints all the while
	wait_until(
		sub {
			query('CHECKPOINT');
			return query("SELECT coalesce(max(seq), 0) = $PDS_LAST FROM atproto.cursor") eq 't';
		},
		"the stream under $setting");
	query('ALTER ROLE CURRENT_USER RESET ALL');
	tables_match($node, $pds, "$setting: everything is there");
	is(query('SELECT events, (SELECT count(*) FROM atproto.dead_letter) FROM atproto.cursor'), "$PDS_LAST|0", "$setting: every event once");
	query(q{SELECT atproto.unsubscribe('s'); TRUNCATE atproto.record, atproto.repo});
}

# H-43: a process asks behind a lock whether a sweep runs, and a snapshot from before the lock would hide the sweep
is(query('SELECT string_agg(DISTINCT level, $$,$$) FROM public.levels'), 'read committed', 'the processes of a role with another isolation level see what was committed before they had a lock');

# A role that may only read: the consumer applies nothing and condemns nothing until the setting changes.
my $log = -s $node->logfile;
query('ALTER ROLE CURRENT_USER SET default_transaction_read_only = on');
query('SET default_transaction_read_only = off; ' . subscribe_sql('s', $server, cursor => 0));
$node->wait_for_log(qr/read-only transaction.*read-only transaction/s, $log);
is(query('SELECT seq, (SELECT count(*) FROM atproto.dead_letter) FROM atproto.cursor'), '0|0', 'read-only: nothing is taken');
query('SET default_transaction_read_only = off; ALTER ROLE CURRENT_USER RESET ALL');
wait_for_seq($node, 's', $PDS_LAST);
tables_match($node, $pds, 'no longer read-only: everything is there');

done_testing();
