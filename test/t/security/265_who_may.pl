# 265_who_may.pl
#		Tries the tables of doc/operate/security.md, "Who may", which name each table, view, function and
#		queue of the extension.  The test calls every function as every role, with arguments of a victim:
#		its schema, subscription, letter, gap and account.  Every role reads and writes every table.  After
#		each statement the victim's state must be unchanged.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use PostgreSQL::Test::Utils;
use Test::More;

# No process runs but the sessions: nothing changes by itself.
my $node = make_node('who_may', databases => '', create => 0);
query("CREATE EXTENSION atproto");
# rows written by the test
expect_check('held event without hold', qr/1 events wait/);

# ------------------------------------------------------------------------
# The page
# ------------------------------------------------------------------------

my $page = slurp_file(test_dir() . '/../doc/operate/security.md');

# The page's table with this first column, as name => cells.
sub page_table
{
	my ($head) = @_;
	my ($lines) = $page =~ /^\| $head \|.*\n\|[-|]+\n((?:\|.*\n)+)/m or BAIL_OUT("doc/operate/security.md has no table \"$head\"");
	my %rows;

	foreach (split /\n/, $lines)
	{
		my ($names, @cells) = map { s/^\s+|\s+$//gr } (split /\|/)[ 1 .. 5 ];
		$rows{$_} = \@cells foreach $names =~ /`([^`]+)`/g;
	}
	return %rows;
}

my %tables    = page_table('table, view');
my %functions = page_table('function');

sub members
{
	my ($catalog, $name, $where) = @_;
	return split /\n/, query("SELECT DISTINCT $name FROM $catalog o JOIN pg_depend d ON d.objid = o.oid AND d.classid = '$catalog'::regclass AND d.deptype = 'e'"
		. " JOIN pg_extension e ON e.oid = d.refobjid AND e.extname = 'atproto' WHERE $where ORDER BY 1");
}

my @relations = members('pg_class', 'relname', "relkind IN ('r', 'v', 'm', 'p', 'f', 'S')");
# Functions of the data model read their arguments only; whatever reads or writes more than these has a row.
my @routines = members('pg_proc', 'proname', "provolatile <> 'i' AND (provolatile = 'v' OR pronamespace IN ('atproto'::regnamespace, 'atproto_internal'::regnamespace))"
	. " OR NOT EXISTS (SELECT FROM aclexplode(COALESCE(proacl, acldefault('f', proowner))) WHERE grantee = 0)");

is(join(' ', sort keys %tables), join(' ', @relations), 'the page names each table and view of the catalogue, and no other');
is(join(' ', sort keys %functions), join(' ', @routines), 'the page names each function that does more than compute, and no other');

# ------------------------------------------------------------------------
# Roles: two with the grants of doc/operate/operations.md, one with every possible grant, and further ones
# ------------------------------------------------------------------------

my $operations = slurp_file(test_dir() . '/../doc/operate/operations.md');
my ($grants) = $operations =~ /^(CREATE ROLE consumer LOGIN;\n.*?)^```/ms or BAIL_OUT('doc/operate/operations.md does not name the grants');
query($grants =~ s/\bconsumer\b/owner/gr =~ s/\bnetwork\b/victim/gr);
query($grants =~ s/\bconsumer\b/mallory/gr =~ s/\bnetwork\b/m/gr);
query(<<'EOSQL');
CREATE ROLE everything LOGIN; CREATE SCHEMA e AUTHORIZATION everything;
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA atproto TO everything; GRANT EXECUTE ON ALL ROUTINES IN SCHEMA atproto, atproto_internal TO everything;
CREATE ROLE monitor LOGIN; GRANT pg_monitor TO monitor;
CREATE ROLE reader LOGIN; GRANT EXECUTE ON ALL ROUTINES IN SCHEMA atproto, atproto_internal TO reader;
GRANT USAGE ON SCHEMA atproto_internal TO everything, reader;
CREATE ROLE anybody LOGIN;
EOSQL
my @roles = qw(mallory everything monitor reader anybody);
# roles that may read the victim's tables
my %reads = (reader => 1);

my $did = 'did:web:account.example.com';
sub as_owner { return query("SET SESSION AUTHORIZATION owner; $_[0]"); }
as_owner("SELECT atproto.create_tables('victim'); INSERT INTO atproto.subscription (name, url, target, backfill, list_source) VALUES ('victim', 'wss://localhost', 'victim', 'network', 'https://victim.example.com');"
	. "INSERT INTO atproto.request_header VALUES ('victim', 'authorization', 'Bearer of-victim')");
query('GRANT USAGE ON SCHEMA victim TO reader; GRANT SELECT ON ALL TABLES IN SCHEMA victim TO reader');
query(<<"EOSQL");
INSERT INTO victim.record (did, collection, rkey, cid, value, rev, indexed_at) VALUES ('$did', 'app.bsky.feed.post', '1', 'bafyreie5cvv4h45feadgeuwhbcutmh6t2ceseocckahdoe6uat64zmz454', '{"text": "of-victim"}', '3jzfcijpj2z2a', now());
INSERT INTO victim.repo (did, rev) VALUES ('$did', '3jzfcijpj2z2a');
INSERT INTO atproto.cursor (subscription, endpoint, seq) VALUES ('victim', 'wss://localhost/', 5);
INSERT INTO atproto.dead_frame (subscription, digest, bytes, format, endpoint) VALUES ('victim', '\\x00', 'of-victim', 'dag-cbor', 'wss://localhost/');
INSERT INTO atproto.dead_letter (subscription, stage, sqlstate, message, digest) VALUES ('victim', 'frame', '22P03', 'of-victim', '\\x00');
INSERT INTO atproto.gap (subscription, endpoint, after_seq, before_seq, reason) VALUES ('victim', 'wss://localhost/', 1, 3, 'cursor set');
INSERT INTO atproto.audit_state (target) VALUES ('victim');
INSERT INTO atproto.held_event (target, did, rev, subscription, seq, why, shard_key, bytes) VALUES ('victim', '$did', '3jzfcijpj2z2a', 'victim', 4, 'identity', 0, 'of-victim');
INSERT INTO atproto.held_release (target, did, shard_key, subscription) VALUES ('victim', '$did', 0, 'victim');
INSERT INTO atproto.status_request (target, did, subscription, why, requested_at) VALUES ('victim', '$did', 'victim', 'inactive', now());
INSERT INTO atproto.plc_log_request (subscription, did, why, requested_at) VALUES ('victim', '$did', 'prev', now());
INSERT INTO atproto.repo_job (target, did, subscription, priority, reason, listed_by) VALUES ('victim', '$did', 'victim', 3, 'victim', 'victim');
INSERT INTO atproto.repo_fetched VALUES ('victim', '$did', '{now}');
INSERT INTO atproto.repo_storm VALUES ('owner', 'infinity');
INSERT INTO atproto.enumeration (subscription, source, started_at) VALUES ('victim', 'listRepos', now());
INSERT INTO atproto.repo_total VALUES ('victim', 1, 1, 1, 1, now());
INSERT INTO atproto.subscription_event (subscription, number, at, last_at, times, event) VALUES ('victim', 1, now(), now(), 1, 'connected');
INSERT INTO atproto.zstd_dictionary (subscription, endpoint) VALUES ('victim', 'wss://localhost/');
INSERT INTO atproto.history (subscription, endpoint) VALUES ('victim', 'wss://localhost/');
INSERT INTO atproto.blocked_account VALUES ('did:plc:aaaaaaaaaaaaaaaaaaaaaaaa', 'victim');
EOSQL

# ------------------------------------------------------------------------
# Everything that the victim owns
# ------------------------------------------------------------------------

query(<<'EOSQL');
CREATE SCHEMA judge;
GRANT USAGE ON SCHEMA judge TO PUBLIC;
-- Rows of the extension's tables that name the other role, its schema or its subscription; all that is in its schema.
CREATE FUNCTION judge.state() RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	r regclass;
	one text;
	state text := '';
BEGIN
	FOR r IN SELECT c.oid FROM pg_class c WHERE relnamespace IN ('atproto'::regnamespace, 'victim'::regnamespace) AND relkind IN ('r', 'p') ORDER BY oid::regclass::text LOOP
		EXECUTE format('SELECT count(*) || md5(string_agg(x, $1 ORDER BY x)) FROM (SELECT xmin || t::text AS x, t::text AS row FROM %s t) t WHERE $2 OR row ~ $3', r)
			INTO one USING ',', r::text LIKE 'victim.%', 'victim|owner';
		state := state || r || ' ' || COALESCE(one, '-') || E'\n';
	END LOOP;
	RETURN state
		|| (SELECT md5(string_agg(c::text, ',' ORDER BY c.oid)) FROM (SELECT oid, relname, relkind, relacl, relowner, relpartbound, relhastriggers
			FROM pg_class WHERE relnamespace = 'victim'::regnamespace) c)
		|| (SELECT nspname || nspacl::text FROM pg_namespace WHERE nspname = 'victim');
END $$;
EOSQL
my $before = query('SELECT judge.state()');
cmp_ok(length($before), '>', 500, 'there is a state');
my %old = map { split / /, $_, 2 } grep { /^\S+ \S+$/ } split /\n/, $before;

# ------------------------------------------------------------------------
# Statements
# ------------------------------------------------------------------------

my ($letter) = query('SELECT id FROM atproto.dead_letter');
my ($gap)    = query('SELECT id FROM atproto.gap');

# The call that names the victim's objects, for each function with arguments.
my %calls = (
	audit               => "SELECT * FROM atproto.audit('$did', 'victim')",
	audit_all           => "CALL atproto.audit_all('victim')",
	await               => "CALL atproto.await('$did', '0 s')",
	await_backfill      => "CALL atproto.await_backfill('victim', '0 s')",
	await_history       => "CALL atproto.await_history('victim', '0 s')",
	history_again       => "SELECT atproto.history_again('victim')",
	backfill_repo       => "SELECT atproto.backfill_repo('$did', 'victim')",
	backlink_count      => "SELECT atproto.backlink_count('at://$did', 'app.bsky.feed.like:subject.uri', 'victim')",
	backlink_dids       => "SELECT * FROM atproto.backlink_dids('at://$did', 'app.bsky.feed.like:subject.uri', tables => 'victim')",
	backlinks           => "SELECT * FROM atproto.backlinks('at://$did', 'app.bsky.feed.like:subject.uri', tables => 'victim')",
	check               => "SELECT * FROM atproto.check('victim')",
	check_handle        => "SELECT atproto.check_handle('$did')",
	close_gap           => "SELECT atproto.close_gap($gap)",
	consumer_pid        => "SELECT atproto_internal.consumer_pid('victim')",
	create_tables       => "SELECT atproto.create_tables('victim')",
	create_view         => "SELECT atproto.create_view('app.bsky.feed.post', target => 'victim')",
	describe_server     => "CALL atproto.describe_server('https://localhost', timeout => '0 s')",
	distribute          => "SELECT atproto.distribute('victim')",
	grant_to            => "SELECT atproto.grant_to(current_user::name, 'victim')",
	account_traces      => "SELECT object, rows FROM atproto.account_traces('$did') WHERE place = 'table'",
	erase               => "CALL atproto.erase('$did')",
	fetcher_status      => 'SELECT * FROM atproto_internal.fetcher_status()',
	host_status         => "CALL atproto.host_status('https://localhost', 'localhost', timeout => '0 s')",
	identity_refresh    => "SELECT atproto.identity_refresh('$did')",
	link_problems       => "SELECT * FROM atproto.link_problems('victim')",
	plc_audit           => "SELECT atproto.plc_audit('$did', 'victim')",
	plc_export          => "SELECT atproto.plc_export('$did', 'victim')",
	plc_log             => "SELECT atproto.plc_log('$did', 'victim')",
	repo_car            => "SELECT atproto.repo_car('$did', 'victim')",
	repo_car_chunks     => "SELECT atproto.repo_car_chunks('$did', 'victim')",
	record_proof        => "SELECT atproto.record_proof('$did', 'app.bsky.feed.post', 'x', 'victim')",
	plc_key             => "SELECT atproto.plc_key('$did', NULL, 'victim')",
	load_car            => "SELECT * FROM atproto.load_car('$did', '\\x00', 'victim')",
	load_lexicon        => q{SELECT atproto.load_lexicon('{"lexicon": 1, "id": "com.example.mallory", "defs": {}}')},
	load_published      => "SELECT * FROM atproto.load_published('$did', '*', 'victim')",
	maintain_partitions => "CALL atproto.maintain_partitions('victim')",
	proof_accounts      => q{SELECT * FROM atproto_internal.proof_accounts('victim', 'victim', 0)},
	prove               => "SELECT atproto.prove('victim')",
	await_proof         => "CALL atproto.await_proof('victim', '0 s')",
	partition           => "SELECT atproto.partition('victim', 'month')",
	plc_ask             => "SELECT atproto.plc_ask('victim')",
	pause               => "SELECT atproto.pause('victim')",
	count_links         => "SELECT atproto.count_links('{}', 'victim')",
	rebuild_links       => "SELECT * FROM atproto.rebuild_links('victim')",
	progress            => 'SELECT * FROM atproto_internal.progress()',
	read_lists          => "SELECT atproto.read_lists('victim')",
	recheck             => "SELECT atproto.recheck('victim')",
	refill              => "SELECT atproto.refill('victim')",
	repo_states         => "SELECT * FROM atproto_internal.repo_states('victim')",
	resolve             => "SELECT state FROM atproto.resolve('$did')",
	resolve_handle      => "CALL atproto.resolve_handle('mallory.example.com', timeout => '0 s')",
	resume              => "SELECT atproto.resume('victim')",
	resync              => "SELECT atproto.resync('$did', 'victim')",
	resync_all          => "SELECT atproto.resync_all('victim')",
	retry               => "SELECT atproto.retry($letter)",
	revoke_from         => "SELECT atproto.revoke_from('reader', 'victim')",
	revalidate          => "CALL atproto.revalidate('victim')",
	why_not_served      => 'SELECT atproto.why_not_served()',
	log_is_believed     => "SELECT atproto.log_is_believed('owner'::regrole, 'victim')",
	role_may_fill       => "SELECT atproto.role_may_fill('owner'::regrole, 'victim', 0)",
	set_cursor          => "SELECT atproto.set_cursor('victim', 1)",
	set_zstd_dictionary => "SELECT atproto.set_zstd_dictionary('victim', '\\x00')",
	stream_status       => 'SELECT * FROM atproto_internal.stream_status()',
	subscribe           => "SELECT atproto.subscribe('mallory', 'wss://localhost', target => 'victim')",
	hide                => "SELECT atproto.hide('$did')",
	unhide              => "SELECT atproto.unhide('$did')",
	unblock             => "SELECT atproto.unblock('did:plc:aaaaaaaaaaaaaaaaaaaaaaaa', 'victim')",
	unload_lexicon      => "SELECT atproto.unload_lexicon('com.example.none')",
	reset_backoff              => "SELECT atproto.reset_backoff('localhost')",
	unsubscribe         => "SELECT atproto.unsubscribe('victim')",
	wake                => 'SELECT atproto_internal.wake()',
);

# Runs the statements as one role; returns for each { out, error, changed }.
sub try_all
{
	my ($role, %statements) = @_;
	my $script = '';
	my %came;

	foreach my $name (sort keys %statements)
	{
		$script .= "\\echo \@\@$name\n\\warn \@\@$name\nSET SESSION AUTHORIZATION $role;\n$statements{$name};\n"
			. "RESET SESSION AUTHORIZATION;\n\\echo \@=\nSELECT judge.state();\n";
	}
	my ($out, $err) = ('', '');
	$node->psql('postgres', $script, stdout => \$out, stderr => \$err, on_error_stop => 0, extra_params => [ '-v', 'VERBOSITY=verbose' ]);
	foreach (split /^\@\@/m, $out)
	{
		my ($name, $rows, $state) = /^(\S+)\n(.*?)^\@=\n(.*)/ms or next;
		my %new = map { split / /, $_, 2 } grep { /^\S+ \S+$/ } split /\n/, $state;

		$came{$name} = { out => $rows, error => '',
			changed => join(', ', grep { $old{$_} ne ($new{$_} // '') } sort keys %old) || ($state =~ s/\s+$//r eq $before ? '' : 'the schema') };
	}
	foreach (split /^[^\n]*?\@\@/m, $err)
	{
		my ($name, $lines) = /^(\S+)\n(.*)/s or next;
		$came{$name}{error} = $lines =~ /ERROR:  (\w{5}: .*)/ ? $1 : '';
	}
	return \%came;
}

# The grants of the page that each role has.
my %granted = (
	mallory => qr/PUBLIC|subscribe/, everything => qr//, monitor => qr/PUBLIC|pg_monitor/, reader => qr//, anybody => qr/PUBLIC/,
);
my $secret = qr/of-victim/;

# ------------------------------------------------------------------------
# Functions
# ------------------------------------------------------------------------

my ($unnamed) = join ' ', grep { !/^(PUBLIC|grant|views|subscribe)$/ } map { $_->[0] } values %functions;
is($unnamed, '', 'the page says who may call each function');
foreach my $role (@roles)
{
	my %may = map { $_ => 1 } split /\n/, query("SELECT DISTINCT proname FROM pg_proc WHERE pronamespace IN ('atproto'::regnamespace, 'atproto_internal'::regnamespace)"
		. " AND has_schema_privilege('$role', pronamespace, 'USAGE') AND has_function_privilege('$role', oid, 'EXECUTE')");
	my @wrong = grep { exists $may{$_} != ($functions{$_}[0] =~ $granted{$role}) } grep { $_ ne 'tid_generate' } @routines;

	is("@wrong", '', "$role may call what the page says");
}

my @uncalled = grep { $functions{$_}[3] =~ /^(refused|nothing)/ && !$calls{$_} } @routines;
is("@uncalled", '', 'each function that is given what another role has is called');
foreach my $role (@roles)
{
	my $came = try_all($role, %calls);

	foreach my $name (sort keys %calls)
	{
		my ($may, $foreign) = @{ $functions{$name} }[ 0, 3 ];
		my ($out, $error, $changed) = @{ $came->{$name} }{qw(out error changed)};

		is($changed, '', "$role: $name() changes nothing of another role");
		next if $reads{$role} && $may =~ $granted{$role};
		unlike($out, $secret, "$role: $name() shows nothing of another role");
		if ($may !~ $granted{$role})
		{
			like($error, qr/^42501: permission denied for ((function|procedure) $name|schema atproto_internal)/, "$role: $name() is not granted");
		}
		elsif ($foreign =~ /^refused/)
		{
			like($error, qr/^(42\w{3}|55000): /, "$role: $name() is refused");
		}
		elsif ($foreign =~ /^nothing/)
		{
			is($error, '', "$role: $name() finds nothing");
		}
	}
}

# ------------------------------------------------------------------------
# Tables
# ------------------------------------------------------------------------

# Rows of each table, for INSERT to try again under a different role.
my %keyed = map { $_ => 1 } map { /^atproto\.(\w+) [1-9]/ ? $1 : () } split /\n/, $before;
query(join '', map { "CREATE TABLE judge.$_ AS SELECT * FROM atproto.$_ t WHERE t::text ~ 'victim|owner'; GRANT SELECT ON judge.$_ TO PUBLIC;" } sort keys %keyed);
cmp_ok(scalar(keys %keyed), '>=', 15, 'the other role has rows in most tables');

# A column of each table that an UPDATE may name.
my %column = map { split / / } split /\n/, query("SELECT DISTINCT ON (relname) relname || ' ' || quote_ident(attname) FROM pg_attribute a JOIN pg_class c ON c.oid = attrelid"
	. " WHERE relnamespace = 'atproto'::regnamespace AND attnum > 0 AND NOT attisdropped AND attgenerated = '' AND attidentity = '' ORDER BY relname, attnum");

foreach my $role (@roles)
{
	my %statements;

	foreach my $table (grep { !/_seq$/ } @relations)
	{
		$statements{"select.$table"} = "SELECT t::text FROM atproto.$table t WHERE t::text ~ 'victim|owner'";
		$statements{"insert.$table"} = "INSERT INTO atproto.$table SELECT * FROM judge.$table" if $keyed{$table};
		$statements{"update.$table"} = "UPDATE atproto.$table SET $column{$table} = $column{$table}";
		$statements{"delete.$table"} = "DELETE FROM atproto.$table";
		$statements{"truncate.$table"} = "TRUNCATE atproto.$table";
	}
	$statements{"nextval.$_"} = "SELECT nextval('atproto.$_')" foreach grep { /_seq$/ } @relations;
	my $came = try_all($role, %statements);
	foreach my $name (sort keys %statements)
	{
		my ($what, $table) = split /\./, $name;
		my ($sees, $changes) = @{ $tables{$table} }[ 2, 3 ];
		my ($out, $error, $changed) = @{ $came->{$name} }{qw(out error changed)};
		my $all = $sees =~ /^all/ && ($role eq 'everything' || $table =~ /^lexicon/) || ($role eq 'monitor' && $sees =~ /all/);

		is($changed, '', "$role: $what of $table changes nothing of another role");
		is($out, '', "$role: $what of $table shows nothing of another role") if $what eq 'select' && !$all;
		isnt($error, '', "$role: $what of $table is refused") if $what =~ /truncate|nextval/;
		like($error, qr/^(42501|428C9): /, "$role: $what of $table is refused") if $what eq 'insert' && $changes !~ /^all/;
	}
}

# The check notices a change by the owner.
like(try_all('owner', pause => "SELECT atproto.pause('victim')")->{pause}{changed}, qr/atproto\.subscription/, 'the owner itself may');

$node->stop;
done_testing();
