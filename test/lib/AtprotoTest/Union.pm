# AtprotoTest/Union.pm
#		Captures of the same traffic with different commits missing, and a comparison of the
#		tables that several of these sources have filled.
#
#		my $union = AtprotoTest::Union->new($node);
#		my @captures = $union->lossy(3, 30);	# each lacks 30 % of the commits, which a different source has
#		my $capture = $union->without($i, ...);	# lacks these commits of $union->commits
#		$union->follow('schema', [ 'chain', 'hash' ], \@servers, workers => 2);
#		$union->at_end; $union->matches('schema', 'two'); $union->forget;

package AtprotoTest::Union;

use strict;
use warnings FATAL => 'all';

use AtprotoTest;
use PostgreSQL::Test::Utils;
use Test::More;

sub new
{
	my ($class, $node) = @_;
	my $pds = capture('pds.frames.gz');
	my $self = bless { node => $node, pds => $pds, messages => [ read_capture($pds) ], dir => PostgreSQL::Test::Utils::tempdir(), n => 0 }, $class;
	my %of;

	# The commits after the last #sync or #account of their repository: what such a one has overtaken cannot be
	# united.  Nor can its first one.  And the last message tells that all have come.
	foreach my $i (0 .. $#{ $self->{messages} } - 1)
	{
		my ($did) = $self->{messages}[$i] =~ /(did:plc:[a-z2-7]{24})/ or next;
		my ($type) = substr($self->{messages}[$i], 0, 60) =~ /#(commit|sync|account)/ or next;

		$of{$did} = [] if $type ne 'commit';
		push @{ $of{$did} }, $i if $type eq 'commit';
	}
	foreach my $did (sort keys %of)
	{
		my @own = @{ $of{$did} };

		push @{ $self->{commits} }, @own[ 1 .. $#own ];
		# of one whose account stays, and which has some
		$self->{of}{$did} = \@own if @own > 6;
	}
	return $self;
}

# Indexes of commits that a source may lack.
sub commits
{
	my ($self) = @_;
	return @{ $self->{commits} };
}

# Repositories with some commits, and these, in their order; the first one should not be left out.
sub repositories
{
	my ($self) = @_;
	return map { [ $_, @{ $self->{of}{$_} } ] } sort keys %{ $self->{of} };
}

sub without
{
	my ($self, @lacks) = @_;
	my %lacks = map { $_ => 1 } @lacks;

	return write_capture("$self->{dir}/capture" . ++$self->{n}, @{ $self->{messages} }[ grep { !$lacks{$_} } 0 .. $#{ $self->{messages} } ]);
}

sub lossy
{
	my ($self, $n, $percent) = @_;
	my @lacks = map { [] } 1 .. $n;

	foreach my $commit ($self->commits)
	{
		my $has = int rand $n;

		push @{ $lacks[$_] }, $commit foreach grep { $_ != $has && rand(100) < $percent } 0 .. $n - 1;
	}
	return map { $self->without(@$_) } @lacks;
}

# Subscriptions schema0, schema1, ... of these levels.
sub follow
{
	my ($self, $schema, $levels, $servers, %more) = @_;

	query("BEGIN; CREATE SCHEMA $schema; "
		. join('; ', map { subscribe_sql("$schema$_", $servers->[$_], cursor => 0, target => "'$schema'", events => "'keep'", verify => "'$levels->[$_]'", %more) } 0 .. $#$servers) . '; COMMIT');
	return;
}

# All have come to their ends.
sub at_end
{
	wait_until(sub { (try_query("SELECT bool_and(seq >= $PDS_LAST) FROM atproto.stat_subscription") // '') eq 't' }, 'the ends of all');
	return;
}

# Nothing waits, and the tables are those of all the traffic.
sub matches
{
	my ($self, $schema, $what) = @_;

	wait_for("SELECT count(*) = 0 FROM atproto.held_event WHERE target = '$schema'");
	tables_match($self->{node}, $self->{pds}, "$what: the tables are what the oracle says of all, each operation once",
		schema => $schema, modes => [ 'record', 'repo', 'event' ]);
	is(query("SELECT count(*) FROM $schema.repo WHERE hold IS NOT NULL OR sync = 'desynchronized'"), '0', "$what: nothing waits, nothing was missed");
	return;
}

sub forget
{
	query('SELECT atproto.unsubscribe(name) FROM atproto.subscription');
	wait_for(q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type IN ('atproto consumer', 'atproto apply worker')});
	return;
}

1;
