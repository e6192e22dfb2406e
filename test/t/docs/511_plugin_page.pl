# 511_plugin_page.pl
#		doc/use/plugin.md: its statements, on a server that can decode.  The library is not preloaded: the plugin needs no
#		process of the extension (O-20).

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Changes;
use AtprotoTest::Pages;
use Test::More;

my $node   = make_node('main', changes_conf(), preload => 0);
my @blocks = blocks('doc/use/plugin.md', 'sql');

cmp_ok(scalar(@blocks), '>', 0, 'the page has statements');
foreach my $block (@blocks)
{
	my ($status, undef, $err) = $node->psql('postgres', $block->{text});

	is($status, 0, "runs: $block->{name}") or diag($err);
}
query(q{INSERT INTO atproto.repo (did) VALUES ('did:plc:z72i7hdynmk6r22z27h6tvur'); INSERT INTO atproto.record (did, collection, rkey, cid, rev, value) VALUES ('did:plc:z72i7hdynmk6r22z27h6tvur', 'app.bsky.feed.post', 'a',
	'bafyreigh2akiscaildcqabsyg3dfr6chu3fgpregiymsck7e7aqa4s52zy', '3jwdwj2ctlk26', '{}')});
like(join("\n", peek('app')), qr/"operation":"create".*"rkey":"a"/, 'O-20: a change is told without preloading');
query('DROP TABLE atproto.label CASCADE');
is(join("\n", grep { /purge/ } peek('app')), '', 'but not that a table was dropped');

done_testing();
