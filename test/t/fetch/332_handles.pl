# 332_handles.pl
#		Verification of handles (W-20 to W-25).  The fetcher reads the TXT records or the file of a handle's
#		domain and stores whether the domain names the account, whatever name servers and hosts answer; it
#		asks again after the intervals of the rules; a name server that never answers delays no other
#		look-up.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Network;
use AtprotoTest::Preload;
use IO::Socket::IP;
use PostgreSQL::Test::Utils;
use Test::More;

my $limit   = 30;    # seconds, on any machine; what hangs, hangs for ever
my $key     = 'zQ3shokFTS3brHcDQrn82RUDfCZESWL1ZdCEJwekUDPQiYBme';
my $network = AtprotoTest::Network->start;
my $preload = AtprotoTest::Preload->make(network => $network);
my $node    = make_node(
	'handles', start => $preload,
	conf => $network->settings . <<"EOF");
atproto.name_servers = '127.0.0.1:@{[ $network->port('dns') ]}'
atproto.handle_no_dns = ' .example.net , .skipped.example.org'
atproto.fetch_allow = 'https://allowed.example.test'
EOF

my $count = 0;

# The DID of a new account with this handle in its document.
sub account
{
	my ($handle) = @_;
	my $did = sprintf 'did:plc:%s%s%s', chr(97 + int($count / 26)), chr(97 + $count % 26), 'a' x 22;

	$count++;
	$network->documents({ $did => $network->document($did, pds => 'pds.example.com', key => $key, handle => $handle) });
	return $did;
}

# Makes the fetcher look up these accounts, and waits for the end.
sub check
{
	my (@dids) = @_;

	query(join '; ', map { "SELECT atproto.check_handle('$_')" } @dids);
	wait_for('SELECT count(*) = 0 FROM atproto.handle_request');
	return;
}

sub state_of
{
	my ($did) = @_;
	return query("SELECT handle_state, handle FROM atproto.identity WHERE did = '$did'");
}

# --- what domains say ---

my $other = 'did:plc:' . 'z' x 24;
my $own   = 'OWN';                         # stands for the account's own DID
my $n     = 0;

# The n-th name; only one account looks it up.
sub host
{
	return sprintf 'h%02d.example.com', ++$n;
}

