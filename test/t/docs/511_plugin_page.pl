# 511_plugin_page.pl
#		doc/use/plugin.md: its statements, on a server that can decode.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Changes;
use AtprotoTest::Pages;
use Test::More;

my $node   = make_node('main', changes_conf());
my @blocks = blocks('doc/use/plugin.md', 'sql');

cmp_ok(scalar(@blocks), '>', 0, 'the page has statements');
foreach my $block (@blocks)
{
	my ($status, undef, $err) = $node->psql('postgres', $block->{text});

	is($status, 0, "runs: $block->{name}") or diag($err);
}

done_testing();
