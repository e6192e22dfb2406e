# 283_audits_of_others.pl
#		Automatic audits of tables whose owner tries to keep the fetcher from auditing the repositories of
#		further owners.  Hostile functions on these tables run with the rights of their owner and for a
#		limited time, and the repositories of further owners are audited.  Also a slow audit.  V-45.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Clock;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = make_node('audits_of_others', conf => <<'EOF');
max_worker_processes = 16
atproto.audits = on
EOF
my $clock  = AtprotoTest::Clock->new($node);
my $server = AtprotoTest::Server->start(make_capture('steps.py', 'a 1 +x'));

# A repository without records is synchronized with the empty tree.
my $empty = 'bafyreie5737gdxlw5i64vzichcalba3z2v5n6icifvx5xytvske7mr3hpm';

# Three repositories, of which nothing is proven.
sub unproven
{
	my ($target) = @_;
	return "INSERT INTO $target.repo (did, rev, data, sync) SELECT ('did:web:' || n || '.test')::did, '3aaaaaaaaaa22', '$empty', 'unproven' FROM generate_series(1, 3) n;";
}

# Requests an audit as a consumer does.
sub request_audit
{
	my ($target) = @_;

	query("INSERT INTO atproto.audit_state (target, next_at) VALUES ('$target', now()) ON CONFLICT (target) DO UPDATE SET next_at = now(), tries = 0, error = NULL");
	$clock->advance(61);
	return;
}

# Somebody else's, peaceful.
query('CREATE SCHEMA alone; ' . subscribe_sql('alone', $server, target => "'alone'", cursor => 1));

