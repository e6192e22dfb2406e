# 278_erase_reader.pl
#		A reader of the output plugin hears of all that erase() removes: records, the account's state, labels.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Changes;
use Test::More;

my $node   = make_node('erase_reader', changes_conf("max_worker_processes = 20\n"));
my $server = AtprotoTest::Server->start(capture('pds.frames.gz'));
my $labels = AtprotoTest::Server->start(capture('labels.frames.gz'));

make_slot('app');
query(subscribe_sql('s', $server, cursor => 0) . ';' . subscribe_sql('l', $labels, nsid => 'com.atproto.label.subscribeLabels', cursor => 0));
wait_for_seq($node, 's', $PDS_LAST);
wait_for_seq($node, 'l', 433);
my @messages = changes('app', targets => 'atproto');
reader_matches($node, \@messages, 'after the streams');
my ($labeler) = split /\n/, query('SELECT src FROM atproto.label LIMIT 1');
my $handled = query('SELECT did FROM atproto.repo WHERE handle IS NOT NULL LIMIT 1');
my $largest = query('SELECT did FROM atproto.record GROUP BY did ORDER BY count(*) DESC LIMIT 1');
my $labelled = query(q{SELECT substring(uri FROM 'did:[a-z]+:[^/]+') FROM atproto.label WHERE uri ~ 'did:' LIMIT 1});
foreach my $did (grep { $_ ne '' } $handled, $largest, $labelled, $labeler)
{
	query("CALL atproto.erase('$did')");
	push @messages, changes('app', targets => 'atproto');
	reader_matches($node, \@messages, "after the erasure of $did");
}
is(query('SELECT count(*) FROM atproto.label'), '0', 'all labels are gone with their labeler');

$node->stop;
done_testing();
