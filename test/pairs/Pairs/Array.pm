# Pairs/Array.pm
#		The switches of the extension, and an array of programs in which each pair of
#		values of two switches occurs, and each triple of the switches that change a subscription's state.
#
# The array depends only on this file, and so is the same on each machine.

package Pairs::Array;

use strict;
use warnings FATAL => 'all';

use List::Util qw(shuffle);

# Switches that are set when the program begins, and their values.
our @settings = (
	[ level       => qw(hash chain full) ],
	[ source      => qw(relay pds jetstream1 jetstream2 archive) ],
	[ union       => qw(none relay jetstream) ],
	[ backfill    => qw(none repair seen) ],
	[ links       => qw(none all) ],
	[ slice       => qw(no yes) ],
	[ workers     => qw(1 3) ],
	[ events      => qw(none keep hand) ],
	[ validate    => qw(none flag dead_letter) ],
	[ count       => qw(no yes) ],
	[ raw         => qw(no yes) ],
	[ owner       => qw(superuser owner granted) ],
	[ stranger    => qw(no yes) ],
	[ unlogged    => qw(no yes) ],
	[ publication => qw(no yes) ],
	[ foreign     => qw(no yes) ],
	[ triggers    => qw(no yes) ],
	[ security    => qw(no yes) ],
	[ accounts    => qw(stay change) ],
	[ server      => qw(stays dump promotion pitr upgrade) ]);

# Switches that change the state of a subscription while its stream goes on.
our @changes = (
	[ rename        => qw(no yes) ],
	[ rename_schema => qw(no yes) ],
	[ url           => qw(same server kind) ],
	[ filter        => qw(same wider narrower) ],
	[ target        => qw(same other) ],
	[ refill        => qw(no yes) ],
	[ retry         => qw(no yes) ],
	[ resync        => qw(no yes) ],
	[ unsubscribe   => qw(no yes) ],
	[ pause         => qw(no yes) ],
	[ partition     => qw(no collection month) ],
	[ kill          => qw(no process server) ]);

our @switches = (@settings, @changes);
my %values = map { my ($name, @of) = @$_; $name => \@of } @switches;
my %is_change = map { $_->[0] => 1 } @changes;

# Combinations that cannot be, each with its reason: switch => values, all of which must hold.
our @impossible = (
	{ of => { source => [ 'jetstream1', 'jetstream2', 'archive' ], level => [ 'chain', 'full' ] }, why => 'a Jetstream sends no proofs: subscribe() allows only the level hash' },
	{ of => { url => ['kind'], level => [ 'chain', 'full' ] }, why => 'the other kind of server is a Jetstream, at which only the level hash is allowed' },
	{ of => { resync => ['yes'], backfill => ['none'] }, why => 'resync() refuses where no subscription of the target fetches repositories' },
	{ of => { owner => ['granted'], partition => [ 'collection', 'month' ] }, why => 'only the owner of the tables may partition them' });

# Is no rule broken by these values, of some switches?
sub is_possible
{
	my ($program) = @_;

	foreach my $rule (@impossible)
	{
		my $broken = 1;
		foreach my $name (keys %{ $rule->{of} })
		{
			my $has = $program->{$name};
			$broken &&= defined $has && grep { $_ eq $has } @{ $rule->{of}{$name} };
		}
		return 0 if $broken;
	}
	return 1;
}

# Can these values be part of a whole program?  Rules are of few switches each: the values of the others are tried.
sub is_completable
{
	my ($program) = @_;
	my %some = %$program;

	return 0 unless is_possible(\%some);
	foreach my $rule (@impossible)
	{
		foreach my $name (sort grep { !defined $some{$_} } keys %{ $rule->{of} })
		{
			my ($value) = grep { is_possible({ %some, $name => $_ }) } @{ $values{$name} };
			return 0 unless defined $value;
			$some{$name} = $value;
		}
	}
	return 1;
}

sub key { my ($part) = @_; return join ' ', map { "$_=$part->{$_}" } sort keys %$part }

