# 401_clients_node.pl
#		doc/clients.md: the programs in JavaScript.
#
#		Needs what npm install in test/clients brings.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../lib";

use AtprotoTest;
use AtprotoTest::Clients;
use Test::More;

my $packages = npm_packages();
plan skip_all => 'test/clients/node_modules is not there (npm install in test/clients)' if !$packages;

client_server('node');
foreach my $name ('with_pg.mjs', 'with_postgresjs.mjs', 'with_drizzle.mjs')
{
	my $program = program($name, $packages);    # so that Node finds the packages
	finds($name, [ "$packages/node_modules/.bin/node", $program ]);
	unlink $program;
}

done_testing();
