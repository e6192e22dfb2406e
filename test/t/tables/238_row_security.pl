# 238_row_security.pl
#		A policy of row security that hides rows of the log of a did:plc directory from the subscription's owner stops the
#		subscription: an operation whose predecessor is hidden would be refused. Without the policy nothing is lost (M-10).

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Network;
use AtprotoTest::Plc;
use AtprotoTest::Preload;
use PostgreSQL::Test::Utils;
use Test::More;

my $network = AtprotoTest::Network->start;
my $node    = make_node(
	'row_security', start => AtprotoTest::Preload->make(network => $network),
	conf => $network->settings . "atproto.reconnect_delay = 50ms\natproto.reconnect_max_delay = 200ms\n");
my $log  = plc_export(operations => 300);
my $last = plc_last($log);

sub wait_for_cursor
{
	my ($seq) = @_;
	wait_for("SELECT seq >= $seq FROM atproto.cursor", gone => 1);
	return;
}

query(<<'SQL');
CREATE ROLE keeper LOGIN;
CREATE SCHEMA kept AUTHORIZATION keeper;
SELECT atproto.create_tables('kept');
SELECT atproto.grant_to('keeper', 'kept', 'subscribe');
SQL
# from the 50th operation on, the first operation with an earlier operation of the same account
my @entries = plc_entries($log);
my ($next) = grep { my $e = $entries[$_]; $e->{operation}{prev} && grep { $_->{did} eq $e->{did} } @entries[ 0 .. $_ - 1 ] } 50 .. $#entries;
my ($before, $seq, $did) = ($entries[ $next - 1 ]{seq}, @{ $entries[$next] }{qw(seq did)});
$network->directories({ $PLC => { log => $log, upto => $before } });
query("SET ROLE keeper; SELECT atproto.subscribe('kept', 'ws://$PLC/export/stream', target => 'kept', allow_insecure => true)");
wait_for_cursor($before);
query(<<"SQL");
ALTER TABLE kept.plc_operation ENABLE ROW LEVEL SECURITY;
CREATE POLICY others ON kept.plc_operation TO keeper USING (did <> '$did');
SQL
$network->directories({ $PLC => { do => { publish => $seq } } });
wait_for("SELECT stopped IS NOT NULL OR (SELECT seq FROM atproto.cursor) >= $seq FROM atproto.subscription");
is(query('SELECT count(*) FROM kept.plc_refused'), '0', 'M-10: the operation is not refused');
like(query('SELECT stopped FROM atproto.subscription'), qr/^row security of table kept.plc_operation may hide rows/, '... the subscription stops, with the reason');
query("ALTER TABLE kept.plc_operation DISABLE ROW LEVEL SECURITY; SELECT atproto.resume('kept')");
$network->directories({ $PLC => { do => { publish => undef } } });
wait_for_cursor($last);
is(query('SELECT count(*) FROM kept.plc_operation'), scalar(() = plc_rows('operation', $log) =~ /\n/g), 'M-10: without the policy all operations are there');
is(query('SELECT count(*) FROM kept.plc_refused'), scalar(() = plc_rows('refused', $log) =~ /\n/g), '... and no other entry was refused');

$node->stop;
$network->stop;
done_testing();
