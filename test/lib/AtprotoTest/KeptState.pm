# AtprotoTest/KeptState.pm
#		A database in the middle of its work: what a dump has to carry to another server or version.  It has partitions,
#		links with counts, counted collections, held events, dead letters, a job, a gap, Lexicons with a view, labels, a
#		log of a did:plc directory, a target of the type dagcbor, and each type in a table with indexes.
#
#		my $state = AtprotoTest::KeptState->new;	# starts servers; after begin_identities()
#		$state->make($node, 'database');		# subscriptions follow the servers
#		$state->note_contents('database');			# no process may run: notes what the tables have
#		my $text = $state->dump($node, 'database');	# for a file: without addresses
#		$state->load($node, 'database', $text);
#		AtprotoTest::KeptState::differences('database');	# '' if all is as noted
#		$state->go_on($node, 'database');		# resumes all, and compares with the oracle
#
#		Queries and results are kept in the dump itself (schema kept): they are stable names, which a later version must
#		still understand.

package AtprotoTest::KeptState;

use strict;
use warnings FATAL => 'all';

use AtprotoTest;
use AtprotoTest::Identities;
use AtprotoTest::Keys;
use AtprotoTest::Plc;
use PostgreSQL::Test::Utils;
use Test::More;

# The log of the directory has constant times: the kept operations are those that later runs make.
my $NOW = '1764400000000';
my ($HELD, $LABELS) = (150, 100);

# Notes a query and its result.
my $NOTE = <<'SQL';
CREATE SCHEMA kept;
CREATE TABLE kept.expected (query text PRIMARY KEY, result text);
CREATE FUNCTION kept.answer(query text) RETURNS text LANGUAGE plpgsql SET search_path = public, pg_catalog SET timezone = 'UTC' AS $$
DECLARE
	result text;
BEGIN
	EXECUTE 'SELECT string_agg(q::text, E''\n'' ORDER BY q::text) FROM (' || query || ') q' INTO result;
	RETURN coalesce(result, '');
