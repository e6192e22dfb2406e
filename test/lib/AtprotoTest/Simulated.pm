# AtprotoTest/Simulated.pm
#		Accounts of the simulated network at level full, with their state at the end of each of two epochs,
#		and documents that a test changes; and a cluster that fetches their repositories.
#
#		my ($network, $node) = begin_simulated('moves', "atproto.fetch_retry = '1h'\n", '--events' => 100, '--epoch' => 50);
#		document($did, pds => 'new.example.com', key => key_of($another));
#		look_up($did);

package AtprotoTest::Simulated;

use strict;
use warnings FATAL => 'all';

use AtprotoTest;
use AtprotoTest::Network;
use AtprotoTest::Preload;
use Exporter qw(import);
use JSON::PP;
use PostgreSQL::Test::Utils;
use Test::More;

our @EXPORT = qw(begin_simulated simulated_dids car asked document key_of look_up wait_for_failure);

my ($network, $files, %documents);

# The cluster's name, more of postgresql.conf, options of the simulator.  The schema f is the target of a subscription of that level.
sub begin_simulated
{
	my ($name, $conf, %simulate) = @_;
	my $options = delete $simulate{options} // '';

	$files = PostgreSQL::Test::Utils::tempdir('simulated');
	simulate('--history' => 0, '--batches' => 5, '--mix' => 'account=0,identity=0', '--directory' => "$files/directory", '--exports' => "$files/exports", %simulate);
	%documents = map { $_->{did} => $_->{document} } grep { $_->{document} } map { decode_json($_) } split /\n/, slurp_file("$files/directory/documents");
	$network = AtprotoTest::Network->start;
	my $node = make_node(
		$name,
		start => AtprotoTest::Preload->make(network => $network),
		conf  => $network->settings . "atproto.fetch_retry = '1h'\natproto.fetch_host_rate = 1000\nmax_worker_processes = 20\natproto.reconnect_delay = 50ms\n$conf");
	query("CREATE SCHEMA f; SELECT atproto.create_tables('f'); SELECT atproto.subscribe('full', 'wss://quiet.example.com', target => 'f', verify => 'full', backfill => 'repair'$options)");
	return ($network, $node);
}

# Those with a document and an export, sorted.
sub simulated_dids { return grep { -e car($_, 2) } sort keys %documents }

# The export at the end of an epoch: 1, 2.
sub car
{
	my ($did, $epoch) = @_;
	return "$files/exports/$epoch/$did.car";
}

# How often a host was asked for a repository, or by another method.
sub asked
{
	my ($host, $did, $what) = @_;
	my $escaped = $did =~ s/:/%3A/gr;

	$what //= 'getRepo';
	return scalar(() = $network->log(kind => 'http', host => $host, path => qr/$what\?did=\Q$escaped\E/));
}

# The account's document, with this server (pds), and perhaps another account's key.
sub document
{
	my ($did, %o) = @_;
	my $document = decode_json(encode_json($documents{$did}));

	$document->{service}[0]{serviceEndpoint} = "https://$o{pds}";
	$_->{publicKeyMultibase} = $o{key} foreach grep { defined $o{key} && $_->{id} =~ /#atproto$/ } @{ $document->{verificationMethod} };
	$network->documents({ $did => $document });
	return;
}

sub key_of
{
	my ($did) = @_;
	return (map { $_->{publicKeyMultibase} } grep { $_->{id} =~ /#atproto$/ } @{ $documents{$did}{verificationMethod} })[0];
}

# The document is known as it is now, and may be read again.
sub look_up
{
	my ($did) = @_;

	query("SELECT atproto.identity_refresh('$did')");
	wait_for("SELECT EXISTS (SELECT FROM atproto.identity WHERE did = '$did' AND state = 'good') AND NOT EXISTS (SELECT FROM atproto.identity_request WHERE did = '$did')");
	query("UPDATE atproto.identity SET asked_at = asked_at - interval '30 min' WHERE did = '$did'");
	return;
}

# A fetch of it has failed, once, for good reasons.
sub wait_for_failure
{
	my ($did) = @_;

	wait_for("SELECT state = 'queued' AND tries = 1 AND doubted IS NULL FROM atproto.repo_job WHERE did = '$did'");
	return;
}

1;
