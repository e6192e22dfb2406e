# 330_identities.pl
#		The life of a request for an identity: every kind of document, every fault of a host, how often the
#		fetcher asks a directory or host, and which state of atproto.identity follows which (rules W-01 to
#		W-17, W-30 to W-35, W-57).

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Identities;
use AtprotoTest::Keys;
use Test::More;

my $node = begin_identities('identities');

# --- documents ---

# A good document with this change.
sub but
{
	my ($did, $change) = @_;
	my $document = $good->($did);
	$change->($document);
	return $document;
}

sub method
{
	my ($did, $type, $key) = @_;
	return { id => "$did#atproto", type => $type, controller => $did, publicKeyMultibase => $key };
}

my ($k256, $p256) = map { AtprotoTest::Keys::bytes_of($_) } $K256, $P256;
my $is_good = 'good pds.example.com some.example.com';
# name, document of a DID, expected row of atproto.identity, and key
my @documents = (
	[ 'k256', $good, $is_good, $K256 ],
	[ 'p256', sub { $good->(@_, key => $P256) }, $is_good, $P256 ],
	[ 'W-10: legacy k256, compressed', sub { my ($d) = @_; but($d, sub { $_[0]{verificationMethod} = [ method($d, 'EcdsaSecp256k1VerificationKey2019', AtprotoTest::Keys::text_of(substr $k256, 2)) ] }) }, $is_good, $K256 ],
	[ 'W-10: legacy k256, both coordinates', sub { my ($d) = @_; but($d, sub { $_[0]{verificationMethod} = [ method($d, 'EcdsaSecp256k1VerificationKey2019', AtprotoTest::Keys::text_of(AtprotoTest::Keys::long_point($k256))) ] }) }, $is_good, $K256 ],
	[ 'W-10: legacy p256, compressed', sub { my ($d) = @_; but($d, sub { $_[0]{verificationMethod} = [ method($d, 'EcdsaSecp256r1VerificationKey2019', AtprotoTest::Keys::text_of(substr $p256, 2)) ] }) }, $is_good, $P256 ],
	[ 'W-10: legacy p256, both coordinates', sub { my ($d) = @_; but($d, sub { $_[0]{verificationMethod} = [ method($d, 'EcdsaSecp256r1VerificationKey2019', AtprotoTest::Keys::text_of(AtprotoTest::Keys::long_point($p256))) ] }) }, $is_good, $P256 ],
	[ 'W-08: a bad key before a good one', sub { my ($d) = @_; but($d, sub { unshift @{ $_[0]{verificationMethod} }, method($d, 'Multikey', 'zQ3shNotAKey') }) }, $is_good, $K256 ],
	[ 'W-08: the first good key', sub { my ($d) = @_; but($d, sub { push @{ $_[0]{verificationMethod} }, method($d, 'Multikey', $P256) }) }, $is_good, $K256 ],
	[ 'W-09: another kind of key', sub { $good->(@_, key => 'z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK') }, 'no_key pds.example.com some.example.com', '' ],
	[ 'no key', sub { $good->(@_, key => undef) }, 'no_key pds.example.com some.example.com', '' ],
	[ 'a key for labels alone', sub { $good->(@_, key => undef, label_key => $K256) }, 'no_key pds.example.com some.example.com', '' ],
	[ 'no server', sub { $good->(@_, pds => undef) }, 'no_pds some.example.com', $K256 ],
	[ 'W-13: two servers', sub { my ($d) = @_; but($d, sub { push @{ $_[0]{service} }, { %{ $_[0]{service}[0] }, serviceEndpoint => 'https://other.example.com' } }) }, $is_good, $K256 ],
	[ 'W-13: a bad one before a good one', sub { my ($d) = @_; but($d, sub { unshift @{ $_[0]{service} }, { %{ $_[0]{service}[0] }, serviceEndpoint => 'https://other.example.com/path' } }) }, 'no_pds some.example.com', $K256 ],
	[ 'W-14: a port', sub { $good->(@_, pds => 'PDS.example.com:8443') }, 'good pds.example.com:8443 some.example.com', $K256 ],
	[ 'W-14: plain', sub { my ($d) = @_; but($d, sub { $_[0]{service}[0]{serviceEndpoint} = 'http://pds.example.com/' }) }, 'good http://pds.example.com some.example.com', $K256 ],
	[ 'W-15: no handle', sub { $good->(@_, handle => undef) }, 'good pds.example.com', $K256 ],
	[ 'W-06: another id', sub { my ($d) = @_; but($d, sub { $_[0]{id} = 'did:plc:' . 'z' x 24 }) }, 'invalid', '' ],
	[ 'W-07: no JSON', sub { 'here is nothing' }, 'invalid', '' ],
	[ 'W-07: no object', sub { '[]' }, 'invalid', '' ],
	[ 'W-07: deep', sub { qq({"id": "$_[0]", "x": ) . '[' x 33 . ']' x 33 . '}' }, 'invalid', '' ],
	[ 'W-07: 65,537 bytes', sub { my $d = qq({"id": "$_[0]", "verificationMethod": [], "x": ""}); $d =~ s/""/'"' . 'x' x (65_539 - length $d) . '"'/er }, 'invalid', '' ],
	[ 'W-08: a member twice', sub { qq({"id": "$_[0]", "id": "$_[0]"}) }, 'invalid', '' ],
	[ 'W-03: 404', sub { 404 }, 'gone', '' ],
	[ 'W-03: 410', sub { 410 }, 'gone', '' ]);
my @dids = map { plc() } @documents;
$network->documents({ map { $dids[$_] => $documents[$_][1]->($dids[$_]) } 0 .. $#documents });

# faults of a host, each at a separate did:web, so that the directory need not rest
my %faults = (
	# W-05
	'redirect' => [ { redirect => 'https://honest.example.com/.well-known/did.json' }, 'invalid' ],
	'huge'     => [ { body => 'x', size => 10_000_000 }, 'invalid' ],
	'error'    => [ { status => 500 }, 'wanted' ],
	'gone'     => [ { status => 404 }, 'wanted' ],
	'busy'     => [ { status => 429 }, 'wanted' ],
	'cut'      => [ { truncate => 20 }, 'wanted' ],
	'bodiless' => [ { status => 204 }, 'wanted' ]);
foreach my $name (sort keys %faults)
{
	my $host = "$name.example.net";
	$network->documents({ "did:web:$host" => $good->("did:web:$host") });
	$network->fault({ host => $host, %{ $faults{$name}[0] } });
}
my $honest = 'did:web:honest.example.com';
$network->documents({ $honest => $good->($honest) });
resolve(@dids, $honest, map { "did:web:$_.example.net" } sort keys %faults);
settle();
is(row($dids[$_]), $documents[$_][2], $documents[$_][0]) foreach 0 .. $#documents;
is(query("SELECT coalesce((atproto.resolve('$dids[$_]')).key, '')"), $documents[$_][3], "$documents[$_][0]: the key") foreach 0 .. $#documents;
is(row($honest), $is_good, 'W-04: did:web');
is(row("did:web:$_.example.net"), $faults{$_}[1], "host: $_") foreach sort keys %faults;
is(requests(host => 'plc.example.com'), scalar @documents, 'W-34: each was asked for once');
is(join(' ', sort map { $_->{headers}{accept} // '' } ($network->log(kind => 'http'))[0]), 'application/did+ld+json, application/json', 'W-02: what is accepted');
is(scalar(grep { $_->{path} =~ m{/log} } $network->log(host => 'plc.example.com')), 0, 'W-17: nobody reads the log of operations');
is(query(q{SELECT count(*) FROM atproto.identity i WHERE (to_jsonb(i) - 'error')::text ~ 'verificationMethod|alsoKnownAs'}), '0', 'W-16: no document is kept');
is(query(q{SELECT count(*) FROM atproto.identity_problem WHERE octet_length(error) > 400 OR error ~ '[^ -~]'}), '0', 'W-58: errors are short and printable');
is(query('SELECT count(*) FROM atproto.identity_request WHERE NOT failed'), '0', 'what was answered is not requested');
is(query("SELECT count(*) FROM atproto.identity_request WHERE failed"), '5', 'what failed is');

# --- how often ---

# a document that was read just now: the minute is measured by the clock
my $one = plc();
$network->documents({ $one => $good->($one) });
resolve($one);
wait_for("SELECT state = 'good' FROM atproto.identity WHERE did = '$one'", gone => 1);
query("SELECT atproto.identity_refresh('$one');" x 5);
query("UPDATE atproto.identity SET stale = true WHERE did = '$one'");
wait_for("SELECT next_try > now() FROM atproto.identity_request WHERE did = '$one'");
is(requests(path => "/$one"), 1, 'V-41: no second look-up within a minute');
$network->documents({ $one => $good->($one, key => $P256) });
later(61);
wait_for("SELECT NOT stale AND resolved_at > now() FROM atproto.identity WHERE did = '$one'");
is(requests(path => "/$one"), 2, 'one after it, whatever came');
is(query("SELECT (atproto.resolve('$one')).key"), $P256, 'and the key is another');

# W-57: the fetcher alone asks
my $fetcher = query("SELECT pid FROM pg_stat_activity WHERE backend_type = 'atproto fetcher'");
my $unasked = plc();
$network->documents({ $unasked => $good->($unasked) });
kill 'STOP', $fetcher;
is(query("SELECT state FROM atproto.resolve('$unasked')"), 'wanted', 'W-57: a session only requests');
is(requests(path => "/$unasked"), 0, 'W-57: and asks nobody');
kill 'CONT', $fetcher;
wait_for("SELECT state = 'good' FROM atproto.identity WHERE did = '$unasked'");
is(requests(path => "/$unasked"), 1, 'W-57: the fetcher does');

# W-35: the directory is asked for 16 at a time
{
	my @slow = map { plc() } 1 .. 24;
	$network->documents({ map { $_ => $good->($_) } @slow });
	$network->fault({ host => 'plc.example.com', hold => 'sixteen', times => 16 });
	resolve(@slow);
	$network->wait_for_log(16, host => 'plc.example.com', path => qr/@{[ join '|', @slow ]}/);
	# an answer of a different host shows that the fetcher has looked at its queue again
	my $web = 'did:web:after.example.net';
	$network->documents({ $web => $good->($web) });
	resolve($web);
	wait_for("SELECT state = 'good' FROM atproto.identity WHERE did = '$web'");
	is(requests(host => 'plc.example.com', path => qr/@{[ join '|', @slow ]}/), 16, 'W-35: sixteen, no more');
	$network->release('sixteen');
	wait_for(qq{SELECT count(*) = 24 FROM atproto.identity WHERE state = 'good' AND did IN (@{[ join ', ', map { "'$_'" } @slow ]})});
	my ($most) = sort { $b <=> $a } map { $_->{parallel} } $network->log(host => 'plc.example.com');
	is($most, 16, 'W-35: nor later');
}

# W-34: requests of many kinds, while the answer is awaited
my $many = plc();
$network->documents({ $many => $good->($many) });
$network->fault({ did => $many, hold => 'many', times => 1 });
resolve($many);
$network->wait_for_log(1, path => "/$many");
query("INSERT INTO atproto.identity_request (did, role, refresh, priority, web) SELECT '$many', 100000 + i / 2, i % 2 = 0, i % 3, false FROM generate_series(2, 1001) i");
resolve($honest);
$network->release('many');
wait_for("SELECT count(*) = 0 FROM atproto.identity_request WHERE did = '$many'");
is(requests(path => "/$many"), 1, 'W-34: 1,001 requests are one request');

# W-31: a flood of #identity
query("UPDATE atproto.identity SET stale = true WHERE did = '$many'; SELECT state FROM atproto.resolve('$many');" x 20);
wait_for("SELECT min(next_try) > now() FROM atproto.identity_request WHERE did = '$many'");
is(requests(path => "/$many"), 1, 'W-31: a flood of #identity: not one within a minute');
later(61);
wait_for("SELECT count(*) = 0 FROM atproto.identity_request WHERE did = '$many'");
is(requests(path => "/$many"), 2, 'W-31: and one after it');

# --- from state to state ---

# W-33: an unknown account may be too new for the directory
my ($unheard, $too_new) = @dids[ -2, -1 ];
is(query("SELECT denied_at = asked_at AND next_try - asked_at = '1 min' FROM atproto.identity WHERE did = '$unheard'"), 't', 'W-33: one answer about somebody unheard of is none');
$network->documents({ $too_new => $good->($too_new) });
later(61);
resolve($unheard, $too_new);
wait_for("SELECT denied_at IS NULL AND next_try - asked_at = '1 hour' FROM atproto.identity WHERE did = '$unheard'");
pass('W-33: two are');
wait_for("SELECT state = 'good' FROM atproto.identity WHERE did = '$too_new'");
pass('W-33: and who was too new for it is there a minute later');

# W-33: a good identity is gone after two answers
my ($was_good, $was_web) = ($dids[1], $honest);
$network->documents({ $was_good => 404, $was_web => 404 });
later(61);
refresh($_) foreach $was_good, $was_web;
wait_for("SELECT count(*) = 2 FROM atproto.identity WHERE did IN ('$was_good', '$was_web') AND denied_at > now() + '@{[ $ahead - 30 ]} s'");
is(query("SELECT string_agg(state, ' ') FROM atproto.identity WHERE did IN ('$was_good', '$was_web')"), 'good good', 'W-33: one answer is none');
later(61);
wait_for("SELECT state = 'gone' FROM atproto.identity WHERE did = '$was_good'");
is(requests(path => "/$was_good"), 3, 'W-33: two are');
is(query("SELECT key IS NULL AND pds IS NULL AND next_try - asked_at = '1 hour' FROM atproto.identity WHERE did = '$was_good'"), 't', 'what it had is forgotten, and it is asked again after an hour');
is(query("SELECT state, failed FROM atproto.identity JOIN atproto.identity_request USING (did) WHERE did = '$was_web'"), 'good|t', 'W-04: a host has an hour');
later(3600);
wait_for("SELECT state = 'gone' FROM atproto.identity WHERE did = '$was_web'");
wait_for("SELECT state = 'gone' FROM atproto.identity WHERE did = 'did:web:gone.example.net'");
pass('W-04: two answers an hour apart');

# gone, and back
$network->documents({ $was_good => $good->($was_good) });
query("UPDATE atproto.identity SET stale = true, next_try = next_try + '1 day'::interval WHERE did = '$was_good'");
later(61);
resolve($was_good);
later(3);
wait_for("SELECT state = 'good' FROM atproto.identity WHERE did = '$was_good'");
pass('W-33: #identity has it asked again at once');

# W-30, W-32: a refresh fails
my $kept = $dids[2];
$network->documents({ $kept => 500 });
later(25 * 3600);
resolve($kept);
wait_for("SELECT tries = 1 FROM atproto.identity WHERE did = '$kept'");
is(row($kept), $is_good, 'W-30: it stays as it was');
is(query("SELECT extract(epoch FROM next_try - asked_at) BETWEEN 90 AND 150 FROM atproto.identity WHERE did = '$kept'"), 't', 'W-32: again after two minutes');
later(180);
wait_for("SELECT tries = 2 FROM atproto.identity WHERE did = '$kept'");
is(query("SELECT extract(epoch FROM next_try - asked_at) BETWEEN 190 AND 290 FROM atproto.identity WHERE did = '$kept'"), 't', 'then after four');
later(7 * 24 * 3600);
wait_for("SELECT state = 'unreachable' FROM atproto.identity WHERE did = '$kept'");
is(query("SELECT key IS NOT NULL FROM atproto.identity WHERE did = '$kept'"), 't', 'W-30: after 7 days it is not believed any more');
$network->documents({ $kept => $good->($kept) });
later(24 * 3600);
wait_for("SELECT state = 'good' AND tries = 0 AND error IS NULL FROM atproto.identity WHERE did = '$kept'");
pass('and good again with the next answer');

$node->stop;
$network->stop;
done_testing();
