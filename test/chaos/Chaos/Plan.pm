# Chaos/Plan.pm
#		Makes the plan of a seed from its random numbers, before the run begins: so a plan can be repeated and cut.

package Chaos::Plan;

use strict;
use warnings FATAL => 'all';

use Chaos::Actions;

sub between { my ($lo, $hi) = @_; return $lo + int rand($hi - $lo + 1) }
sub one_of { return $_[ int rand @_ ] }
sub chance { return rand() < $_[0] ? 1 : 0 }

# $only: names of actions, or undef for all; for shrinking, $steps: numbers of steps.
sub make
{
	my ($seed, %o) = @_;
	my %plan = (seed => $seed, name => "c$seed");

	srand $seed;
	rand() for 1 .. 3;
	$plan{events}   = between(200, 500);
	$plan{accounts} = between(4, 40);
	$plan{rate}     = between(250, 700);
	$plan{simulate} = [
		'--events' => $plan{events}, '--accounts' => $plan{accounts}, '--seed' => $seed,
		'--history' => one_of(0, 20, 60), '--batches' => one_of(1, 5, 20), '--no-sign',
		'--mix' => 'delete=10,update=6,profile=3,account=3,identity=2,sync=1.5,other=1'
	];
	$plan{workers}     = one_of(1, 1, 1, 2, 3, 4);
	$plan{owner}       = chance(0.5) ? 'owner' : 'postgres';
	$plan{events_mode} = one_of('none', 'none', 'keep', 'keep', 'hand');
	$plan{tally}       = chance(0.5);
	$plan{foreign}     = chance(0.25);
	$plan{index}       = chance(0.3);
	$plan{unlock}      = chance(0.15);
	$plan{database}    = chance(0.15) ? 'alone' : 'postgres';
	$plan{batch_delay} = one_of(1, 10, 50, 100);
	$plan{synchronous} = one_of('on', 'off');

	# What may not come together: see README.md.
	my %names = map { $_ => [ grep { !$o{only} || $o{only}{$_} } Chaos::Actions::names($_) ] } qw(plain filters refuse clock);
	$plan{kind} = one_of(grep { @{ $names{$_} } } (qw(plain filters refuse) x 3, 'clock'));
	my @names = @{ $names{ $plan{kind} } };
	my @steps;
	my $expensive = 0;
	foreach my $i (1 .. between(4, 10))
	{
		my $name = Chaos::Actions::draw(rand, @names);
		my $step = {
			number => $i, name => $name, at => between(1, int($plan{events} * 0.95)),
			delay => chance(0.5) ? 0 : between(1, 60), hold => one_of(10, 60, 150, 400),
			u => [ map { rand } 1 .. 6 ]
		};

		# an expensive action costs a second, so a plan has two of these at most
		next if $Chaos::Actions::expensive{$name} && $expensive++ >= 2;
		push @steps, $step;
	}
	@steps = sort { $a->{at} <=> $b->{at} || $a->{number} <=> $b->{number} } @steps;
	@steps = grep { my $n = $_->{number}; $o{steps}{$n} } @steps if $o{steps};
	# two at once are worth more than two
	foreach my $i (1 .. $#steps) { $steps[$i]{at} = $steps[ $i - 1 ]{at} if chance(0.4) }
	$plan{steps} = \@steps;
	$plan{links} = chance(0.6) ? 'all' : 'none';
	return \%plan;
}

1;
