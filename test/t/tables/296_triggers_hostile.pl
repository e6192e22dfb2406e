# 296_triggers_hostile.pl
#		Hostile triggers of directly filled tables: the triggers write into the same table, or drop or
#		change the table while the consumer writes.  E-43.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::TwoWays;
use PostgreSQL::Test::Utils;
use Test::More;

my ($node, $server, $pds) = two_ways('hostile_triggers');

# --- triggers that write, also into the same table ---

my %writes = (
	copies => own(q{INSERT INTO record (did, collection, rkey, cid, rev) VALUES (new.did, new.collection, (left(new.rkey::text, 500) || '-copy')::recordkey, new.cid, new.rev); RETURN new;},
		'BEFORE INSERT ON record') =~ s/FOR EACH ROW/FOR EACH ROW WHEN (pg_trigger_depth() = 0)/r,
	copied => own(q{INSERT INTO record (did, collection, rkey, cid, rev) VALUES (new.did, new.collection, (left(new.rkey::text, 500) || '-copy')::recordkey, new.cid, new.rev); RETURN new;},
		'AFTER INSERT ON record') =~ s/FOR EACH ROW/FOR EACH ROW WHEN (pg_trigger_depth() = 0)/r,
	removed => own(q{DELETE FROM record r WHERE (r.did, r.collection, r.rkey) = (new.did, new.collection, new.rkey); RETURN NULL;}, 'AFTER INSERT ON record')
	  =~ s/FOR EACH ROW/FOR EACH ROW WHEN (new.collection = 'app.bsky.feed.like')/r,
	updated => own(q{UPDATE record r SET value = '{}' WHERE (r.did, r.collection, r.rkey) = (new.did, new.collection, new.rkey); RETURN NULL;}, 'AFTER INSERT ON record'),
	# the newest row of the repository stays
	replaced => own(q{DELETE FROM record r WHERE r.did = new.did AND r.collection = new.collection; RETURN new;}, 'BEFORE INSERT ON record'),
	caught  => own(q{BEGIN PERFORM 1 / (hashtext(new.rkey::text) % 2); EXCEPTION WHEN division_by_zero THEN new.fault := 'even'; END; RETURN new;}, 'BEFORE INSERT ON record'));
foreach my $name (sort keys %writes)
{
	both($name, "$ROWS; $writes{$name}");
	again();
}
both('copies on parts', "$PARTS; $writes{copies}");
again();

# --- triggers that are disabled, or for replicas only ---

both('silent', "$ROWS; ALTER TABLE record DISABLE TRIGGER a; ALTER TABLE record ENABLE REPLICA TRIGGER b");
is(query('SELECT count(*) FROM case_direct.log'), '0', 'silent: they do not fire');
again();

# --- triggers that drop or change the table: it is in use, nothing is lost ---

my %pulls = (
	disabled  => 'ALTER TABLE record DISABLE TRIGGER own',
	dropped   => 'DROP TABLE record CASCADE',
	truncated => 'TRUNCATE record',
	added     => 'ALTER TABLE record ADD more int');
foreach my $name (sort keys %pulls)
{
	foreach my $when ('BEFORE', 'AFTER')
	{
		my $from = -s $node->logfile;

		make_case('case_direct', own("$pulls{$name}; RETURN new;", "$when INSERT ON record"));
		query(subscribe_sql('case_direct', $server, cursor => 0, target => q{'case_direct'}));
		$node->wait_for_log(qr/because it is being used by active queries in this session/, $from);
		is(query('SELECT count(*) FROM case_direct.record'), '0', "$name $when: nothing is stored");
		query('DROP TRIGGER own ON case_direct.record');
		wait_for_seq($node, 'case_direct', $PDS_LAST);
		tables_match($node, $pds, "$name $when: the tables are what the oracle says", schema => 'case_direct');
		is(query('SELECT count(*) FROM atproto.dead_letter'), '0', "$name $when: no row is blamed");
		query("SELECT atproto.unsubscribe('case_direct')");
		wait_for("SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'atproto consumer'");
		query('DROP SCHEMA case_direct CASCADE');
	}
}

unlike(slurp_file($node->logfile), qr/PANIC|TRAP|WARNING|terminated by signal/, 'the server is well');

$node->stop;
done_testing();
