# 400_clients_python.pl
#		doc/clients.md: the programs in Python.  Debian's packages (make packages) have the drivers.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../lib";

use AtprotoTest;
use AtprotoTest::Clients;
use Test::More;

my $python = $ENV{PYTHON} || '/usr/bin/python3';

client_server('python');
is(query('SELECT count(*) FROM api.app_bsky_feed_post'), 24, 'there are posts of the active accounts');
foreach (
	[ 'with_psycopg3.py',   'psycopg' ],
	[ 'with_psycopg2.py',   'psycopg2' ],
	[ 'with_asyncpg.py',    'asyncpg' ],
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

done_testing();
