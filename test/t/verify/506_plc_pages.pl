# 506_plc_pages.pl
#		Pages of a did:plc directory (M-12): one connection stays open for all pages, and the consumer asks for the next page before the
#		present page was read.  When a server closes, compresses, cuts, or asks for a pause, nothing is lost.
#
#		500_plc spoils lines of pages; this test spoils answers.

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
	'plc_pages', start => AtprotoTest::Preload->make(network => $network),
	conf => $network->settings . <<'CONF');
max_worker_processes = 20
atproto.reconnect_delay = 50ms
atproto.reconnect_max_delay = 200ms
CONF
my $log     = plc_export(operations => 600, wrong => 20, seed => seed());
my @numbers = map { 0 + (/"seq": ?(\d+)/)[0] } split /\n/, slurp_file($log);
my $rows    = plc_rows('operation', $log);
my $page    = 50;

# Reads the log by pages, with a fault of the answers; returns the requests for pages in the order of arrival.
sub read_pages
{
	my ($what, %o) = @_;
	my $since = scalar $network->log;

	$network->directories({ $PLC => { log => $log, oldest => $numbers[-1] + 1, page => $page } });
	$network->fault({ host => $PLC, path => '^/export\?', %{ $o{fault} } }) if $o{fault};
	query("CREATE SCHEMA p; SELECT atproto.subscribe('p', '" . ($o{scheme} // 'ws') . "://$PLC/export/stream', target => 'p', allow_insecure => true"
		. ($o{options} // '') . ')');
	$o{meanwhile}->() if $o{meanwhile};
	wait_for("SELECT count(*) > 0 FROM atproto.cursor WHERE subscription = 'p' AND seq = $numbers[-1]");
	is(query('SELECT count(*) FROM p.plc_operation'), scalar(() = $rows =~ /\n/g), "M-12: $what: the whole log");
	query("SELECT atproto.unsubscribe('p'); DROP SCHEMA p CASCADE");
	$network->unfault(undef);
	return grep { ($_->{path} // '') =~ m{^/export\?} } $network->log(host => $PLC, since => $since);
}

sub connections
{
	my %of = map { ($_->{connection} => 1) } @_;
	return scalar keys %of;
}

# The positions in the requests.
sub begins
{
	return map { ($_->{path} =~ /after=(\d+)/)[0] } @_;
}

# --- one connection, two pages in flight ---

foreach my $scheme ('ws', 'wss')
{
	my @asked = read_pages($scheme, scheme => $scheme, options => ", ca_file => '" . $network->ca_file . "'");
	my %is_number = map { ($_ => 1) } 0, @numbers;

	cmp_ok(connections(@asked), '<=', 5, "M-12: $scheme: pages come on few connections") or diag(join ' ', map { "$_->{connection}: $_->{path}" } @asked);
	cmp_ok(scalar(grep { !$is_number{$_} } begins(@asked)), '>=', 5, "M-12: $scheme: pages are asked for before the end of the page before is known");
	cmp_ok(scalar(@asked), '<=', 2 * @numbers / $page + 8, "M-12: $scheme: ... and few of their lines come twice");
	is(scalar(grep { ($_->{headers}{'accept-encoding'} // '') ne 'gzip' } @asked), 0, "M-12: $scheme: gzip is asked for");
}

# --- other answers ---

my %fault = (
	'gzip' => { gzip => 1 }, 'chunks' => { chunks => 3 }, 'gzip in chunks' => { gzip => 1, chunks => 0 },
	'cut' => { truncate => 3000, after => 3, times => 1 }, 'cut gzip' => { gzip => 1, truncate => 3000, after => 4, times => 1 },
	'reset' => { reset => 3000, after => 4, times => 1 }, 'a byte of gzip' => { gzip => 1, xor => 2000, after => 3, times => 1 },
	'zeros' => { bomb => 64, after => 3, times => 1 }, 'empty members' => { empty_members => 1, after => 4, times => 1 },
	'not gzip' => { headers => { 'Content-Encoding' => 'gzip' }, after => 3, times => 1 },
	'another compression' => { headers => { 'Content-Encoding' => 'br' }, after => 4, times => 1 },
	'cut head' => { reset => 20, after => 4, times => 1 });
foreach my $what (sort keys %fault)
{
	my @asked = read_pages($what, fault => $fault{$what});
	my $hit = grep { $_->{fault} } @asked;

	cmp_ok($hit, '>=', 1, "... after the fault");
	cmp_ok(connections(@asked), '<=', 7, '... on few connections');
}

# --- servers that close ---

my @asked = read_pages('Connection: close', fault => { close => 1 });
is(connections(@asked), scalar(@asked), 'M-12: a server that closes: a connection for each page');
is_deeply([ begins(@asked) ], [ (map { $numbers[ $_ * $page - 1 ] * ($_ > 0) } 0 .. $#numbers / $page), $numbers[-1] ], '... and no page is asked for ahead');
@asked = read_pages('closes unannounced', fault => { hang_up => 1 });
unlike(slurp_file($node->logfile), qr/between two pages/, 'M-12: a server that closes between two pages makes no fault');

# --- a pause ---

my $offset = -s $node->logfile;
@asked = read_pages(
	'429', fault => { status => 429, headers => { 'Retry-After' => '4000' }, after => 4, times => 1 },
	meanwhile => sub {
		wait_for("SELECT state = 'waiting' AND last_error LIKE '%429%' FROM atproto.stat_subscription WHERE name = 'p'");
		ok($node->log_contains(qr/trying again in 4000000 ms/, $offset), 'E-04: Retry-After of a page is obeyed');
		cmp_ok(query('SELECT count(*) FROM p.plc_operation'), '>', $page, 'M-12: ... and the pages before count');
		query("SELECT atproto.pause('p')");
		wait_for("SELECT pid IS NULL FROM atproto.stat_subscription WHERE name = 'p'");
		query("SELECT atproto.resume('p')");
	});

$node->stop;
$network->stop;
done_testing();
