# AtprotoTest/Backfill.pm
#		A simulated network (test/simulator) with a stream, a list of repositories, and servers with the
#		exports.  A backfill from this network, while its stream goes on, must fill the tables with the
#		network's records.
#
#		my $simulated = AtprotoTest::Backfill->begin(seed => 1);
#		my $node = make_node('main', start => $simulated->preload, conf => $simulated->settings);
#		my $server = AtprotoTest::Server->start($simulated->capture, '--hold-at', $simulated->half + 1);
#		$simulated->serve(1, $server);
#		query($simulated->subscribe_sql('s', backfill => "'network'"));
#		...
#		$simulated->serve(2, $server);
#		is($simulated->difference, '', 'all is there');

package AtprotoTest::Backfill;

use strict;
use warnings FATAL => 'all';

use AtprotoTest ();
use AtprotoTest::Network;
use AtprotoTest::Preload;
use JSON::PP;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

# The host of the stream and of the list.
our $HOST = 'stream.example.com';

# Twice so many events as half, of which the stream lacks some of the first half; accounts that the mix makes inactive
# have no export then.  With hosts, the accounts are spread evenly over so many: pds0.example.net, ...
sub begin
{
	my ($class, %o) = @_;
	my $half  = $o{half} // 300;
	my $files = PostgreSQL::Test::Utils::tempdir('simulated');
	my ($capture, $expect) = AtprotoTest::simulate(
		'--events' => 2 * $half, '--accounts' => $o{accounts} // 12, '--seed' => 1 + ($o{seed} // 0) % 1000, '--history' => 0, '--epoch' => $half, '--batches' => 5,
		'--mix' => 'delete=12,update=8,profile=2,identity=0,sync=1,account=' . ($o{account} // 0), '--directory' => "$files/directory",
		'--exports' => "$files/exports");
	my $network = AtprotoTest::Network->start;
	my $self = bless {
		half => $half, files => $files, expect => $expect, network => $network, preload => AtprotoTest::Preload->make(network => $network),
		capture => AtprotoTest::make_capture('lost.py', $capture, $half, 9),
	}, $class;
	my %documents;

	foreach my $line (split /\n/, slurp_file("$files/directory/documents"))
	{
		my $entry = decode_json($line);

		next unless $entry->{document} && -e "$files/exports/2/$entry->{did}.car";
		$entry->{document}{service}[0]{serviceEndpoint} = 'https://pds' . keys(%documents) % $o{hosts} . '.example.net' if $o{hosts} && !$documents{ $entry->{did} };
		$documents{ $entry->{did} } = $entry->{document};
		($self->{pds}{ $entry->{did} }) = $entry->{document}{service}[0]{serviceEndpoint} =~ m{//(.*)};
	}
	$network->documents(\%documents);
	return $self;
}

sub half    { my ($self) = @_; return $self->{half} }
sub last    { my ($self) = @_; return 2 * $self->{half} }
sub capture { my ($self) = @_; return $self->{capture} }
sub network { my ($self) = @_; return $self->{network} }
sub preload { my ($self) = @_; return $self->{preload} }

# DIDs, and the host of each.
sub dids { my ($self) = @_; return sort keys %{ $self->{pds} } }
sub pds { my ($self, $did) = @_; return $self->{pds}{$did} }

# The file with what an account had after half of the events (1), or all (2); undef when that was nothing.
sub export
{
	my ($self, $did, $epoch) = @_;
	my $car = "$self->{files}/exports/$epoch/$did.car";
	return -e $car ? $car : undef;
}

sub settings
{
	my ($self) = @_;
	return $self->{network}->settings . <<"EOF";
atproto.fetch_retry = '1s'
atproto.fetch_host_rate = 1000
atproto.fetch_allow = 'http://$HOST'
atproto.reconnect_delay = 50ms
max_worker_processes = 24
EOF
}

# The servers have what they had after so many events: 1, half of them; 2, all.
sub serve
{
	my ($self, $epoch, $server) = @_;
	my (%repos, @list);

	foreach my $did ($self->dids)
	{
		my $car = $self->export($did, $epoch);

		push @list, { did => $did } if $car;
		$repos{$_}{$did} = $car ? { car => $car } : undef foreach ($HOST, $self->pds($did));
	}
	$self->{network}->hosts({ $HOST => { stream => $server->port, list => \@list, page => 5 } });
	$self->{network}->repos(\%repos);
	return;
}

# Arguments of subscribe() by name, as SQL.
sub subscribe_sql
{
	my ($self, $name, %o) = @_;
	return "SELECT atproto.subscribe('$name', 'ws://$HOST', allow_insecure => true" . join('', map { ", $_ => $o{$_}" } sort keys %o) . ')';
}

# What is not done yet of a subscription that is to have read up to a seq; 'nothing', or undef while nobody can say.
sub outstanding
{
	my ($self, $name, $seq, %where) = @_;
	return AtprotoTest::try_query(<<"EOS", %where);
SELECT COALESCE(NULLIF(concat_ws(', ', 'seq ' || NULLIF((SELECT seq FROM atproto.cursor WHERE subscription = '$name' AND seq < $seq), -1),
	(SELECT 'no cursor' WHERE NOT EXISTS (SELECT FROM atproto.cursor WHERE subscription = '$name')),
	NULLIF((SELECT count(*) FROM atproto.repo_job), 0) || ' jobs', NULLIF((SELECT count(*) FROM atproto.held_event), 0) || ' held',
	NULLIF((SELECT count(*) FROM atproto.repo WHERE hold IS NOT NULL OR sync <> 'synchronized'), 0) || ' repositories',
	(SELECT 'no repository' WHERE NOT EXISTS (SELECT FROM atproto.repo))), ''), 'nothing')
EOS
}

# Fetches that wait since they failed or were many are tried now.
sub hurry
{
	my ($self, %where) = @_;
	AtprotoTest::try_query("UPDATE atproto.repo_job SET next_try = '-infinity', tries = 0 WHERE state = 'queued' AND next_try > now() + interval '2 s'", %where);
	AtprotoTest::try_query("UPDATE atproto.repo_job SET state = 'queued', next_try = '-infinity' WHERE state = 'throttled'; DELETE FROM atproto.repo_fetched", %where);
	return;
}

# Waits until nothing is outstanding.
sub finish
{
	my ($self, $name, %where) = @_;
	my $deadline = time + 4 * $AtprotoTest::TIMEOUT;
	my $left;

	until (($left = $self->outstanding($name, $self->last, %where) // 'no answer') eq 'nothing')
	{
		BAIL_OUT("outstanding: $left") if time > $deadline;
		$self->hurry(%where);
		usleep(50_000);
	}
	return;
}

# Where the tables are not what the network has after all events: rows, and repositories of which an audit does not
# say so.  Of another target than atproto: schema => its name.  With collections => [...], only records of these; no audit
# is possible then.
sub difference
{
	my ($self, %where) = @_;
	my $schema = delete $where{schema} // 'atproto';
	my $collections = delete $where{collections};
	my %wanted = map { $_ => 1 } @{ $collections // [] };
	my %rows = map { $_ => 1 } split /\n/, AtprotoTest::query("SELECT did, collection, rkey, cid FROM $schema.record", %where);
	# one by one: where Citus has the rows, an audit cannot be part of a query that runs on them
	my $dids = AtprotoTest::query("SELECT array_agg(did) FROM $schema.repo WHERE active", %where);
	my @expected = grep { !$collections || $wanted{ (split /\t/)[1] } } split /\n/, slurp_file("$self->{expect}/record");
	my @lacking = grep { !delete $rows{$_} } map { join '|', (split /\t/)[ 0 .. 3 ] } @expected;
	my @differences = ((map { "lacking $_" } @lacking), map { "too many $_" } sort keys %rows);

	return join "\n", @differences if $collections;
	return join "\n", @differences, map { "audit $_" } split /\n/,
	  AtprotoTest::query("SELECT r.did, a.reason FROM unnest('$dids'::did[]) r (did), LATERAL atproto.audit(r.did, '$schema', deep => true) a WHERE a.equal IS NOT TRUE", %where);
}

1;