# All pairs, and all triples of changes: key => the values.  Second: those that cannot be.
sub wanted
{
	my (%wanted, %not);
	my $add = sub {
		my (@names) = @_;
		my @parts = ({});
		foreach my $name (@names)
		{
			@parts = map { my $part = $_; map { { %$part, $name => $_ } } @{ $values{$name} } } @parts;
		}
		foreach my $part (@parts) { (is_completable($part) ? \%wanted : \%not)->{ key($part) } = $part }
	};
	my @all = map { $_->[0] } @switches;
	my @of_change = map { $_->[0] } @changes;

	foreach my $i (0 .. $#all)
	{
		$add->(@all[ $i, $_ ]) foreach $i + 1 .. $#all;
	}
	foreach my $i (0 .. $#of_change)
	{
		foreach my $j ($i + 1 .. $#of_change)
		{
			$add->(@of_change[ $i, $j, $_ ]) foreach $j + 1 .. $#of_change;
		}
	}
	return (\%wanted, \%not);
}

# What a whole program has of all that is wanted.
sub parts
{
	my ($program) = @_;
	my @all = map { $_->[0] } @switches;
	my @of_change = map { $_->[0] } @changes;
	my @parts;

	foreach my $i (0 .. $#all)
	{
		push @parts, key({ map { $_ => $program->{$_} } @all[ $i, $_ ] }) foreach $i + 1 .. $#all;
	}
	foreach my $i (0 .. $#of_change)
	{
		foreach my $j ($i + 1 .. $#of_change)
		{
			push @parts, key({ map { $_ => $program->{$_} } @of_change[ $i, $j, $_ ] }) foreach $j + 1 .. $#of_change;
		}
	}
	return @parts;
}

# A number that is the same everywhere, below n.
my $state;
sub below { my ($n) = @_; $state = ($state * 1103515245 + 12345) % 2147483648; return int($state / 65536) % $n }

# How many parts that are still missing the value would bring, beside those that are set.
sub gain
{
	my ($missing, $program, $name, $value) = @_;
	my @set = grep { defined $program->{$_} } map { $_->[0] } @switches;
	my $gain = 0;

	foreach my $other (@set)
	{
		$gain++ if $missing->{ key({ $name => $value, $other => $program->{$other} }) };
	}
	return $gain unless $is_change{$name};
	my @changed = grep { $is_change{$_} } @set;
	foreach my $i (0 .. $#changed)
	{
		foreach my $j ($i + 1 .. $#changed)
		{
			$gain++ if $missing->{ key({ $name => $value, map { $_ => $program->{$_} } @changed[ $i, $j ] }) };
		}
	}
	return $gain;
}

# Begins with a part, and gives each other switch the value that brings most.
sub complete
{
	my ($missing, $part) = @_;
	my %program = %$part;
	my @others = grep { !defined $program{$_} } map { $_->[0] } @switches;

	# in an order of its own
	for (my $i = $#others; $i > 0; $i--)
	{
		my $j = below($i + 1);
		@others[ $i, $j ] = @others[ $j, $i ];
	}
	foreach my $name (@others)
	{
		my ($best, $most) = (undef, -1);
		foreach my $value (@{ $values{$name} })
		{
			next unless is_completable({ %program, $name => $value });
			my $gain = gain($missing, \%program, $name, $value);
			($best, $most) = ($value, $gain) if $gain > $most || ($gain == $most && below(2));
		}
		die "no value of $name goes with " . key(\%program) . "\n" unless defined $best;
		$program{$name} = $best;
	}
	return \%program;
}

my $made;

# The programs, in their order: the first ones cover most.
sub programs
{
	return @$made if $made;
	my ($missing) = wanted();
	my @programs;

	$state = 25;
	while (my @keys = sort keys %$missing)
	{
		my ($best, $most) = (undef, 0);
		foreach my $try (1 .. 6)
		{
			my $program = complete($missing, $missing->{ $keys[ below(scalar @keys) ] });
			my $new = grep { $missing->{$_} } parts($program);
			($best, $most) = ($program, $new) if $new > $most;
		}
		delete @$missing{ parts($best) };
		push @programs, $best;
	}
	$made = \@programs;
	return @programs;
}

# A program that is drawn: any values that go together.
sub draw
{
	my ($seed) = @_;

	$state = $seed % 2147483648;
	below(2) for 1 .. 5;
	my %program;
	foreach my $name (map { $_->[0] } @switches)
	{
		my @may = grep { is_completable({ %program, $name => $_ }) } @{ $values{$name} };
		$program{$name} = $may[ below(scalar @may) ];
	}
	return \%program;
}

# What is wrong with the array; nothing: each part is in it, and no program is impossible.
sub faults
{
	my ($wanted, $not) = wanted();
	my (@faults, %has);

	foreach my $program (programs())
	{
		push @faults, 'not possible: ' . key($program) unless is_possible($program);
		push @faults, 'not whole: ' . key($program) if grep { !defined $program->{ $_->[0] } } @switches;
		$has{$_} = 1 foreach parts($program);
	}
	push @faults, map { "in no program: $_" } sort grep { !$has{$_} } keys %$wanted;
	push @faults, map { "in a program, and impossible: $_" } sort grep { $has{$_} } keys %$not;
	# each that cannot be has a rule that says why
	foreach my $part (map { $not->{$_} } sort keys %$not)
	{
		push @faults, 'impossible without a reason: ' . key($part) if is_completable($part);
	}
	push @faults, map { 'a rule without a reason: ' . join ' ', sort keys %{ $_->{of} } } grep { !$_->{why} } @impossible;
	return @faults;
}

1;