END $$;
-- all rows of a table, by the columns of today, without the ports of servers
CREATE FUNCTION kept.rows_of(relation regclass, VARIADIC without name[] DEFAULT '{}') RETURNS text LANGUAGE sql AS $$
	SELECT format('SELECT count(*), md5(string_agg(r, '' '' ORDER BY r COLLATE "C")) FROM (SELECT regexp_replace(ROW(%s)::text, ''127\.0\.0\.1:\d+'', '''', ''g'') AS r FROM %s) t',
		string_agg(quote_ident(attname), ', ' ORDER BY attnum), relation)
	FROM pg_attribute WHERE attrelid = relation AND attnum > 0 AND NOT attisdropped AND attname <> ALL (without) $$;
INSERT INTO kept.expected (query)
	SELECT kept.rows_of(c.oid) FROM pg_class c
	WHERE relnamespace IN ('network'::regnamespace, 'full'::regnamespace, 'labels'::regnamespace, 'plc'::regnamespace, 'packed'::regnamespace)
		AND relkind IN ('r', 'p', 'v') AND NOT relispartition
	UNION ALL SELECT kept.rows_of('atproto.subscription', 'owner', 'stopped', 'stopped_at', 'target_owner')
	UNION ALL SELECT kept.rows_of(r::regclass) FROM unnest('{atproto.cursor,atproto.dead_letter,atproto.dead_frame,atproto.gap,atproto.held_event,
		atproto.request_header,atproto.repo_job,atproto.lexicon_loaded,atproto.web_address,atproto.proved_set}'::text[]) r
	UNION ALL VALUES ('SELECT every.contents()'), ('SELECT every.found()'), ('SELECT pattern, uri FROM atproto.known_web_address WHERE NOT bundled'),
		('SELECT relname, relkind, pg_get_expr(relpartbound, oid) FROM pg_class WHERE relnamespace = ''network''::regnamespace AND relispartition'),
		('SELECT count(text), md5(string_agg(text, '' '' ORDER BY text COLLATE "C")) FROM network.app_bsky_feed_post');
UPDATE kept.expected SET result = kept.answer(query);
SQL

sub new
{
	my ($class) = @_;
	my $full = make_capture('full.py', 'again');
	my $self = bless {
		full    => $full,
		servers => {
			S => AtprotoTest::Server->start(capture('pds.frames.gz'), '--hold-at', $HELD),
			F => AtprotoTest::Server->start($full, '--hold-at', 3, '--hold-at', 8),
			L => AtprotoTest::Server->start(capture('labels.frames.gz'), '--hold-at', $LABELS) } }, $class;

	foreach (split /\n/, slurp_file(make_capture('full.py', 'again', '--keys')))
	{
		my ($name, $did, $first, $second) = split /\t/;
		$self->{who}{$name} = { did => $did, first => $first, second => $second };
	}
	$network->directories({ $PLC => { log => make_capture('plc_full.py', 'log', $NOW), upto => 90 } });
	return $self;
}

# The document of an account of the directory, with the first or second key.
sub document
{
	my ($self, $name, $key) = @_;
	my $did = $self->{who}{$name}{did};

	$network->documents({ $did => $good->($did, key => AtprotoTest::Keys::text_of(pack 'H*', $self->{who}{$name}{$key})) });
	return;
}

sub make
{
	my ($self, $node, $database) = @_;
	my %at = (node => $node, database => $database);
	my ($s, $f, $l) = @{ $self->{servers} }{qw(S F L)};

	query("CREATE DATABASE $database TEMPLATE template0", node => $node);
	query(q{CREATE EXTENSION atproto; CREATE SCHEMA network; CREATE SCHEMA "full"; CREATE SCHEMA labels; CREATE SCHEMA plc; CREATE SCHEMA packed}, %at);
	query(slurp_file(test_dir() . '/lib/every_type.sql'), %at);
	query(q{SELECT atproto.create_tables('network'); SELECT atproto.create_tables('packed', value => 'dagcbor')}, %at);
	query(q{SELECT atproto.partition('network', 'collection', collections => '{app.bsky.feed.post,app.bsky.feed.like}')}, %at);
	query("SELECT atproto.subscribe('plc', 'ws://$PLC/export/stream', target => 'plc', allow_insecure => true)", %at);
	wait_for(q{SELECT seq >= 90 FROM atproto.cursor WHERE subscription = 'plc'}, %at);

	query(subscribe_sql('s', $s, cursor => 0, target => "'network'", events => "'keep'", links => "'all'", count_collections => 'true', headers => q('{"Authorization": "Bearer secret"}')), %at);
	query(subscribe_sql('labels', $l, nsid => 'com.atproto.label.subscribeLabels', cursor => 0, target => "'labels'"), %at);
	wait_for_seq($node, 's',      $HELD - 1,   $database);
	wait_for_seq($node, 'labels', $LABELS - 1, $database);
	query(q{SELECT atproto.count_links('{app.bsky.feed.like:subject.uri,app.bsky.graph.follow:subject}', 'network');
		INSERT INTO packed.record (did, collection, rkey, cid, rev, value) SELECT did, collection, rkey, cid, rev, value::dagcbor FROM network.record WHERE value IS NOT NULL;
		INSERT INTO packed.repo (did, rev) SELECT did, max(rev) FROM packed.record GROUP BY did;
		SELECT atproto.create_view('app.bsky.feed.post', target => 'network');
		SELECT atproto.load_lexicon('{"lexicon": 1, "id": "org.example.own", "defs": {"main": {"type": "record", "key": "any", "record": {"type": "object", "properties": {}}}}}');
		INSERT INTO atproto.web_address VALUES ('https://example.com/{authority}/{rkey}', 'at://{authority}/com.example.record/{rkey}');
		INSERT INTO atproto.gap (subscription, endpoint, after_seq, before_seq, reason) VALUES ('labels', 'x', 1, 2, 'OutdatedCursor')}, %at);

	# level full: two accounts are known when the directory goes away; a trigger refuses the first record of each
	query(q{CREATE TABLE public.allowed (); SELECT atproto.create_tables('full');
		CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN
			IF NEW.rkey::text = '10' AND NOT EXISTS (SELECT FROM public.allowed) THEN
				RAISE EXCEPTION 'not this one' USING ERRCODE = '22000';
			END IF;
			RETURN NEW;
		END $$;
		CREATE TRIGGER refuse BEFORE INSERT ON "full".record FOR EACH ROW EXECUTE FUNCTION public.refuse()}, %at);
	$self->document($_, 'first') foreach 'same', 'turned';
	query(subscribe_sql('full', $f, cursor => 0, target => "'full'", verify => "'full'", events => "'keep'"), %at);
	wait_for("SELECT count(*) = 2 FROM atproto.dead_letter WHERE subscription = 'full'", %at);
	my $away = $network->fault({ host => $PLC, reset => 0 });
	$self->document('turned', 'second');
	$self->document('late',   'first');
	$f->release;
	wait_for_seq($node, 'full', 7, $database);
	wait_for('SELECT count(*) = 4 FROM atproto.held_event', %at);
	# a job that is not due
	query(q{INSERT INTO atproto.repo_job (target, did, subscription, priority, reason, next_try) VALUES ('network', 'did:plc:44ybard66vv44zksje25o7dz', 's', 1, 'break', '2100-01-01')}, %at);
	$self->{away} = $away;
	return;
}

sub note_contents
{
	my ($self, $node, $database) = @_;

	query($NOTE, node => $node, database => $database);
	return;
}

sub at
{
	my ($node) = @_;
	return ('--host', $node->host, '--port', $node->port, '--username', getpwuid($<) // 'postgres');
}

# pg_dump's text without comments, and with names in place of addresses.
sub dump
{
	my ($self, $node, $database) = @_;
	my ($text, $err) = run_command([ 'pg_dump', at($node), '--no-owner', $database ]);

	BAIL_OUT("no dump: $err") if $err ne '';
	$text =~ s/^(?:--.*|\\(?:un)?restrict .*|)\n//mg;
	foreach my $name (keys %{ $self->{servers} })
	{
		my ($port) = $self->{servers}{$name}->url =~ /:(\d+)/;
		$text =~ s/127\.0\.0\.1:$port\b/127.0.0.1:\@$name\@/g;
	}
	my $owner = getpwuid($<) // 'postgres';
	$text =~ s{^(COPY atproto\.subscription \((.*?)\) FROM stdin;\n)(.*?)^(?=\\\.)}{
		my ($head, $rows, @names) = ($1, $3, split /, /, $2);
		my ($n) = grep { $names[$_] eq 'owner' } 0 .. $#names;
		$head . join '', map { my @f = split /\t/, $_, -1; $f[$n] = '@OWNER@'; join("\t", @f) . "\n" } split /\n/, $rows }gmse;
	return $text;
}

sub load
{
	my ($self, $node, $database, $text) = @_;
	my $owner = getpwuid($<) // 'postgres';
	my $file  = PostgreSQL::Test::Utils::tempdir() . '/dump';

	foreach my $name (keys %{ $self->{servers} })
	{
		my ($port) = $self->{servers}{$name}->url =~ /:(\d+)/;
		$text =~ s/\@$name\@/$port/g;
	}
	$text =~ s/\@OWNER\@/$owner/g;
	append_to_file($file, $text);
	query("CREATE DATABASE $database TEMPLATE template0", node => $node);
	return $node->command_ok([ 'psql', at($node), '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-f', $file, $database ], "$database: the dump loads");
}

# The noted queries whose answers differ.
sub differences
{
	my ($node, $database) = @_;
	return query("SELECT query, result, kept.answer(query) FROM kept.expected WHERE kept.answer(query) <> result", node => $node, database => $database);
}

# Resumes everything in databases that were loaded, and compares with what must become of it.
sub go_on
{
	my ($self, $node, @databases) = @_;

	foreach my $database (@databases)
	{
		query(q{INSERT INTO public.allowed DEFAULT VALUES; SELECT atproto.resume(name) FROM atproto.subscription}, node => $node, database => $database);
		# the directory is still away
		wait_for(q{SELECT count(*) = 3 FROM atproto.stat_subscription WHERE state = 'streaming'}, node => $node, database => $database);
	}
	$network->unfault($self->{away});
	$network->directories({ $PLC => { do => { publish => 120 } } });
	$_->release foreach values %{ $self->{servers} };
	foreach my $database (@databases)
	{
		my %at = (node => $node, database => $database);
		my %who = map { $_ => $self->{who}{$_}{did} } keys %{ $self->{who} };

		wait_for_seq($node, 's', $PDS_LAST, $database);
		tables_match($node, capture('pds.frames.gz'), "$database: the stream goes on", database => $database, schema => 'network', modes => [ 'record', 'repo', 'event' ]);
		is(query(q{SELECT events FROM atproto.cursor WHERE subscription = 's'}, %at), $PDS_LAST, "$database: each event once");
		is(query(q{SELECT count(*) FROM atproto.link_problems('network')}, %at), '0', "$database: links are those of the records");
		wait_for(q{SELECT seq = 433 FROM atproto.cursor WHERE subscription = 'labels'}, %at);
		tables_match($node, capture('labels.frames.gz'), "$database: labels", database => $database, schema => 'labels', modes => ['label']);
		wait_for(q{SELECT seq >= 120 FROM atproto.cursor WHERE subscription = 'plc'}, %at);
		is(query(q{SELECT d.did, a.n, a.problem FROM (SELECT DISTINCT did FROM plc.plc_operation) d, LATERAL atproto.plc_audit(d.did, 'plc') a}, %at), '', "$database: the log of the directory holds");
		wait_for_seq($node, 'full', 10, $database);
		sooner_or_later('SELECT count(*) = 0 FROM atproto.held_event', %at);
		is(query('SELECT did, string_agg(rkey::text, $$,$$ ORDER BY rkey) FROM "full".record GROUP BY did ORDER BY did', %at),
			join("\n", sort "$who{same}|20,30", "$who{turned}|20,30,40", "$who{late}|10,20,30"), "$database: R-32: what waited is taken, in its order");
		is(query("SELECT atproto.retry(id) FROM atproto.dead_letter WHERE did = '$who{same}'", %at), 'applied', "$database: a dead letter is tried again");
	}
	return;
}

1;
