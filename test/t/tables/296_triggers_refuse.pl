# 296_triggers_refuse.pl
#		Triggers that refuse rows, at once and at the commit, and foreign keys, also to the table repo, of
#		tables that the consumer fills directly: the same rows become dead letters as with statements.
#		E-43, B-29.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::TwoWays;
use PostgreSQL::Test::Utils;
use Test::More;

my ($node) = two_ways('refusing_triggers');

# --- triggers and keys with refused rows, at once and at the commit ---

my $refuse = q{IF hashtext(new.rkey::text) % 100 = 0 THEN RAISE 'not this one' USING DETAIL = new.rkey::text; END IF; RETURN new;};
my %refusals = (
	before => own($refuse, 'BEFORE INSERT ON record'),
	after  => own($refuse, 'AFTER INSERT ON record'),
	parts  => "$PARTS; " . own($refuse, 'AFTER INSERT ON record'),
	later  => own($refuse, 'AFTER INSERT ON record DEFERRABLE INITIALLY DEFERRED') =~ s/CREATE TRIGGER/CREATE CONSTRAINT TRIGGER/r,
	key    => q{CREATE TABLE allowed (collection nsid PRIMARY KEY); INSERT INTO allowed VALUES ('app.bsky.feed.like'), ('app.bsky.feed.post');
		ALTER TABLE record ADD FOREIGN KEY (collection) REFERENCES allowed},
	later_key => q{CREATE TABLE allowed (collection nsid PRIMARY KEY); INSERT INTO allowed VALUES ('app.bsky.feed.like'), ('app.bsky.feed.post');
		ALTER TABLE record ADD FOREIGN KEY (collection) REFERENCES allowed DEFERRABLE INITIALLY DEFERRED});
foreach my $name (sort keys %refusals)
{
	both("refused $name", $refusals{$name}, untold => 1);
	cmp_ok(query("SELECT count(*) FROM atproto.dead_letter WHERE subscription = 'case_direct' AND stage = 'apply'"), '>', 0, "refused $name: there were such rows");
	again();
}

# Foreign keys to the repositories hold, whichever comes first.
foreach my $when ('', 'DEFERRABLE INITIALLY DEFERRED')
{
	both("refers $when", "ALTER TABLE record ADD FOREIGN KEY (did) REFERENCES repo $when");
	is(query('SELECT count(*) FROM atproto.dead_letter'), '0', "refers $when: nothing was refused");
	again();
}

# With checks at the commit, new repositories are written directly, too.  Statements insert a row, and then
# update it.
my $posts = AtprotoTest::Server->start(make_capture('synth.py', 'posts', 300));
foreach my $when ('', 'DEFERRABLE INITIALLY DEFERRED', 'ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED')
{
	make_case('case_direct', "ALTER TABLE record ADD FOREIGN KEY (did) REFERENCES repo $when");
	query(subscribe_sql('case_direct', $posts, cursor => 0, target => q{'case_direct'}));
	wait_for_seq($node, 'case_direct', 300);
	is(query('SELECT count(*) FROM case_direct.record JOIN case_direct.repo USING (did, rev)'), '300', "refers to repo $when: all is there");
	wait_for(q{SELECT n_tup_ins = 300 FROM pg_stat_user_tables WHERE schemaname = 'case_direct' AND relname = 'repo'});
	is(query(q{SELECT n_tup_upd FROM pg_stat_user_tables WHERE schemaname = 'case_direct' AND relname = 'repo'}), $when eq '' ? '300' : '0', "refers to repo $when: how");
	query("SELECT atproto.unsubscribe('case_direct')");
	wait_for("SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'atproto consumer'");
	# the deferred checks that are due
	my (undef, undef, $err) = $node->psql('postgres', 'DELETE FROM case_direct.repo');
	like($err, $when =~ /CASCADE/ ? qr/^$/ : qr/violates foreign key constraint/, "refers to repo $when: it is kept");
	query('DROP SCHEMA case_direct CASCADE');
}

unlike(slurp_file($node->logfile), qr/PANIC|TRAP|WARNING|terminated by signal/, 'the server is well');

$node->stop;
done_testing();
