# AtprotoTest/Lookups.pm
#		What the tests of level full share that write identities by themselves: no
#		fetcher runs, and look-ups are what the test says that they brought.
#
#		know($did, $key);
#		looked_up(", key = '\\x$key', resolved_at = now()", "did = '$did'");

package AtprotoTest::Lookups;

use strict;
use warnings FATAL => 'all';

use AtprotoTest;
use Exporter qw(import);

our @EXPORT = qw(skips looked_up know begin_again);

# As the statistics have them; those that are not named are not there.
sub skips
{
	my ($name) = @_;
	return query("SELECT string_agg(key || ' ' || value, ', ' ORDER BY key) FROM atproto.stat_subscription, jsonb_each_text(skips) WHERE name = '$name'");
}

# What a look-up brings, as the fetcher writes it: in one transaction, rows and who may go on.
sub looked_up
{
	my ($set, $where) = @_;

	query(<<"EOSQL");
BEGIN;
UPDATE atproto.identity SET asked_at = clock_timestamp()$set WHERE $where;
DELETE FROM atproto.identity_wish WHERE $where;
INSERT INTO atproto.held_release (target, kind, did, shard_key) SELECT DISTINCT target, kind, did, shard_key FROM atproto.held_event WHERE $where;
COMMIT;
EOSQL
	wait_for('SELECT count(*) = 0 FROM atproto.held_release');
	return;
}

sub know
{
	my ($did, $key, $pds) = @_;

	$pds //= 'pds.example.com';
	query("INSERT INTO atproto.identity (did, state, key, pds, resolved_at, asked_at) VALUES ('$did', 'good', '\\x$key', '$pds', now(), now())"
		. " ON CONFLICT (did) DO UPDATE SET key = excluded.key, state = 'good', pds = excluded.pds, resolved_at = now()");
	return;
}

sub begin_again
{
	query('DELETE FROM atproto.subscription; TRUNCATE atproto.identity, atproto.identity_wish');
	return;
}

1;
