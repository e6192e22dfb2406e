# 271_compose.pl
#		contrib/docker, as far as a test without a container engine can try it: every file that compose.yaml
#		mounts exists; init.sh creates the extension and the exporter's role, with any password; Compose and
#		Prometheus accept their files (where docker-compose 2 and promtool are installed).

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use File::Basename qw(basename);
use File::Copy qw(copy);
use PostgreSQL::Test::Utils;
use Test::More;

my $dir     = test_dir() . '/../contrib/docker';
my $compose = slurp_file("$dir/compose.yaml");

# Each mounted file exists, and every file of the folder is mounted.
my %mounted = $compose =~ m{^      - (\.[./\w-]+):(/\S+):ro$}mg;
ok(-f "$dir/$_", "$_ exists") foreach sort keys %mounted;
opendir(my $dh, $dir) or BAIL_OUT("$dir: $!");
my %used = map { basename($_) => 1 } keys %mounted;
is(join(' ', grep { !/^\./ && $_ ne 'README.md' && $_ ne 'compose.yaml' && !$used{$_} } sort readdir $dh), '', 'every file of the folder is mounted');
ok(-x "$dir/init.sh", 'init.sh can be executed');

# Ports are bound to this machine only, and no password is written down.
is(scalar(grep { !/^127\.0\.0\.1:/ } $compose =~ /^    ports:\n      - (\S+)$/mg), 0, 'no port is open to others');
is(scalar(grep { !/^\$\{/ } $compose =~ /PASS(?:WORD)?: (\S+)/g), 0, 'passwords come from outside');

# The database as init.sh leaves it.
my $node = make_node('compose', create => 0);
my $password = q{it's "a" $(secret) \\ 100%};
$node->safe_psql('postgres', 'CREATE DATABASE atproto TEMPLATE template0 ENCODING UTF8');
{
	local @ENV{qw(PGHOST PGPORT POSTGRES_USER POSTGRES_DB EXPORTER_PASSWORD ROLE_SQL)} =
	  ($node->host, $node->port, scalar getpwuid($<), 'atproto', $password, test_dir() . '/../contrib/monitoring/role.sql');
	ok(run_log([ "$dir/init.sh" ]), 'init.sh runs');
}
is($node->safe_psql('atproto', "SELECT extname FROM pg_extension WHERE extname = 'atproto'"), 'atproto', 'the extension is there');
my $hba = slurp_file($node->data_dir . '/pg_hba.conf');
open(my $fh, '>', $node->data_dir . '/pg_hba.conf') or BAIL_OUT($!);
print $fh "local all prometheus scram-sha-256\n$hba";
close $fh;
$node->reload;
{
	local $ENV{PGPASSWORD} = $password;
	my ($rc, $out, $err) = $node->psql('atproto', 'SELECT count(*) FROM atproto.stat_subscription', extra_params => [ '-U', 'prometheus' ]);
	is("$out$err", '0', 'the exporter connects with its password');
	local $ENV{PGPASSWORD} = 'another';
	($rc) = $node->psql('atproto', 'SELECT 1', extra_params => [ '-U', 'prometheus' ]);
	isnt($rc, 0, 'and with no other');
}

SKIP:
{
	my ($out, $err);
	skip 'no docker-compose 2', 2 if `sh -c 'docker-compose version' 2>/dev/null` !~ /version v?2/;
	local $ENV{POSTGRES_PASSWORD} = 'x';
	ok(run_log([ 'docker-compose', '-f', "$dir/compose.yaml", 'config' ], '>', \$out, '2>', \$err), 'Compose understands it') or diag($err);
	delete local $ENV{POSTGRES_PASSWORD};
	ok(!run_log([ 'docker-compose', '-f', "$dir/compose.yaml", 'config' ], '>', \$out, '2>', \$err), 'and wants a password');
}

SKIP:
{
	my $flat = PostgreSQL::Test::Utils::tempdir();
	skip 'no promtool', 1 if system('promtool --version >/dev/null 2>&1') != 0;
	copy("$dir/prometheus.yaml", $flat) && copy("$dir/../monitoring/alerts.yaml", $flat) or BAIL_OUT($!);
	ok(run_log([ 'promtool', 'check', 'config', "$flat/prometheus.yaml" ]), 'Prometheus accepts its configuration');
}

done_testing();
