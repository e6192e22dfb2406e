# 259_nsid_forms.pl
#		The list of collections with a code grows, so tables have the text of a name whose code came later.  A stream goes
#		on over half of the rows in this older form, by direct writes and by statements: the tables agree with the oracle,
#		no key is in two rows, and audits, exports and links find the rows of both forms.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use Test::More;

my ($capture) = simulate(
	'--events' => 4000, '--accounts' => 50, '--history' => 0,
	'--mix' => 'account=3,delete=10,update=10,sync=0,like=30,post=30');
my $last = read_capture($capture);
my $half = int($last / 2);
my $node = make_node('forms');

query('CREATE CAST (bytea AS nsid) WITHOUT FUNCTION; CREATE CAST (nsid AS bytea) WITHOUT FUNCTION');

# Has the table rows with a code, and rows with the text of a name that has a code?
sub forms
{
	my ($table) = @_;

	return query(
		"SELECT count(*) FILTER (WHERE n < 3) > 0, count(*) FILTER (WHERE n >= 3 AND octet_length(collection::text::nsid::bytea) < 3) > 0"
		  . " FROM (SELECT collection, octet_length(collection::bytea) AS n FROM $table) c");
}

# Change rows to the form of a library without codes.
sub make_old
{
	my ($table, $condition) = @_;

	query("UPDATE $table SET collection = convert_to(collection::text, 'UTF8')::nsid WHERE $condition");
	is(forms($table), $condition eq 'true' ? 'f|t' : 't|t', "$table has the older form");
	return;
}

foreach my $direct ('on', 'off')
{
	my $schema = "direct_$direct";
	my $server = AtprotoTest::Server->start($capture, '--hold-at' => $half);
	my $odd    = 'hashtext(rkey::text) % 2 = 0';

	query("ALTER SYSTEM SET atproto.direct_writes = $direct");
	query('SELECT pg_reload_conf()');
	query("CREATE SCHEMA $schema; SELECT atproto.create_tables('$schema')");
	query(subscribe_sql($schema, $server, cursor => 0, target => "'$schema'", events => "'keep'", links => "'all'", count_collections => 'true'));
	wait_for("SELECT max(seq) >= $half - 1 FROM atproto.cursor WHERE subscription = '$schema'");
	query("SELECT atproto.pause('$schema')");
	is(forms("$schema.record"), 't|f', 'rows are written with codes');
	make_old("$schema.record",           $odd);
	make_old("$schema.record_event",     $odd);
	make_old("$schema.link_source",      'true');
	make_old("$schema.collection_count", 'true');
	query("SELECT atproto.resume('$schema')");
	$server->wait_for_log('request', 2);
	$server->release;
	wait_for("SELECT max(seq) >= $last FROM atproto.cursor WHERE subscription = '$schema'");
	wait_for("SELECT count(*) = 0 FROM $schema.repo WHERE purge_rev IS NOT NULL");
	is(query('SELECT count(*) FROM atproto.dead_letter'), '0', "direct $direct: nothing was refused");
	tables_match($node, $capture, "direct $direct: the tables are what the oracle says", schema => $schema);
	counts_match($node, "direct $direct: a collection is counted once", schema => $schema);
	is(query("SELECT count(*) FROM (SELECT FROM $schema.link_source GROUP BY collection, path HAVING count(*) > 1) twice"), '0', 'a source of links has one id');
	is(query("SELECT count(*) FROM (SELECT FROM $schema.record GROUP BY did, collection, rkey HAVING count(*) > 1) twice"), '0', 'a key has one row');
	like(query("SELECT count(*) FROM $schema.link"), qr/^[1-9]/, 'there are links');

	# the accounts' commits tell of all records since the tables were empty
	make_old("$schema.record", $odd);
	my $sound = "FROM $schema.repo p, LATERAL atproto.audit(p.did, '$schema') a WHERE p.active AND p.data IS NOT NULL";
	is(query("SELECT count(*) FILTER (WHERE a.equal), count(*) > 10 $sound"), query("SELECT count(*), true $sound"), 'audits read both forms');
	is( query(
			"SELECT sum(l.created), sum(l.updated), sum(l.deleted), sum(l.same) > 100 FROM (SELECT did FROM $schema.repo p WHERE active AND data IS NOT NULL"
			  . " AND (atproto.audit(did, '$schema')).equal ORDER BY did LIMIT 10) p, LATERAL atproto.load_car(p.did, atproto.repo_car(p.did, '$schema'), '$schema') l"),
		'0|0|0|t', 'an export of both forms is the same as the rows');
	query("SELECT atproto.rebuild_links('$schema')");
	query("SELECT atproto.unsubscribe('$schema')");
}

done_testing();
