# AtprotoTest/Citus.pm
#		Clusters of PostgreSQL with Citus: a coordinator, which has the extension's
#		processes, and workers, which have the rows.  Debian has no package of Citus: the tests use the
#		Citus installed in the PostgreSQL under test, or in the PostgreSQL whose pg_config
#		ATPROTO_CITUS names (test/citus/build makes such an installation).
#
#		plan skip_all => $why if my $why = AtprotoTest::Citus::missing();
#		my ($node, @workers) = make_citus('c', workers => 2);
#		query(q{SELECT atproto.distribute('atproto')});
#		stop_citus();

package AtprotoTest::Citus;

use strict;
use warnings FATAL => 'all';

use AtprotoTest;
use AtprotoTest::Installation;
use Exporter qw(import);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

our @EXPORT = qw(make_citus add_worker add_standby stop_citus $CITUS_CONF);

# Nothing is reported to anybody; what a crash left undecided is settled soon.
our $CITUS_CONF = <<'EOF_CONF';
listen_addresses = '127.0.0.1'
citus.node_conninfo = 'sslmode=disable'
citus.enable_statistics_collection = off
citus.recover_2pc_interval = 1s
max_prepared_transactions = 100
max_connections = 100
wal_level = replica
max_wal_senders = 5
EOF_CONF

my $installation;
my @nodes;

# Why it cannot be tested here; undef: it can.
sub missing
{
	chomp(my $sharedir = `pg_config --sharedir`);
	return if -e "$sharedir/extension/citus.control";
	return 'this PostgreSQL has no Citus, and ATPROTO_CITUS names no pg_config of one that has: see test/citus/build'
	  unless $ENV{ATPROTO_CITUS};
	return "ATPROTO_CITUS: $ENV{ATPROTO_CITUS} does not run" unless -x $ENV{ATPROTO_CITUS};
	$installation = AtprotoTest::Installation->new($ENV{ATPROTO_CITUS});
	$installation->install;
	return;
}

sub node_options
{
	return $installation ? (install_path => $installation->install_path) : ();
}

sub add_worker
{
	my ($coordinator, $name, %o) = @_;
	my $worker = make_node($name, node_options(), preload => 0, start => 0, create => 0,
		conf => "shared_preload_libraries = 'citus'\n$CITUS_CONF" . ($o{conf} // ''));

	$worker->start;
	$worker->safe_psql('postgres', 'CREATE EXTENSION citus');
	push @nodes, $worker;
	ask_from_now_on($coordinator);
	query("SELECT citus_add_node('127.0.0.1', " . $worker->port . ')');
	return $worker;
}

# An asynchronous standby of a worker, which runs.
sub add_standby
{
	my ($worker, $name) = @_;
	my $standby = PostgreSQL::Test::Cluster->new($name, node_options());

	$worker->backup($name);
	$standby->init_from_backup($worker, $name, has_streaming => 1);
	$standby->start;
	push @nodes, $standby;
	return $standby;
}

# The coordinator and its workers; the data tables are there, and not distributed yet.
# Options: workers => n, conf => more of each one's postgresql.conf, start => what starts the coordinator (an AtprotoTest::Preload).
sub make_citus
{
	my ($name, %o) = @_;
	my $node = make_node($name, node_options(), create => 0, start => $o{start},
		conf => "shared_preload_libraries = 'citus,atproto'\n$CITUS_CONF" . ($o{conf} // ''));

	push @nodes, $node;
	query('CREATE EXTENSION citus');
	query("SELECT citus_set_coordinator_host('127.0.0.1', " . $node->port . ')');
	query(q{CREATE EXTENSION atproto; SELECT atproto.create_tables('atproto')});
	my @workers = map { add_worker($node, "${name}_w$_", %o) } 1 .. $o{workers} // 2;
	return ($node, @workers);
}

# The coordinator ends first, and is checked before; a check on a worker would ask servers that have ended.
sub stop_citus
{
	my ($coordinator, @workers) = @nodes;

	$coordinator->stop;
	$_->stop('immediate') foreach @workers;
	return;
}

1;
