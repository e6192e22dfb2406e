# 402_clients_others.pl
#		Runs the programs of doc/use/clients.md for JDBC and for Go.  Debian has the drivers, which are not
#		small: libpostgresql-jdbc-java with default-jdk-headless, golang-github-jackc-pgx-v4-dev with
#		golang-go.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Clients;
use PostgreSQL::Test::Utils;
use Test::More;

my ($jar, $gopath) = ('/usr/share/java/postgresql.jar', '/usr/share/gocode');
my $java = -e $jar && works('javac', '-version');
my $go = -d "$gopath/src/github.com/jackc/pgx" && works('go', 'version');
plan skip_all => "there is neither Java with $jar nor Go with pgx" if !$java && !$go;

client_server('others');

SKIP:
{
	skip "there is no javac, or no $jar (libpostgresql-jdbc-java, default-jdk-headless)", 3 if !$java;
	finds('JDBC', [ 'java', '-cp', $jar, program('Bookmarks.java') ]);
}

SKIP:
{
	skip 'there is no Go with pgx (golang-go, golang-github-jackc-pgx-v4-dev)', 3 if !$go;
	local $ENV{GO111MODULE} = 'off';
	local $ENV{GOPATH} = $gopath;
	local $ENV{GOCACHE} = PostgreSQL::Test::Utils::tempdir('go');
	finds('pgx', [ 'go', 'run', program('bookmarks.go') ]);
}

done_testing();
