# 515_packed_twin.pl
#		Each stream fills two targets, one with values of jsonb and one with values of dagcbor.  Records, events, links,
#		counts, repositories, letters, exports and the findings of check() must be the same: with a recorded server,
#		invalid and hostile records, and a simulated network; with one worker and with three, in months, and through the
#		end of a consumer.  Letters are tried again after the tables have got the other type, and two subscriptions
#		exchange their targets in mid-stream.  F-03, B-30.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use Test::More;

delete $ENV{ATPROTO_VALUE};
my ($simulated) = simulate('--events' => 1500, '--accounts' => 30, '--history' => 0, '--mix' => 'account=4,delete=8,update=8,sync=1,identity=1,profile=2');
my %captures = (
	pds       => capture('pds.frames.gz'),
	odd       => make_capture('synth.py', 'odd'),
	hostile   => make_capture('hostile.py', 'records'),
	simulated => $simulated);
# (an audit of the fetcher would change a repository in one target first)
my $node    = make_node('packed_twin', conf => "max_worker_processes = 60\natproto.reconnect_delay = 50ms\natproto.audits = off\n");
my $counted = q{'{app.bsky.feed.like:subject.uri,app.bsky.graph.follow:subject}'};
my %options = (cursor => 0, events => "'keep'", links => "'all'", validate => "'flag'", count_collections => 'true');

# The digest of a repository's CAR file, or the error of repo_car().
query(q{CREATE FUNCTION exported(did did, target name) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	RETURN md5(atproto.repo_car(did, target));
EXCEPTION WHEN OTHERS THEN
	RETURN replace(SQLERRM, target, '#');
END$$});