# name, handle, TXT records (undef: no such name), file (text; undef: 404), state, error; fault => of the file,
# asked => 0: no TXT look-up, read => 0: no request for the file
my @cases = (
	[ 'W-20: a record', host(), { TXT => [ ["did=$own"] ] }, $other, 'valid', read => 0 ],
	[ 'W-20: a record of several strings', host(), { TXT => [ [ 'di', "d=$own" ], ['v=spf1'] ] }, undef, 'valid', read => 0 ],
	[ 'W-20: one record among 300 strings', host(), { TXT => [ [ ('x' x 20) x 300 ], ["did=$own"] ] }, undef, 'valid', read => 0 ],
	[ 'W-20: the same twice', host(), { TXT => [ (["did=$own"]) x 2 ] }, undef, 'valid', read => 0 ],
	[ 'W-20: two accounts', host(), { TXT => [ ["did=$own"], ["did=$other"] ] }, $own, 'invalid', error => qr/several accounts/, read => 0 ],
	[ 'W-22: the records win', host(), { TXT => [ ["did=$other"] ] }, $own, 'invalid', error => qr/another account/, read => 0 ],
	[ 'W-20: what is no DID', host(), { TXT => [ ['did=nothing'] ] }, $own, 'valid' ],
	[ 'an alias', host(), { CNAME => 'alias.example.org' }, undef, 'valid', read => 0 ],
	[ 'an answer too long for UDP', host(), { TXT => [ ["did=$own"] ], truncate => 1 }, undef, 'valid', read => 0 ],
	[ 'W-22: no such name', host(), undef, $own, 'valid' ],
	[ 'W-20: a record of another name', host(), { others => [ [ 'another.example.com', 1, "did=$own" ], [ 'example.com', 1, "did=$own" ] ] }, undef, 'invalid' ],
	[ 'W-20: a record of another class', host(), { others => [ [ sprintf('_atproto.h%02d.example.com', $n), 3, "did=$own" ] ] }, undef, 'invalid' ],
	[ 'W-20: records of others beside its own', host(), { TXT => [ ["did=$own"] ], others => [ [ 'another.example.com', 1, "did=$other" ] ] }, undef, 'valid', read => 0 ],
	[ 'W-22: a name without such records', host(), { A => ['1.2.3.4'] }, $own, 'valid' ],
	[ 'W-22: a name server that fails', host(), { rcode => 'SERVFAIL' }, $own, 'valid' ],
	[ 'W-22: one that answers garbage', host(), { garbage => 1 }, $own, 'valid' ],
	[ 'W-22: an answer to another question', host(), { TXT => [ ["did=$other"] ], wrong_id => 1 }, $own, 'valid' ],
	[ 'W-22: an alias of itself', host(), { CNAME => sprintf '_atproto.h%02d.example.com', $n }, $own, 'valid' ],
	[ 'W-23: records fail, the file says another', host(), { rcode => 'SERVFAIL' }, $other, 'unreachable', error => qr/could not be read/ ],
	[ 'W-23: neither answers', host(), { silent => 1 }, undef, 'unreachable' ],
	[ 'W-23: neither names an account', host(), undef, undef, 'invalid', error => qr/404/ ],
	[ 'W-23: another account', host(), undef, $other, 'invalid', error => qr/another account/ ],
	[ 'W-23: an error of the server', host(), undef, $own, 'unreachable', fault => { status => 503 }, error => qr/503/ ],
	[ 'W-23: a server that has too much to do', host(), undef, $own, 'unreachable', fault => { status => 429, body => '<html>' } ],
	[ 'W-23: a broken connection', host(), undef, $own, 'unreachable', fault => { reset => 0 } ],
	[ 'W-21: white space', host(), undef, " \r\n$own\r\n", 'valid' ],
	[ 'W-21: a page', host(), undef, '<!doctype html>', 'invalid', error => qr/no DID/ ],
	[ 'W-21: a long file', host(), undef, "$own\n" . ' ' x 100_000, 'valid' ],
	[ 'W-21: any type', host(), undef, $own, 'valid', fault => { headers => { 'Content-Type' => 'image/png' } } ],
	[ 'W-53: to another host', host(), undef, undef, 'valid', fault => { redirect => 'https://file.example.org/.well-known/atproto-did' } ],
	[ 'W-53: to plain HTTP', host(), undef, $own, 'invalid', fault => { redirect => 'http://file.example.org/.well-known/atproto-did' } ],
	[ 'W-51: to a private address', host(), undef, $own, 'invalid', fault => { redirect => 'https://hidden.example.org/' } ],
	[ 'W-53: in a circle', host(), undef, $own, 'invalid', fault => { redirect => sprintf 'https://h%02d.example.com/.well-known/atproto-did', $n } ],
	[ 'W-51: at a private address', 'private.example.org', undef, $own, 'invalid' ],
	[ 'W-22: below handle_no_dns', 'name.example.net', { TXT => [ ["did=$own"] ] }, $other, 'invalid', asked => 0 ],
	[ 'W-22: the end of a name alone', 'notskipped.example.org', { TXT => [ ["did=$own"] ] }, undef, 'valid', read => 0 ],
	[ 'W-25: a domain that is none', 'alice.local', { TXT => [ ["did=$own"] ] }, $own, 'invalid', asked => 0, read => 0, error => qr/top-level/ ],
	[ 'W-25: .test', 'other.example.test', { TXT => [ ["did=$own"] ] }, $own, 'invalid', asked => 0, read => 0 ],
	[ 'W-25: .test that is allowed', 'allowed.example.test', undef, $own, 'valid' ],
	[ 'W-20: a name too long for the records', join('.', ('a' x 60) x 3, 'b' x 50, 'example.com'), undef, $own, 'unreachable', asked => 0 ]);

# two hosts: the second one to be refused would find that the first one has to rest
$network->names({ map { $_ => ['10.1.2.3'] } 'private.example.org', 'hidden.example.org' });

