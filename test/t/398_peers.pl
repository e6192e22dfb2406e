# 398_peers.pl
#		bench/peers.sh in a short form: each program comes to the end of its stream,
#		and what a deletion, an update or an account's end leaves is the same.
#
#		Needs what npm install in bench/peers brings.

use strict;
use warnings FATAL => 'all';

use FindBin;
use PostgreSQL::Test::Utils;
use Test::More;

my $bench = "$FindBin::RealBin/../../bench";

plan skip_all => 'bench/peers/node_modules is not there (npm install in bench/peers)' if !-d "$bench/peers/node_modules";

local $ENV{COPIES} = 1;
local $ENV{EVENTS} = 300;
local $ENV{RUNS} = 1;
my ($out, $err) = run_command([ "$bench/peers.sh" ]);
note $out;
is($err, '', 'nothing goes wrong');

my %group = map { /\A(\w+):/ ? ($1 => $_) : () } split /^(?=\S)/m, $out;
for (['pds', qw(skyware plain sync)], ['network', qw(skyware plain sync)], ['full', 'sync'])
{
	my ($name, @programs) = @$_;

	like($group{$name}, qr/^  \Q$_\E +[\d.]+ s /m, "$name: $_ comes to the end") for @programs;
	like($group{$name}, qr/^  $_\b.*; the same rows$/m, "$name: the extension, $_") for 'at', '2 workers';
}
# what @atproto/sync reads otherwise is in bench/README.md
like($group{pds}, qr/^  $_ .*; the same rows$/m, "$_ leaves the rows of the extension") for qw(skyware plain);

done_testing();
