# 401_clients_node.pl
#		Runs the JavaScript programs of doc/use/clients.md.
#
#		Needs the packages of npm install in test/clients.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Clients;
use Cwd;
use PostgreSQL::Test::Utils;
use Test::More;

my $dir = npm_directory() or plan skip_all => $NO_NPM;

client_server('node');
finds($_, [ 'node', program($_, $dir) ]) foreach 'with_pg.mjs', 'with_postgresjs.mjs', 'with_drizzle.mjs';

# Generates Prisma's client.  The generator would download a schema engine, which it does not use: give it
# /bin/true.
program($_, $dir) foreach 'schema.prisma', 'prisma.config.mjs';
{
	local $ENV{PRISMA_SCHEMA_ENGINE_BINARY} = '/bin/true';
	local $ENV{CHECKPOINT_DISABLE} = 1;
	local $ENV{DATABASE_URL} = client_url('app');
	my $before = getcwd();

	chdir $dir or die "cannot chdir to $dir: $!";
	ok(works('prisma', 'generate'), 'the client is generated');
	chdir $before or die "cannot chdir to $before: $!";
}
finds('with_prisma.mjs', [ 'node', program('with_prisma.mjs', $dir) ]);

# The page's statement about arrays.
$ENV{DATABASE_URL} = client_url('app');
append_to_file("$dir/array.mjs", q{import pg from 'pg'; const c = new pg.Client({ connectionString: process.env.DATABASE_URL }); await c.connect();
console.log(typeof (await c.query("SELECT '{did:web:a.b}'::did[] AS d")).rows[0].d); await c.end();});
is((run_command([ 'node', "$dir/array.mjs" ]))[0], 'string', 'node-postgres: did[] is one string');

done_testing();
