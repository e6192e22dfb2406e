# 400_clients_python.pl
#		Runs the Python programs of doc/use/clients.md.  Debian's packages (make packages) have the drivers.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Clients;
use AtprotoTest::Pages;
use PostgreSQL::Test::Utils;
use Test::More;

my $python = $ENV{PYTHON} || '/usr/bin/python3';

client_server('python');
is(query('SELECT count(*) FROM api.app_bsky_feed_post'), 24, 'there are posts of the active accounts');
foreach (
	[ 'with_psycopg3.py',   'psycopg' ],
	[ 'with_psycopg2.py',   'psycopg2' ],
	[ 'with_asyncpg.py',    'asyncpg' ],
	[ 'with_asyncpg_copy.py', 'asyncpg' ],
	[ 'with_sqlalchemy.py', 'psycopg2, sqlalchemy' ],
	[ 'with_sqlalchemy.py', 'psycopg, sqlalchemy.dialects.postgresql.psycopg', scheme => 'postgresql+psycopg' ])
{
	my ($program, $modules, @options) = @$_;

  SKIP:
	{
		skip "$python has no $modules", 3 unless works($python, '-c', "import $modules");
		finds("$program, $modules", [ $python, '-B', program($program) ], @options);
	}
}

# The page's statements about arrays, and about COPY without a codec.
my $arrays = q{import os, sys, %1$s; c = %1$s.connect(os.environ["DATABASE_URL"]).cursor(); c.execute("SELECT %2$s"); sys.stdout.write(type(c.fetchone()[0]).__name__)};
my $copy = q{
import asyncio, os, asyncpg
async def main():
    connection = await asyncpg.connect(os.environ["DATABASE_URL"])
    await connection.copy_records_to_table("bookmark", schema_name="api", columns=["owner", "uri"], records=[("did:web:a.b", "at://did:web:a.b/a.b.c/self")])
asyncio.run(main())
};
$ENV{DATABASE_URL} = client_url('app');
foreach my $module ('psycopg', 'psycopg2')
{
  SKIP:
	{
		skip "$python has no $module", 2 unless works($python, '-c', "import $module");
		is((run_command([ $python, '-c', sprintf($arrays, $module, q{'{did:web:a.b}'::did[]}) ]))[0], 'str', "$module: did[] is one string");
		is((run_command([ $python, '-c', sprintf($arrays, $module, q{'{did:web:a.b}'::did[]::text[]}) ]))[0], 'list', "$module: text[] a list");
	}
}
SKIP:
{
	skip "$python has no psycopg", 1 unless works($python, '-c', 'import psycopg');
	my ($load) = map { $_->{text} =~ /^(connection\.execute\(.*load_car.*)$/m } blocks('doc/use/clients.md', 'python');
	local $ENV{DATABASE_URL} = client_url('postgres');
	my (undef, $error) = run_command([ $python, '-c', qq{import os, psycopg; did = "did:web:a.b"; car = b"\\0"; connection = psycopg.connect(os.environ["DATABASE_URL"]); $load} ]);
	like($error, qr/schema "network" does not exist/, 'load_car() takes the bytes that Python sends');
}
SKIP:
{
	skip "$python has no asyncpg", 1 unless works($python, '-c', 'import asyncpg');
	my (undef, $error) = run_command([ $python, '-c', $copy ]);
	like($error, qr/no binary format encoder for type did/, 'asyncpg: COPY needs a codec');
}

done_testing();