my ($grants) = slurp_file(test_dir() . '/../doc/operate/operations.md') =~ /^(CREATE ROLE consumer LOGIN;\n.*?)^```/ms or BAIL_OUT('doc/operate/operations.md does not name the grants');
query($grants);

# The hostile owner has a subscription and tables with functions, which spare the owner's consumer (is_other()).
sub hostile
{
	my ($sql) = @_;

	query('SET SESSION AUTHORIZATION consumer; ' . subscribe_sql('hostile', $server, target => "'network'", cursor => 1) . '; ' . unproven('network') . <<"SQL");
CREATE FUNCTION network.is_other() RETURNS boolean LANGUAGE sql VOLATILE AS
	\$\$SELECT backend_type IS DISTINCT FROM 'atproto consumer' FROM pg_stat_activity WHERE pid = pg_backend_pid()\$\$;
$sql
SQL
	request_audit('network');
	return;
}

sub end_hostile
{
	query("SELECT atproto.unsubscribe('hostile')");
	query('SET client_min_messages = error; DROP SCHEMA network CASCADE; CREATE SCHEMA network AUTHORIZATION consumer');
	return;
}

my %hostile = (
	'a view in place of the table' => [ <<'SQL', qr/canceling statement due to statement timeout/ ],
ALTER TABLE network.record RENAME TO kept;
CREATE FUNCTION network.slow() RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$BEGIN PERFORM pg_sleep(100) WHERE network.is_other(); RETURN true; END$$;
CREATE VIEW network.record AS SELECT * FROM network.kept WHERE (SELECT network.slow());
INSERT INTO network.kept (did, collection, rkey, rev, cid) VALUES ('did:web:1.test', 'a.b.c', 'self', '3aaaaaaaaaa22', 'bafyreie5737gdxlw5i64vzichcalba3z2v5n6icifvx5xytvske7mr3hpm');
SQL
	'a trigger that is slow' => [ <<'SQL', qr/canceling statement due to statement timeout/ ],
CREATE FUNCTION network.slow() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN PERFORM pg_sleep(100) WHERE network.is_other(); RETURN new; END$$;
CREATE TRIGGER slow BEFORE UPDATE ON network.repo FOR EACH ROW EXECUTE FUNCTION network.slow();
SQL
	'a trigger that keeps nothing' => [ <<'SQL', qr/what they find is not kept/ ],
CREATE FUNCTION network.drop() RETURNS trigger LANGUAGE plpgsql AS
	$$BEGIN IF current_user <> 'consumer' THEN RAISE 'as somebody else'; END IF; RETURN NULL; END$$;
CREATE TRIGGER drop BEFORE UPDATE ON network.repo FOR EACH ROW EXECUTE FUNCTION network.drop();
SQL
	'a trigger that would wait for the end' => [ <<'SQL', qr/cannot fire deferred trigger within security-restricted operation/ ],
CREATE TABLE network.who (who name);
CREATE FUNCTION network.who() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN INSERT INTO network.who VALUES (current_user); RETURN NULL; END$$;
CREATE FUNCTION network.later() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN SET CONSTRAINTS ALL DEFERRED; RETURN new; END$$;
CREATE CONSTRAINT TRIGGER who AFTER UPDATE ON network.repo DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION network.who();
CREATE TRIGGER later BEFORE UPDATE ON network.repo FOR EACH ROW EXECUTE FUNCTION network.later();
SQL
	'a function that does not stop' => [ <<'SQL', undef ],
CREATE FUNCTION network.stay() RETURNS trigger LANGUAGE plpgsql AS
	$$BEGIN LOOP BEGIN PERFORM pg_sleep(100); EXCEPTION WHEN query_canceled THEN NULL; END; END LOOP; END$$;
CREATE TRIGGER stay BEFORE UPDATE ON network.repo FOR EACH ROW EXECUTE FUNCTION network.stay();
SQL
);
foreach my $case (sort keys %hostile)
{
	my ($sql, $error) = @{ $hostile{$case} };
	my $offset = -s $node->logfile;

	hostile($sql);
	if (defined $error)
	{
		wait_for("SELECT error IS NOT NULL FROM atproto.audit_state WHERE target = 'network'");
		like(query("SELECT error FROM atproto.audit_state WHERE target = 'network'"), $error, "$case: noted");
	}
	else
	{
		$node->wait_for_log(qr/the atproto fetcher ends: a function of the role with OID \d+ did not stop/, $offset);
		pass("$case: the fetcher ends");
	}
	is(query("SELECT next_at > now() + interval '1 min', (SELECT count(*) FROM network.repo WHERE sync = 'unproven') FROM atproto.audit_state WHERE target = 'network'"), 't|3',
		"$case: he has to wait");
	is(query('SELECT count(*) FROM network.who'), '0', 'and nothing runs with other rights than his') if $case =~ /the end/;
	query('DELETE FROM alone.repo; ' . unproven('alone'));
	request_audit('alone');
	wait_for("SELECT next_at IS NULL FROM atproto.audit_state WHERE target = 'alone'");
	is(query("SELECT string_agg(sync, ',') FROM alone.repo"), join(',', ('synchronized') x 3), "$case: others get their turns");
	end_hostile();
}

# --- an audit that takes longer than a share of the time ---

hostile(<<'SQL');
CREATE FUNCTION network.slowly(did) RETURNS boolean LANGUAGE plpgsql VOLATILE AS
	$$BEGIN PERFORM pg_sleep(2) WHERE network.is_other() AND $1::text = 'did:web:2.test'; RETURN true; END$$;
ALTER TABLE network.record RENAME TO kept;
INSERT INTO network.kept (did, collection, rkey, rev, cid) SELECT did, 'a.b.c', 'self', rev, data FROM network.repo;
CREATE VIEW network.record AS SELECT * FROM network.kept WHERE network.slowly(did);
SQL
wait_for("SELECT next_at IS NULL FROM atproto.audit_state WHERE target = 'network'");
is(query("SELECT string_agg(sync, ',') FROM network.repo"), join(',', ('desynchronized') x 3), 'a repository that takes long is audited alone, and those beside it are, too');
is(query("SELECT error IS NULL, tries FROM atproto.audit_state WHERE target = 'network'"), 't|0', 'and that is no failure');
unlike(slurp_file($node->logfile), qr/terminated by signal|TRAP:|server process \(PID \d+\) exited with exit code 2/, 'nothing crashed');

done_testing;
