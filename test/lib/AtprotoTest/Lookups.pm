# AtprotoTest/Lookups.pm
#		Common parts of the tests of level full that write rows of atproto.identity themselves: no
#		fetcher runs, and the test writes the result of each look-up.
#
#		my %who = accounts_of('full.py', 'rotations');
#		know($did, $key);							# hexadecimal
#		know($did, $key, label_key => $key);		# undef: no key for labels
#		looked_up(", key = '\\x$key', resolved_at = now()", "did = '$did'");

package AtprotoTest::Lookups;

use strict;
use warnings FATAL => 'all';

use AtprotoTest;
use Exporter qw(import);
use PostgreSQL::Test::Utils;

our @EXPORT = qw(skips looked_up know know_gone begin_again accounts_of);

# Whose events a program of test/oracle makes: name => { did, first, second }, the latter its keys.
sub accounts_of
{
	my ($program, $what) = @_;
	my %who;

	foreach (split /\n/, slurp_file(make_capture($program, $what, '--keys')))
	{
		my ($name, $did, $first, $second) = split /\t/;
		$who{$name} = { did => $did, first => $first, second => $second };
	}
	return %who;
}

# The column skips of a subscription's statistics, as text; a kind of skip without a count is absent.
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
DELETE FROM atproto.identity_request WHERE $where;
INSERT INTO atproto.held_release (target, kind, did, subscription, shard_key) SELECT DISTINCT target, kind, did, subscription, shard_key FROM atproto.held_event WHERE $where;
COMMIT;
EOSQL
	wait_for('SELECT count(*) = 0 FROM atproto.held_release');
	return;
}

# What the directory says of an account: its key, and what else is named (pds, label_key).
sub know
{
	my ($did, $key, %o) = @_;
	my ($key_sql, $label_key_sql) = map { defined $_ ? "'\\x$_'" : 'NULL' } $key, $o{label_key};
	my $pds = $o{pds} // 'pds.example.com';

	query("INSERT INTO atproto.identity (did, state, key, label_key, pds, resolved_at, asked_at) VALUES ('$did', 'good', $key_sql, $label_key_sql, '$pds', now(), now())"
		. " ON CONFLICT (did) DO UPDATE SET key = excluded.key, label_key = excluded.label_key, pds = excluded.pds, state = 'good', resolved_at = now()");
	return;
}

# And that it does not function, and is not to be asked again soon.
sub know_gone
{
	my ($did) = @_;
	query("INSERT INTO atproto.identity (did, state, next_try, asked_at, resolved_at) VALUES ('$did', 'gone', now() + '1 h', now(), now())");
	return;
}

sub begin_again
{
	query('DELETE FROM atproto.subscription; TRUNCATE atproto.identity, atproto.identity_request, atproto.held_release');
	return;
}

1;
