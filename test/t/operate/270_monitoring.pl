# 270_monitoring.pl
#		contrib/monitoring: each query of the exporter's file runs with the rights of role.sql and returns
#		the columns that the file describes; the dashboard and the alarms use existing metrics; each alarm
#		fires in its situation (needs promtool, of the package prometheus).

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Changes;
use HTTP::Tiny;
use JSON::PP;
use PostgreSQL::Test::Utils;
use Test::More;

my $dir  = test_dir() . '/../contrib/monitoring';
my $node = make_node('monitoring', changes_conf());

make_slot('app');

# Something for the metrics to show: a stream that was filtered and cut, with dead letters and a gap.
my $odd    = make_capture('synth.py', 'odd');
my $n      = () = read_capture($odd);
my $server = AtprotoTest::Server->start($odd, '--cut-after', 20, '--cut-times', 1);
$node->safe_psql('postgres', subscribe_sql('watched', $server, cursor => 0, collections => "ARRAY['app.bsky.*']", count_collections => 'true'));
wait_for_seq($node, 'watched', $n);
$node->safe_psql('postgres', "INSERT INTO atproto.gap (subscription, endpoint, after_seq, before_seq, reason) VALUES ('watched', 'x', 1, 9, 'OutdatedCursor')");
# Rows for this hour and the next, as the hour may change during the test.
$node->safe_psql('postgres', "INSERT INTO atproto.collection_count SELECT date_trunc('hour', now(), 'UTC') + n * interval '1 hour', 'watched', 7, 'app.bsky.feed.post', 3, 2, 1
	FROM generate_series(0, 1) n");
$node->safe_psql('postgres', "UPDATE atproto.audit_state SET audited = 9, different = 1, different_at = now()");

$node->safe_psql('postgres', "INSERT INTO atproto.subscription (name, url, target, history) VALUES ('recipes', 'wss://localhost/xrpc/network.bsky.jetstream.subscribeEvents', 'atproto', 'archive');
	INSERT INTO atproto.history (subscription, endpoint) SELECT name, endpoint FROM atproto.subscription WHERE name = 'recipes'");

query("CREATE SCHEMA plc; INSERT INTO atproto.subscription (name, url, target, identities) VALUES ('plc', 'wss://localhost/export/stream', 'plc', true)");

my $readme = slurp_file("$dir/README.md");
my $grants = slurp_file("$dir/role.sql");
my ($role) = $grants =~ /^CREATE ROLE (\w+) /m or BAIL_OUT('role.sql makes no role');
my ($source) = $readme =~ /^DATA_SOURCE_NAME='(.*)'$/m or BAIL_OUT('the README has no DATA_SOURCE_NAME');
$node->safe_psql('postgres', $grants);

# Debian: the exporter's user, and "local all all peer".  A map makes the user of this test that user.
is($role, 'prometheus', 'the role has the name of the user that the exporter runs as');
my $me = getpwuid($<);
$source =~ s/host=\S+/'host=' . $node->host . ' port=' . $node->port/e;
$source =~ s/dbname=\S+/dbname=postgres/;
rename($node->data_dir . '/pg_hba.conf', $node->data_dir . '/pg_hba.trust') or BAIL_OUT("pg_hba.conf: $!");
append_to_file($node->data_dir . '/pg_hba.conf', "local all all peer map=as\n");
append_to_file($node->data_dir . '/pg_ident.conf', "as $me $role\nas $me $me\n");
$node->reload;
my ($as, $why);
run_log([ 'psql', '-XAtd', $source, '-c', 'SELECT current_user' ], '>', \$as, '2>', \$why);
is("$as$why", "$role\n", 'it connects with its DATA_SOURCE_NAME, by peer authentication');
rename($node->data_dir . '/pg_hba.trust', $node->data_dir . '/pg_hba.conf') or BAIL_OUT("pg_hba.conf: $!");
$node->reload;

# The file is YAML; this simple parser is enough for its form.
my %queries;
my $current;
foreach (split /\n/, slurp_file("$dir/queries.yaml"))
{
	if    (/^(\w+):$/)                 { $current = $queries{$1} = { query => '', metrics => [] } }
	elsif (/^  (?:query: \||metrics:)$/) { }
	elsif (/^    - (\w+): \{usage: (LABEL|GAUGE|COUNTER), description: ".+"\}$/) { push @{ $current->{metrics} }, [ $1, $2 ] }
	elsif (/^    (.*)/)                { $current->{query} .= "$1\n" }
	else                               { like($_, qr/^(#.*)?$/, 'a line of the file is understood') }
}
cmp_ok(scalar keys %queries, '>=', 6, 'there are queries');

my %metrics;
foreach my $name (sort keys %queries)
{
	my @described = map { $_->[0] } @{ $queries{$name}{metrics} };
	my @labels = map { $_->[0] } grep { $_->[1] eq 'LABEL' } @{ $queries{$name}{metrics} };
	my ($rc, $out, $err) = $node->psql('postgres', "SET SESSION AUTHORIZATION $role; COPY ($queries{$name}{query}) TO STDOUT WITH (FORMAT csv, HEADER)");
	my ($header, @rows) = split /\n/, $out;

	is($err, '', "$name: runs");
	is_deeply([ split /,/, $header ], \@described, "$name: has the columns that are described");
	cmp_ok(scalar @rows, '>', 0, "$name: has rows");
	my %seen;
	is(scalar(grep { $seen{ join ',', (split /,/)[ 0 .. $#labels ] }++ } @rows), 0, "$name: labels tell them apart");
	is(join(',', @described[ 0 .. $#labels ]), join(',', @labels), "$name: labels come first");

	# An empty value is an absent metric, every non-empty value a number.
	is(scalar(grep { grep { $_ !~ /^(-?[0-9.]+)?$/ } (split /,/, $_, -1)[ $#labels + 1 .. $#described ] } @rows), 0, "$name: values are numbers");
	$metrics{"${name}_$_->[0]"} = 1 foreach grep { $_->[1] ne 'LABEL' } @{ $queries{$name}{metrics} };
}
$node->safe_psql('postgres', "DELETE FROM atproto.subscription WHERE name IN ('recipes', 'plc')");

# The list has every state of the view.
my ($view) = $node->safe_psql('postgres', "SELECT pg_get_viewdef('atproto.stat_subscription')");
my %states = map { $_ => 1 } ($queries{atproto_subscription_state}{query} =~ /'([a-z ]+)'/g);
ok($states{$_}, "state $_ is watched") foreach grep { /\w/ } $view =~ /(?:THEN|ELSE COALESCE\(p\.state,) '([a-z ]+)'/g;
is($node->safe_psql('postgres', "SET SESSION AUTHORIZATION $role; SELECT string_agg(state, ',') FROM ($queries{atproto_subscription_state}{query}) s WHERE current = 1"),
	'streaming', 'one of them is the present one');

# The list has every problem of the view.
($view) = $node->safe_psql('postgres', "SELECT pg_get_viewdef('atproto.repo_problem')");
my %problems = map { $_ => 1 } ($queries{atproto_problems}{query} =~ /'(\w+)'/g);
my %can = map { $_ => 1 } ($view =~ /'(\w+)'::text/g);
delete @can{qw(pg_monitor USAGE done)};
is_deeply([ sort keys %problems ], [ sort keys %can ], 'each problem is counted');

my $dashboard = decode_json(slurp_file("$dir/dashboard.json"));
my @used = map { $_->{expr} } map { @{ $_->{targets} } } @{ $dashboard->{panels} };
cmp_ok(scalar @used, '>=', 10, 'the dashboard shows something');
my @unknown = grep { !$metrics{$_} } map { /(atproto_\w+)/g } @used, map { $_->{definition} // () } @{ $dashboard->{templating}{list} };
is_deeply(\@unknown, [], 'of these metrics');
is(join("\n", grep { my $metrics = () = /atproto_\w+/g; my $chosen = () = /\{database=~"\$database"/g; $metrics != $chosen } @used), '', 'of the chosen databases');
foreach my $file ('README.md', 'alerts.yaml', 'alerts-test.yaml')
{
	my @named = slurp_file("$dir/$file") =~ /\b(atproto_(?:subscription|directory|history|collection|identity|audits|fetcher|hosts|held|repos|problems|dead|gaps|limits)\w+)/g;
	cmp_ok(scalar @named, '>', 0, "$file names metrics");
	is_deeply([ grep { !$metrics{$_} } @named ], [], 'which exist');
}

# Times in metrics, which alarms compare with the time of Prometheus.
is($node->safe_psql('postgres', "SELECT count(*), bool_and(newest_timestamp_seconds BETWEEN EXTRACT(epoch FROM now()) - 3600 AND EXTRACT(epoch FROM now()))
	FROM ($queries{$_}{query}) q") =~ s/^[1-9]\d*\|//r, 't', "$_: when the last one came") foreach 'atproto_dead_letters', 'atproto_gaps';

SKIP:
{
	skip 'no promtool', 2 if system('promtool --version >/dev/null 2>&1') != 0;

	my ($out, $rc);
	foreach my $command ('check rules alerts.yaml', 'test rules alerts-test.yaml')
	{
		$out = `cd '$dir' && promtool $command 2>&1`;
		$rc = $?;
		is($rc, 0, "promtool $command") or diag($out);
	}
}

# One exporter of two databases, which have a subscription of the same name.
SKIP:
{
	skip 'no prometheus-postgres-exporter', 6 if system('prometheus-postgres-exporter --version >/dev/null 2>&1') != 0;

	my ($arguments) = $readme =~ /^ARGS='(--auto.*)'$/m or BAIL_OUT('the README has no ARGS for two databases');
	my ($further) = $readme =~ /^(grep -v .* role\.sql) \|/m or BAIL_OUT('the README has no command for a further database');
	my $port = PostgreSQL::Test::Cluster::get_free_port();

	query('CREATE DATABASE second');
	query('CREATE EXTENSION atproto; ' . `cd '$dir' && $further`, database => 'second');
	query(q{INSERT INTO atproto.subscription (name, url) VALUES ('watched', 'wss://localhost:1')}, database => 'second');
	$arguments = $arguments =~ s{/path/to/contrib/monitoring}{$dir}r =~ s/mydb/postgres/r;
	local $ENV{DATA_SOURCE_NAME} = $source;
	my $exporter = IPC::Run::start([ 'prometheus-postgres-exporter', "--web.listen-address=127.0.0.1:$port", split / /, $arguments ], '>&', PostgreSQL::Test::Utils::tempdir() . '/exporter');
	my $answer;
	wait_until(sub { $answer = HTTP::Tiny->new(timeout => 30)->get("http://127.0.0.1:$port/metrics"); $answer->{status} != 599 }, 'the exporter to listen');
	is($answer->{status}, 200, 'the exporter answers') or diag($answer->{content});
	foreach my $database ('postgres', 'second')
	{
		like($answer->{content}, qr/^atproto_subscription_running\{database="$database",server="[^"]*",subscription="watched"\} [01]$/m, "$database: a subscription");
		like($answer->{content}, qr/^atproto_fetcher_running\{database="$database",/m, "$database: what is there once");
	}
	like($answer->{content}, qr/^pg_exporter_last_scrape_error 0$/m, 'without an error');
	$exporter->kill_kill;
}

# Without the rights beyond pg_monitor, all but the last three work.
$node->safe_psql('postgres', 'CREATE ROLE monitor LOGIN; GRANT pg_monitor TO monitor');
my @fails = grep { ($node->psql('postgres', "SET SESSION AUTHORIZATION monitor; $queries{$_}{query}"))[0] != 0 } sort keys %queries;
is("@fails", 'atproto_collection atproto_dead_letters atproto_gaps', 'pg_monitor alone is enough for the others');

$node->stop;
done_testing();