my %same = (
	record         => 'SELECT did, collection, rkey, cid, rev, value::jsonb, fault FROM #.record',
	visible_record => 'SELECT did, collection, rkey, cid, value::jsonb FROM #.visible_record',
	record_event   => 'SELECT seq, action, did, collection, rkey, rev, cid, value::jsonb, old_cid, old_value::jsonb FROM #.record_event',
	link           => 'SELECT target, collection, path, rkey, did FROM #.link l JOIN #.link_source s ON s.id = l.source',
	link_count     => 'SELECT target, collection, path, n FROM #.link_count c JOIN #.link_source s ON s.id = c.source',
	# (an earlier proof of a repository depends on the batches: a batch stores the last state only)
	repo           => q{SELECT did, rev, "commit", data, active, status, handle, sync, CASE WHEN sync = 'synchronized' THEN proved END FROM #.repo},
	repo_car       => q{SELECT did, exported(did, '#') FROM #.repo},
	audit          => q{SELECT did, a.equal, a.records FROM #.repo, LATERAL atproto.audit(did, '#', deep => true) a},
	check          => q{SELECT what, did, object, replace(detail, '#', '') FROM atproto.check('#', deep => true)},
	letters        => q{SELECT seq, stage, sqlstate, replace(message, '#', ''), did, path, attempts FROM atproto.dead_letter WHERE subscription = '#'});

# The two targets have the same in everything.
sub twins_match
{
	my ($jsonb, $packed, $name, @but) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	foreach my $what (sort keys %same)
	{
		next if grep { $_ eq $what } @but;
		my ($a, $b) = map { $same{$what} =~ s/#/$_/gr } $jsonb, $packed;
		is(query("SELECT count(*) FROM (($a EXCEPT ALL $b) UNION ALL ($b EXCEPT ALL $a)) d"), '0', "$name: $what")
		  or diag(query("SELECT left(d::text, 600) FROM (($a EXCEPT ALL $b) UNION ALL ($b EXCEPT ALL $a)) d LIMIT 4"));
	}
	is(query("SELECT count(*) FILTER (WHERE p.value IS NULL), count(p.raw), count(*) FILTER (WHERE p.value::bytea <> j.raw)"
			. " FROM $packed.record p JOIN $jsonb.record j USING (did, collection, rkey)"),
		'0|0|0', "$name: each value is there, and is the bytes that jsonb cannot hold");
	return;
}

# Makes a schema with jsonb and a schema with dagcbor, and runs the statements in both, with the schema's name for #.
sub make_twins
{
	my ($name, $more) = @_;

	foreach my $schema ("${name}_j", "${name}_p")
	{
		my $type = $schema =~ /_p$/ ? 'dagcbor' : 'jsonb';

		query("CREATE SCHEMA $schema; SELECT atproto.create_tables('$schema', value => '$type'); SELECT atproto.count_links($counted, '$schema')");
		query($more =~ s/#/$schema/gr) if $more;
	}
	return ("${name}_j", "${name}_p");
}

# the simulated network began months ago, and the recorded server wrote in November 2026: before the months that partition()
# makes for empty tables
expect_check('month without a partition', qr/(?:pds|simulated)_months_$_/) foreach 'j', 'p';

# --- programs, at two levels, with one worker and with three in months ---

my %ways = (
	one    => { more => '', args => { verify => "'chain'" } },
	months => { more => "SELECT atproto.partition('#', 'month')", args => { verify => "'hash'", workers => 3 } });

foreach my $way (sort keys %ways)
{
	my @twins;

	foreach my $program (sort keys %captures)
	{
		my $last   = read_capture($captures{$program});
		my $half   = int($last / 2);
		my $server = AtprotoTest::Server->start($captures{$program}, '--hold-at', $half);
		my @pair   = make_twins("${program}_$way", $ways{$way}{more});

		push @twins, { name => "$program, $way", server => $server, half => $half, last => $last, pair => \@pair };
		query(subscribe_sql($_, $server, target => "'$_'", %options, %{ $ways{$way}{args} })) foreach @pair;
	}
	foreach my $twin (@twins)
	{
		wait_for_seq($node, $_, $twin->{half} - 1) foreach @{ $twin->{pair} };
	}

	# the crash of a process ends all processes of the server
	if ($way eq 'one')
	{
		my $pid = query("SELECT min(pid) FROM pg_stat_activity WHERE backend_type = 'atproto consumer'");

		kill 'KILL', $pid or BAIL_OUT('the consumer is not there');
		# (until the restart, the view shows the killed process)
		wait_for("SELECT count(*) > 0 AND bool_and(pid <> $pid) FROM pg_stat_activity WHERE backend_type = 'atproto consumer'", gone => 1);
	}
	$_->{server}->release foreach @twins;
	foreach my $twin (@twins)
	{
		wait_for_seq($node, $_, $twin->{last}) foreach @{ $twin->{pair} };
		twins_match(@{ $twin->{pair} }, $twin->{name});
		is(query("SELECT count(*) > 0, count(*) FILTER (WHERE value IS NULL) > 0 FROM $twin->{pair}[0].record"), $twin->{name} =~ /simulated/ ? 't|f' : 't|t', "$twin->{name}: there are records, and some that jsonb cannot hold");
		is(query("SELECT count(*) > 0 FROM $twin->{pair}[0].$_"), 't', "$twin->{name}: there is something in $_") foreach 'record_event', $twin->{name} =~ /pds|simulated/ ? ('link', 'link_count') : ();
		is(query("SELECT count(*) > 0 FROM $twin->{pair}[0].repo WHERE exported(did, '$twin->{pair}[0]') ~ '^[0-9a-f]{32}\$'"), 't', "$twin->{name}: there are exports") if $twin->{name} =~ /pds|simulated/;
		is(query("SELECT count(*) > 20 FROM atproto.dead_letter WHERE subscription = '$twin->{pair}[0]'"), 't', "$twin->{name}: there are letters") if $twin->{name} =~ /odd/;
		query("SELECT atproto.unsubscribe('$_')") foreach @{ $twin->{pair} };
		$twin->{server}->stop;
	}
}

# --- letters are tried again after the tables have got the other type ---

my $server  = AtprotoTest::Server->start($captures{pds});
my @letters = make_twins('letters', q{
CREATE FUNCTION #.refuse() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN IF hashtext(NEW.rkey::text) % 10 = 0 THEN RAISE $x$not this one$x$; END IF; RETURN NEW; END$$;
CREATE TRIGGER refuse BEFORE INSERT OR UPDATE ON #.record FOR EACH ROW EXECUTE FUNCTION #.refuse()});

query(subscribe_sql($_, $server, target => "'$_'", %options)) foreach @letters;
wait_for_seq($node, $_, $PDS_LAST) foreach @letters;
cmp_ok(query("SELECT count(*) FROM atproto.dead_letter WHERE subscription = 'letters_p'"), '>', 50, 'there are letters');
twins_match(@letters, 'letters');
foreach my $schema (@letters)
{
	my ($type, $raw, $to) = $schema =~ /_j$/ ? ('dagcbor', 'NULL::bytea', 'coalesce(raw::dagcbor, value::dagcbor)') : ('jsonb', 'CASE WHEN value::jsonb IS NULL THEN value::bytea END', 'value::jsonb');

	query("BEGIN; DROP VIEW $schema.visible_record; ALTER TABLE $schema.record DISABLE TRIGGER refuse, ALTER value TYPE $type USING $to, ALTER raw TYPE bytea USING $raw;"
		. " ALTER TABLE $schema.record_event ALTER value TYPE $type USING $to, ALTER raw TYPE bytea USING $raw, ALTER old_value TYPE $type USING old_value::$type;"
		. " SELECT atproto.create_tables('$schema'); COMMIT");
}
# (from the first to the last: the application of a record's later letter makes an earlier letter obsolete)
is(query("SELECT DISTINCT subscription, atproto.retry(id) FROM (SELECT subscription, id FROM atproto.dead_letter WHERE subscription = '$_' ORDER BY id OFFSET 0) l"),
	"$_|applied", "$_: each letter is applied") foreach @letters;
twins_match(reverse(@letters), 'letters tried again', 'letters');
query("SELECT atproto.unsubscribe('$_')") foreach @letters;
$server->stop;

# --- two subscriptions exchange their targets in mid-stream, and exchange them again ---

my @holds = (600, 1200);
$server = AtprotoTest::Server->start($captures{pds}, map { ('--hold-at', $_) } @holds);
my @moved = make_twins('moved');

query(subscribe_sql($_, $server, target => "'$_'", %options, verify => "'hash'")) foreach @moved;
foreach my $hold (@holds)
{
	wait_for_seq($node, $_, $hold - 1) foreach @moved;
	query("UPDATE atproto.subscription SET target = CASE target WHEN 'moved_j' THEN 'moved_p' ELSE 'moved_j' END");
	wait_for("SELECT settings_after = $hold - 1 FROM atproto.cursor WHERE subscription = '$_'") foreach @moved;
	$server->release;
}
wait_for_seq($node, $_, $PDS_LAST) foreach @moved;
twins_match(@moved, 'exchanged');
is(query("SELECT count(*), sum(events) FROM atproto.cursor"), '2|' . 2 * $PDS_LAST, 'each event was applied once');
tables_match($node, $captures{pds}, 'exchanged', schema => 'moved_p', modes => [ 'record', 'repo' ]);

$node->stop;
done_testing();
