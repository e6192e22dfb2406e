# 398_peers.pl
#		Runs bench/peers.sh in a short form: each compared program reaches the end of its stream, and
#		deletions, updates and ended accounts leave the same rows in each.
#
#		Needs the packages of npm install in bench/peers.

use strict;
use warnings FATAL => 'all';

use FindBin;
use PostgreSQL::Test::Utils;
use Test::More;

my $bench = "$FindBin::RealBin/../../../bench";

plan skip_all => 'bench/peers/node_modules is not there (npm install in bench/peers)' if !-d "$bench/peers/node_modules";

local $ENV{COPIES} = 1;
local $ENV{EVENTS} = 300;
local $ENV{RUNS} = 1;
my ($out, $err) = run_command([ "$bench/peers.sh" ]);
note $out;
is($err, '', 'nothing goes wrong');

# last column: how many rows are not the extension's
my %differ = $out =~ /^\| (.*?) \|.* (\d+) \|$/mg;
is_deeply([ sort keys %differ ],
	[ 'network, unverified, 300 events: `plain`', 'network, unverified, 300 events: `skyware`', 'network, unverified, 300 events: `sync`',
	  'network, verified, 300 events: `sync`',
	  'pds, unverified, 1600 events: `plain`', 'pds, unverified, 1600 events: `skyware`', 'pds, unverified, 1600 events: `sync`' ],
	'each comes to the end of each stream');

# bench/peers/README.md explains the differences of @atproto/sync
is($differ{"pds, unverified, 1600 events: `$_`"}, 0, "$_ leaves the rows of the extension") for qw(skyware plain);

done_testing();