my %did;
foreach (@cases)
{
	my ($name, $handle, $records, $file, $state, %o) = @$_;
	my $did = $did{$name} = account($handle);

	foreach my $strings (@{ ($records // {})->{TXT} // [] })
	{
		s/$own/$did/ foreach @$strings;
	}
	$_->[2] =~ s/$own/$did/ foreach @{ ($records // {})->{others} // [] };
	$network->dns({ "_atproto.$handle" => $records }) if $records;
	$network->dns({ 'alias.example.org' => { TXT => [ ["did=$did"] ] } }) if $name eq 'an alias';
	$network->handles({ $handle => $file =~ s/$own/$did/r }) if defined $file;
	$network->handles({ 'file.example.org' => $did }) if $name =~ /to another host/;
	$network->fault({ host => $handle, %{ $o{fault} } }) if $o{fault};
}
check(values %did);
my %said = map { my ($did, $state, $error) = split /\t/, $_, -1; $did => [ $state, $error ] } split /\n/,
  query(q{SELECT concat_ws(E'\t', did, handle_state || '|' || coalesce(handle::text, ''), coalesce(handle_error, '')) FROM atproto.identity});
my @log = $network->log;
foreach (@cases)
{
	my ($name, $handle, $records, $file, $state, %o) = @$_;
	my $did = $did{$name};
	my $asked = $o{asked} // 1;
	my $read = $o{read} // 1;

	is($said{$did}[0], "$state|" . ($state eq 'valid' ? $handle : ''), "$name: $state");
	like($said{$did}[1], $o{error} // ($state eq 'valid' ? qr/^$/ : qr/./), "$name: why");
	is((grep { ($_->{name} // '') eq "_atproto.$handle" } @log) ? 1 : 0, $asked, "$name: TXT records are " . ($asked ? '' : 'not ') . 'asked for');
	is((grep { ($_->{host} // '') eq $handle } @log) ? 1 : 0, $read, "$name: the file is " . ($read ? '' : 'not ') . 'asked for')
	  unless $name =~ /private address|too long/;
}
is(scalar($network->log(host => $_)), 0, "W-51: nobody connects to a private address: $_") foreach 'private.example.org', 'hidden.example.org';
cmp_ok(scalar($network->log(host => (grep { $_->[0] =~ /circle/ } @cases)[0][1])), '<=', 4, 'W-53: three redirects at most');

# --- an account without a handle ---

my $none = account(undef);
check($none);
is(state_of($none), 'unknown|', 'no handle: nothing to look up');

# --- when the fetcher asks again ---

# In so many seconds, and up to a fifth more.
sub next_is
{
	my ($did, $seconds, $name) = @_;
	my $wait = query("SELECT extract(epoch FROM handle_next - now())::int FROM atproto.identity WHERE did = '$did'");

	ok($wait > $seconds - $limit * 10 && $wait <= $seconds * 1.2, "W-24: $name") or diag("in $wait s");
	return;
}

my $did = $did{'W-22: no such name'};
my $handle = query("SELECT handle_claimed FROM atproto.identity WHERE did = '$did'");
next_is($did, 24 * 3600, 'what is valid, after a day');
$network->handles({ $handle => $other });
check($did);
is(state_of($did), 'invalid|', 'W-23: what names another account is not its handle any more');
next_is($did, 3600, 'what is not, after an hour');
check($did);
next_is($did, 7200, 'then after two');
query("UPDATE atproto.identity SET handle_tries = 100 WHERE did = '$did'");
check($did);
next_is($did, 7 * 24 * 3600, 'then at the latest after a week');
$network->handles({ $handle => $did });
check($did);
is(state_of($did), "valid|$handle", 'and is valid again');
next_is($did, 24 * 3600, 'and is asked after a day again');

my $fault = $network->fault({ host => $handle, status => 500 });
check($did);
is(state_of($did), "valid|$handle", 'a server that fails for a while takes nobody his handle');
is(query("SELECT handle_error LIKE '%500%' AND handle_tries = 1 FROM atproto.identity WHERE did = '$did'"), 't', 'but it is seen');
next_is($did, 120, 'and it is asked again after two minutes');
query("UPDATE atproto.identity SET handle_checked_at = now() - interval '8 days' WHERE did = '$did'");
check($did);
is(state_of($did), 'unreachable|', 'but not for ever');
$network->unfault($fault);

# --- another handle ---

$network->documents({ $did => $network->document($did, pds => 'pds.example.com', key => $key, handle => 'new.example.com') });
$network->handles({ 'new.example.com' => $did });
query("UPDATE atproto.identity SET handle_state = 'valid', asked_at = asked_at - interval '1 hour' WHERE did = '$did'");
query("SELECT atproto.identity_refresh('$did')");
wait_for("SELECT handle_claimed = 'new.example.com' FROM atproto.identity WHERE did = '$did'");
is(state_of($did), 'unknown|', 'of another handle nothing is known');
check($did);
is(state_of($did), 'valid|new.example.com', 'until it is looked up');

# --- subscriptions to all accounts, with verified handles ---

my (undef, undef, $error) = $node->psql('postgres', "SELECT atproto.subscribe('s', 'ws://localhost:1', handles => 'verify')");
like($error, qr/handles are verified only at level "full"/, 'only where identities are read');
(undef, undef, $error) = $node->psql('postgres', "SELECT atproto.subscribe('labels', 'ws://localhost:1/xrpc/com.atproto.label.subscribeLabels', verify => 'full', handles => 'verify')");
like($error, qr/subscriptions to com\.atproto\.label\.subscribeLabels cannot have "handles"/, 'and only where events are of accounts');
query("SELECT atproto.subscribe('s', 'ws://localhost:1')");
query("UPDATE atproto.identity SET handle_next = 'infinity'; UPDATE atproto.identity SET handle_next = now(), handle_state = 'unknown' WHERE did = '$did'");
check($none);
is(state_of($did), 'unknown|', 'what nobody asked for is not looked up');
# the trigger would see to the level
query("SET session_replication_role = replica; ALTER TABLE atproto.subscription DISABLE TRIGGER subscription_check;"
	  . " UPDATE atproto.subscription SET handles = 'verify'; ALTER TABLE atproto.subscription ENABLE ALWAYS TRIGGER subscription_check");
wait_for("SELECT handle_state = 'valid' AND handle_next > now() FROM atproto.identity WHERE did = '$did'");
pass('W-24: what is due is looked up by itself');
query("UPDATE atproto.identity SET stale = true, asked_at = asked_at - interval '1 hour' WHERE did = '$did'");
my $before = $network->log(path => qr/atproto-did/);
query("SELECT atproto.identity_refresh('$did')");
wait_for("SELECT NOT stale AND handle_next > now() FROM atproto.identity WHERE did = '$did'");
$network->wait_for_log($before + 1, path => qr/atproto-did/);
pass('W-24: and after an #identity');

# --- who may ask ---

query("CREATE ROLE somebody; ALTER SYSTEM SET atproto.queue_limit = 1; SELECT pg_reload_conf()");
wait_for("SELECT setting = '1' FROM pg_settings WHERE name = 'atproto.queue_limit'");
(undef, undef, $error) = $node->psql('postgres', "SET ROLE somebody; SELECT atproto.check_handle('$did')");
like($error, qr/permission denied for (schema|function)/, 'not everybody');
my ($two, $three) = map { account("more$_.example.com") } 2, 3;
$network->fault({ path => 'more|' . join('|', $two, $three), hold => 'more' });
(undef, undef, $error) = $node->psql('postgres', "BEGIN; SELECT atproto.check_handle('$two'); SELECT atproto.check_handle('$three')");
like($error, qr/has asked for 1/, 'nor as many as one likes');
query("ALTER SYSTEM RESET atproto.queue_limit; SELECT pg_reload_conf()");

# --- new name servers while look-ups run ---

my $mute = IO::Socket::IP->new(LocalHost => '0.0.0.0', LocalPort => 0, Proto => 'udp') or BAIL_OUT("no socket: $!");
# too many to wait for each
my $mutes = join ',', map { "127.0.0.$_:@{[ $mute->sockport ]}" } 1 .. 100;
my $named = 0;
my $made  = 0;

# One look-up a second, each of which takes longer: some are always running.
sub one_more
{
	return if time == $made;
	$made = time;
	my $handle = 'named' . ++$named . '.example.com';
	my $did    = account($handle);
	$network->dns({ "_atproto.$handle" => { TXT => [ ["did=$did"] ] } });
	query("SELECT atproto.check_handle('$did')");
	return;
}

query("ALTER SYSTEM SET atproto.name_servers = '$mutes'");
query('SELECT pg_reload_conf()');
wait_until(sub { one_more(); query(q{SELECT count(*) > 0 FROM atproto.identity WHERE handle_claimed::text LIKE 'named%' AND handle_state = 'unreachable'}) eq 't' }, 'name servers that are mute');
query('ALTER SYSTEM RESET atproto.name_servers');
query('SELECT pg_reload_conf()');
wait_until(sub { one_more(); query(q{SELECT count(*) > 0 FROM atproto.identity WHERE handle_claimed::text LIKE 'named%' AND handle_state = 'valid'}) eq 't' }, 'the other one to be asked');
pass('other name servers are asked from then on, although look-ups run');
wait_for('SELECT count(*) = 0 FROM atproto.handle_request');

# --- the account of a handle: resolve_handle() ---

sub account_of
{
	my ($handle, %o) = @_;
	my $call = sprintf "CALL atproto.resolve_handle('%s'%s)", $handle, $o{timeout} ? ", timeout => '$o{timeout}'" : '';
	my ($rc, $out, $err) = $node->psql('postgres', ($o{as} ? "SET ROLE $o{as}; " : '') . $call);
	return $rc == 0 ? $out : $err;
}

my $found = account('found.example.com');
$network->dns({ '_atproto.found.example.com' => { TXT => [ ["did=$found"] ] } });
is(account_of('Found.Example.COM', timeout => '5 min'), $found, 'W-20: the domain names the account, and its document claims the handle');
is(account_of('found.example.com', timeout => '5 min'), $found, '... and again');
my $filed = account('filed.example.com');
$network->handles({ 'filed.example.com' => $filed });
is(account_of('filed.example.com', timeout => '5 min'), $filed, 'W-21: by the file');
$network->dns({ '_atproto.stolen.example.com' => { TXT => [ ["did=$found"] ] } });
like(account_of('stolen.example.com', timeout => '5 min'), qr/the handle of no account.*does not claim the handle/s, 'W-23: an account that does not claim the handle');
$network->dns({ '_atproto.several.example.com' => { TXT => [ ["did=$found"], ["did=$filed"] ] } });
like(account_of('several.example.com', timeout => '5 min'), qr/several accounts/, 'W-20: two accounts');
like(account_of('nobody.example.com', timeout => '5 min'), qr/no account of the handle "nobody.example.com" was found.*404/s, 'W-23: a domain that names no account');
like(account_of('alice.local', timeout => '5 min'), qr/top-level/, 'W-25: a domain that is none');
like(account_of('found.example.com', as => 'somebody'), qr/permission denied for/, 'it is not granted to PUBLIC');
query('GRANT USAGE ON SCHEMA atproto TO somebody; GRANT EXECUTE ON PROCEDURE atproto.resolve_handle TO somebody');
query("ALTER SYSTEM SET atproto.queue_limit = 0; SELECT pg_reload_conf()");
wait_for("SELECT current_setting('atproto.queue_limit') = '0'");
like(account_of('found.example.com', as => 'somebody'), qr/handles that are still to be looked up/, 'the look-ups of a role are counted');
query("ALTER SYSTEM RESET atproto.queue_limit; SELECT pg_reload_conf()");
like((($node->psql('postgres', "BEGIN; CALL atproto.resolve_handle('found.example.com')"))[2]), qr/resolve_handle/, 'and not within a transaction');

# --- a silent name server ---

my @silent = map { account("silent$_.example.com") } 1 .. 24;
$network->dns({ "_atproto.silent$_.example.com" => { silent => 1 } }) foreach 1 .. 24;
query(join '; ', map { "SELECT atproto.check_handle('$_')" } @silent);
$network->wait_for_log(5, kind => 'dns', name => qr/silent/);
my $pid = query(q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'atproto fetcher'});
my $start = time;
my ($rc) = $node->psql('postgres', "SET statement_timeout = '${limit}s'; CREATE DATABASE other");
is($rc, 0, 'while names are looked up: CREATE DATABASE');
$network->wait_for_log(16, kind => 'dns', name => qr/silent/);
query("SELECT pg_terminate_backend($pid)");
wait_for("SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = $pid");
wait_for('SELECT count(*) = 0 FROM atproto.handle_request');
is(state_of($silent[0]), 'unreachable|', 'what was asked for is not lost with the process');
query(join '; ', map { "SELECT atproto.check_handle('$_')" } @silent);
$network->wait_for_log(40, kind => 'dns', name => qr/silent/);
$start = time;
$node->stop('fast');
cmp_ok(time - $start, '<', $limit, 'fast shutdown');
unlike(slurp_file($node->logfile), qr/was terminated by signal/, 'nothing crashed');

done_testing();
