# 500_plc_check.pl
#		atproto.plc_check() judges logs of did:plc accounts as test/oracle/plc_logs.py does, which builds valid logs and forges
#		entries for each reason (M-01 to M-09, M-50); logs at the boundaries of what doc/use/data.md says (test/oracle/plc_edges.py);
#		and the interoperability vectors of the directory, where
#		ATPROTO_PLC_VECTORS names the folder audit_log of a copy.
#
#		ATPROTO_SEED is the seed of the run, ATPROTO_PLC_LOGS and ATPROTO_PLC_FORGED are the numbers of logs.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $seed = $ENV{ATPROTO_SEED} // 1;
my %logs = (logs => $ENV{ATPROTO_PLC_LOGS} // 100, forged => $ENV{ATPROTO_PLC_FORGED} // 300);
my $node = make_node('plc_check');

note("ATPROTO_SEED=$seed");

# Makes a table of the logs in a file: name, log and the verdicts that are expected.
sub load_logs
{
	my ($what, $file) = @_;

	query("CREATE TABLE plc_$what AS SELECT l ->> 'name' AS name, l -> 'log' AS log, l -> 'expect' AS expect"
		. " FROM regexp_split_to_table(trim(pg_read_file('$file'), E'\\n'), E'\\n') AS t, LATERAL (SELECT t::jsonb) AS j(l)");
	return;
}

my $judge = q{(SELECT jsonb_agg(jsonb_build_array(verdict, nullified_by, reason) ORDER BY n) FROM atproto.plc_check(log))};

for my $what (qw(logs forged))
{
	load_logs($what, make_capture('plc_logs.py', $what, $seed, $logs{$what}));
	is(query("SELECT count(*) FROM plc_$what"), $logs{$what}, "$what: there are logs");
	is(query("SELECT name || E'\\n' || expect || E'\\n' || $judge || E'\\n' || log FROM plc_$what WHERE $judge <> expect LIMIT 3"),
		'', "M-01, M-02, M-03, M-05, M-06, M-07, M-08, M-09: the verdicts are those of the oracle ($what)");
	is(query("SELECT count(*) FROM plc_$what, atproto.plc_check(log) c WHERE verdict <> 'refused' AND (cid::text, did::text, kind, created_at)"
			. " IS DISTINCT FROM (log -> n - 1 ->> 'cid', log -> n - 1 ->> 'did', log -> n - 1 -> 'operation' ->> 'type', (log -> n - 1 ->> 'createdAt')::timestamptz)"),
		'0', "M-02, M-04: CID, DID, kind and time are those of the entry ($what)");
}
is(query("SELECT string_agg(DISTINCT reason, ' ' ORDER BY reason) FROM plc_forged, atproto.plc_check(log) WHERE verdict = 'refused'"),
	'cid did encoding form genesis key late nullified order prev signature tombstone', 'M-01: each reason occurs');
cmp_ok(query("SELECT count(*) FROM plc_logs, atproto.plc_check(log) WHERE verdict = 'nullified'"), '>', 0, 'M-05: operations were nullified');

load_logs('edges', make_capture('plc_edges.py'));
is(query("SELECT string_agg(name || E'\\n' || expect || E'\\n' || $judge, E'\\n' ORDER BY name) FROM plc_edges WHERE $judge <> expect"), '',
	'M-01 to M-09, M-50: the verdicts at the boundaries');
cmp_ok(query('SELECT count(*) FROM plc_edges'), '>', 100, '... of many logs');
is(query(q{SELECT string_agg(concat_ws(',', n, did IS NOT NULL, cid IS NOT NULL, kind, created_at IS NOT NULL, reason), ' ' ORDER BY n) FROM plc_edges, atproto.plc_check(log)
	WHERE name = 'accounts: an entry without the form of one names no account'}), '1,t,f,f,form 2,t,f,f,form 3,t,t,plc_operation,t', 'M-50: what is known of an entry that has not the form of one');

# M-06: what an operation says
my $says = sub {
	my ($operation) = @_;

	return query("SELECT to_jsonb(s)::text FROM atproto.plc_state(jsonb_to_dagcbor(\$j\$$operation\$j\$)) s");
};
my $members = '"type": "plc_operation", "rotationKeys": [], "prev": null, "sig": "", ';

foreach my $case (
	['{"type": "plc_tombstone", "prev": "", "sig": ""}', 'null, "gone": true, "handle": null, "server": null, "label_key": null', 'a tombstone'],
	['{"type": "plc_tombstone", "sig": ""}', 'null, "gone": null, "handle": null, "server": null, "label_key": null', 'no operation'],
	["{$members\"verificationMethods\": {}, \"alsoKnownAs\": [\"a.example\"], \"services\": {}}", 'null, "gone": false, "handle": null, "server": null, "label_key": null', 'nothing'],
	["{$members\"verificationMethods\": {\"atproto\": \"no key\", \"atproto_label\": \"\"}, \"alsoKnownAs\": [\"at://\"], \"services\": {\"atproto_pds\": {\"type\": \"AtprotoPersonalDataServer\", \"endpoint\": \"no address\"}}}",
		'"no key", "gone": false, "handle": "", "server": "no address", "label_key": ""', 'texts of any form'],
	["{$members\"verificationMethods\": {}, \"alsoKnownAs\": [\"https://c.example\", \"at://no handle\", \"at://A.example\", \"at://b.example\"], \"services\": {\"a\": {\"type\": \"AtprotoPersonalDataServer\", \"endpoint\": \"a\"}, \"atproto_pds\": {\"type\": \"x\", \"endpoint\": \"b\"}}}",
		'null, "gone": false, "handle": "A.example", "server": null, "label_key": null', 'the first handle, and no server of another name or type'],
	(map { ["{\"type\": \"create\", \"signingKey\": \"s\", \"recoveryKey\": \"r\", \"handle\": \"h\", \"service\": \"$_->[0]\", \"prev\": null, \"sig\": \"\"}",
		"\"s\", \"gone\": false, \"handle\": \"h\", \"server\": \"$_->[1]\", \"label_key\": null", "the server $_->[0] of a create operation"] }
	  ['pds.example', 'https://pds.example'], ['https://pds.example', 'https://pds.example'], ['HTTP://pds.example', 'https://HTTP://pds.example'], ['', 'https://']),
	(map { ["{\"type\": \"create\", \"signingKey\": \"s\", \"recoveryKey\": \"r\", \"handle\": \"$_->[0]\", \"service\": \"http://b\", \"prev\": null, \"sig\": \"\"}",
		"\"s\", \"gone\": false, \"handle\": \"$_->[1]\", \"server\": \"http://b\", \"label_key\": null", "the handle $_->[0] of a create operation"] }
	  ['at://a.example', 'a.example'], ['https://a.example', 'a.example'], ['http://a.example', 'a.example'], ['HTTPS://a.example', 'HTTPS://a.example'],
	  ['https://http://a.example/', 'http://a.example/'], ['a.example', 'a.example'], ['at://', '']))
{
	is($says->($case->[0]), "{\"key\": $case->[1]}", "M-06: $case->[2]");
}

# M-50: what a log says of its own operations
is(query("SELECT count(*) FROM plc_logs, atproto.plc_check(jsonb_set(log, '{0,nullified}', 'true')) WHERE n = 1 AND (verdict, reason) = ('refused', 'nullified')"),
	$logs{logs}, 'M-50: a wrong mark is refused');
is(query("SELECT count(*) FROM plc_logs, atproto.plc_check((SELECT jsonb_agg(e - 'nullified') FROM jsonb_array_elements(log) e)) WHERE verdict = 'refused'"),
	'0', 'M-50: no entry needs a mark');
is(query("SELECT count(*) FROM atproto.plc_check('[]')"), '0', 'M-50: a log may be empty');
is(query(q{SELECT string_agg(verdict || ' ' || reason, ',') FROM atproto.plc_check('[1, null, [], {}, "x"]')}), join(',', ('refused form') x 5), 'M-50: what is no entry');
for my $no_log ('{}', 'null', '"x"')
{
	my (undef, undef, $error) = $node->psql('postgres', "SELECT * FROM atproto.plc_check('$no_log')");

	like($error, qr/the log is no array/, "M-50: $no_log is no log");
}

SKIP:
{
	my $vectors = $ENV{ATPROTO_PLC_VECTORS} or skip 'ATPROTO_PLC_VECTORS names no folder', 1;
	# the first two say that an operation was nullified, and the recovery that should have done it is refused
	my %refused = (
		nullification_reused_key => 'nullified key', nullification_too_slow => 'nullified late', sig_b64_newline => 'encoding', sig_b64_padding_bits => 'encoding',
		sig_b64_padding_chars => 'encoding', sig_der => 'signature', sig_k256_high_s => 'signature', sig_p256_high_s => 'signature',
		update_nullified => 'nullified', update_tombstoned => 'tombstone');

	for my $file (glob "$vectors/*/*.json")
	{
		my ($name) = $file =~ m{/log_(?:invalid_)?(\w+)\.json$};
		my $text = slurp_file($file);

		is(query('SELECT coalesce(string_agg(reason, $$ $$ ORDER BY n), $$valid$$) FROM atproto.plc_check($log$' . $text . '$log$)'),
			$refused{$name} // 'valid', "interoperability: $name");
	}
}

done_testing();
