# 285_full_labels_keys.pl
#		At level full, changing documents of labelers: the first document has no key for labels when the
#		fetcher reads it, and gets a key later; the second kind names nothing but a key for labels; the
#		third changes the key.  No signed label is lost, and the fetcher asks for a document without a key
#		at most once in a minute.  V-41, V-43, V-49, W-30.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Identities;
use AtprotoTest::Keys;
use PostgreSQL::Test::Utils;
use Test::More;

my $nsid = 'com.atproto.label.subscribeLabels';
my $node = begin_identities('labels_keys', "max_worker_processes = 16\natproto.reconnect_delay = 50ms\n");
my %who;
foreach (split /\n/, slurp_file(make_capture('full_labels.py', 'cases', '--keys')))
{
	my ($name, $did, @keys) = split /\t/;
	$who{$name} = { did => $did, keys => [ map { AtprotoTest::Keys::text_of(pack 'H*', $_) } @keys ] };
}

# Sets the document: which of its keys is for labels; with more: an account with a repository.
sub document
{
	my ($name, $n, %more) = @_;
	my $did = $who{$name}{did};

	$network->documents({ $did => $network->document($did, defined $n ? (label_key => $who{$name}{keys}[$n]) : (), %more) });
	return;
}

sub labels_of
{
	my ($name) = @_;
	return query("SELECT string_agg(val, ',' ORDER BY val) FROM atproto.label WHERE verified AND src = '$who{$name}{did}'");
}

sub held_of
{
	my ($name) = @_;
	return query("SELECT string_agg(seq || ' ' || why, ', ' ORDER BY seq) FROM atproto.held_event WHERE did = '$who{$name}{did}'");
}

sub asked
{
	my ($name) = @_;
	return requests(host => 'plc.example.com', path => qr/\Q$who{$name}{did}/);
}

my @account = (key => $K256, pds => 'pds.example.com');
document('keyless', undef, @account);
document('known', 0);
document('other', 0, key => $K256);
document('unknown', 0, pds => 'pds.example.com');
my $server = AtprotoTest::Server->start(make_capture('full_labels.py', 'new'), map { ('--hold-at', $_) } 2, 3);
query(subscribe_sql('s', $server, nsid => $nsid, cursor => 0, verify => "'full'"));

# --- as they come ---

wait_for_seq($node, 's', 1);
wait_for('SELECT count(*) = 0 FROM atproto.held_event');
is(join(' ', map { labels_of($_) } qw(known other unknown)), 'known1 other1 unknown1', 'V-49: no other key is needed for labels, and no server of a repository');
is(query("SELECT string_agg(state, ' ' ORDER BY did) FROM atproto.identity WHERE did <> '$who{keyless}{did}'"), 'no_key no_key no_pds', 'V-43: although these accounts have none');
is(labels_of('keyless') . query('SELECT count(*) FROM atproto.dead_letter'), '0', 'V-49: whose document names no key, of him there is nothing');
like(query(q{SELECT skips FROM atproto.stat_subscription}), qr/"no_identity": 1/, 'which is counted');
is(join(' ', map { asked($_) } sort qw(keyless known other unknown)), '1 1 1 1', 'one look-up each');

# --- one labeler has got a key since; one has changed the key ---

document('keyless', 0, @account);
$server->release;
wait_for_seq($node, 's', 2);
is(held_of('keyless'), '2 identity', 'V-41: whose document had no key a moment ago waits until it may be read again');
is(asked('keyless'), 1, 'V-41: which is not at once');
sooner_or_later("SELECT count(*) = 0 FROM atproto.held_event");
is(labels_of('keyless'), 'keyless2', 'V-49: by then it has one');
is(asked('keyless'), 2, 'V-41: one look-up more');
document('unknown', 1, pds => 'pds.example.com');
$server->release;
wait_for_seq($node, 's', 3);
is(held_of('unknown'), '3 signature', 'V-41: whose key does not fit waits, too');
sooner_or_later("SELECT count(*) = 0 FROM atproto.held_event");
is(labels_of('unknown'), 'unknown1,unknown2,unknown3', 'V-41: with another key in the document it does');
is(join(' ', map { labels_of($_) } qw(keyless known other)), 'keyless2,keyless3 known1,known2,known3 other1,other2,other3', 'V-49: of the others nothing was missed');
is(query('SELECT count(*) FROM atproto.dead_letter'), '0', 'and nobody complains');

# --- a document without a key is read again like any document ---

my $before = asked('known');
later(25 * 3600);
query("SELECT atproto.set_cursor('s', 0); TRUNCATE atproto.label");
sooner_or_later("SELECT count(*) = 0 FROM atproto.identity_request");
sooner_or_later("SELECT count(*) = 10 FROM atproto.label WHERE verified");
cmp_ok(asked('known'), '>', $before, 'W-30: after a day it is asked for again');

$node->stop;
$network->stop;
done_testing();
