# 289_status_unread.pl
#		At level full, a deletion comes soon after the fetcher read the account's document.  The server that
#		this document names proves nothing about the deletion, as the account may have moved.  The fetcher
#		reads the document again, once a minute at most, asks the server of the new document, and its first
#		answer counts.  V-47, W-31.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Keys;
use AtprotoTest::Statuses;
use Test::More;

my $statuses = AtprotoTest::Statuses->new('status_unread');
my ($node, $network, $clock) = @$statuses{qw(node network clock)};
$statuses->follow(2 * $statuses->all + 1);

# --- a deletion soon after the account's document was read ---

# The server that the document named before the deletion proves nothing, and is not asked again for ten minutes.
my $deleted = $statuses->{who}{active};
my $before  = $statuses->asked('active');
$network->repos({ $deleted->{pds} => { $deleted->{did} => undef } });
$network->documents({ $deleted->{did} => $network->document($deleted->{did}, pds => $deleted->{pds}, key => AtprotoTest::Keys::text_of(pack 'H*', $deleted->{key})) });
query("UPDATE atproto.identity SET (asked_at, resolved_at) = (now(), now()) WHERE did = '$deleted->{did}';
	UPDATE atproto.repo SET active = false, status = 'deleted', status_seq = NULL WHERE did = '$deleted->{did}';
	INSERT INTO atproto.status_request (target, did, subscription, why, status_at, requested_at)
	SELECT 'atproto', did, 's', 'deleted', status_at, now() + interval '1 ms' FROM atproto.repo WHERE did = '$deleted->{did}'");
$clock->later(5);
wait_for("SELECT next_try > now() + interval '5 s' FROM atproto.status_request WHERE did = '$deleted->{did}'");
is($statuses->asked('active'), $before, 'V-47: as long as the document cannot be read again, nobody is asked');
$clock->later(60);
wait_for("SELECT deleted_rev = rev FROM atproto.repo WHERE did = '$deleted->{did}'");
is($statuses->asked('active'), $before + 1, 'V-47: then the server that it names is asked, and the first answer counts');

$node->stop;
done_testing();
