# Chaos/Model.pm
#		Computes the rows that the tables must have after a capture (history.py) was applied
#		in known pieces, each under known settings.
#
# A piece is { shard, shards, after, upto, setting }: the events between two positions of a
# cursor.  A setting is { collections, dids, actions: lists, or undef for all;
# keep_records; events: none, keep or hand }.  The rules are those of
# test/oracle/state.py; the model repeats them because only in chaos runs a
# piece may come twice, and settings differ from one repository to another.

package Chaos::Model;

use strict;
use warnings FATAL => 'all';

# The tree without records.
my $EMPTY = 'bafyreie5737gdxlw5i64vzichcalba3z2v5n6icifvx5xytvske7mr3hpm';

sub read_history
{
	my ($path) = @_;
	my @events;

	open my $f, '<:raw', $path or die "cannot read $path: $!";
	while (my $line = <$f>)
	{
		chomp $line;
		my ($seq, $what, @columns) = split /\t/, $line, -1;
		my %row = (seq => $seq);

		if ($what =~ /^#/)
		{
			@row{qw(kind did rev commit data active status handle prev since)} = ($what, @columns);
			$row{ops} = [];
			push @events, \%row;
		}
		else
		{
			@row{qw(action did rev collection rkey cid json)} = ($what, @columns);
			push @{ $events[-1]{ops} }, \%row;
		}
	}
	return \@events;
}

sub wants
{
	my ($setting, $op) = @_;

	return 0 if $setting->{actions} && !grep { $_ eq $op->{action} } @{ $setting->{actions} };
	return 1 unless $setting->{collections};
	foreach my $wanted (@{ $setting->{collections} })
	{
		my $pattern = quotemeta $wanted;
		$pattern =~ s/\\\*$/.*/;
		return 1 if $op->{collection} =~ /^$pattern$/;
	}
	return 0;
}

sub new_repo
{
	return {
		rev => '\N', commit => '\N', data => '\N', active => 't', status => '\N', handle => '\N',
		first => '\N', sync => 'partial', records => {}, told => 0
	};
}

# A row of record_event, for its triggers or to stay; old: the record that was there, if that is known.
sub note_event
{
	my ($self, $setting, $old, @row) = @_;
	my (undef, $action, undef, $collection) = split /\t/, join "\t", @row;

	$self->{counts}{$collection}{$action}++ if $setting->{count};
	return if $setting->{events} eq 'none';
	push @{ $self->{ $setting->{events} eq 'keep' ? 'record_event' : 'handed' } },
	  join "\t", @row, defined $old ? (split /\t/, $old)[0] : '\N';
	return;
}

# All records of a deleted account go, each with an event.
sub erase
{
	my ($self, $repo, $event, $setting) = @_;

	foreach my $key (sort keys %{ $repo->{records} })
	{
		my $record = $repo->{records}{$key};
		$self->note_event($setting, $record, $event->{seq}, 'delete', $event->{did}, $key, (split /\t/, $record)[1], '\N', '\N');
	}
	$repo->{records} = {};
	return;
}

sub take_commit
{
	my ($self, $repo, $event, $setting) = @_;

	return unless $repo->{active} eq 't';
	if ($repo->{rev} ne '\N' && $event->{rev} le $repo->{rev})
	{
		# from before what was seen first
		$repo->{sync} = 'desynchronized' if $event->{kind} eq '#commit' && $event->{rev} lt $repo->{first} && $repo->{status} ne 'deleted'
		  && $repo->{sync} ne 'synchronized';
		return;
	}
	# what a #sync names is not brought by it: "+" comes after this revision, and before all later ones
	$repo->{first} = $event->{rev} . ($event->{kind} eq '#sync' ? '+' : '') if $repo->{rev} eq '\N';
	# contents that no commit has named, or a commit that was missed
	$repo->{sync} = 'desynchronized' if $event->{kind} eq '#sync' && $repo->{data} ne $event->{data};
	$repo->{sync} = 'desynchronized' if $event->{kind} eq '#commit' && $repo->{data} ne '\N' && $repo->{data} ne $event->{prev};
	# of an account that begins, all is known
	$repo->{sync} = 'synchronized' if $event->{kind} eq '#commit' && $repo->{data} eq '\N' && $event->{prev} eq $EMPTY && $event->{since} eq '\N';
	@$repo{qw(rev commit data)} = @$event{qw(rev commit data)};
	foreach my $op (@{ $event->{ops} })
	{
		next unless wants($setting, $op);
		my $key = "$op->{collection}\t$op->{rkey}";

		$self->{ops}++;
		$self->note_event($setting, $setting->{keep_records} ? $repo->{records}{$key} : undef,
			@$op{qw(seq action did collection rkey rev cid json)});
		next unless $setting->{keep_records};
		if ($op->{action} eq 'delete') { delete $repo->{records}{$key} }
		else { $repo->{records}{$key} = "$op->{cid}\t$op->{rev}\t$op->{json}" }
	}
	return;
}

sub take
{
	my ($self, $event, $setting) = @_;

	return if $setting->{slice} && $setting->{slice} ne "$event->{slices}{ $setting->{slices} }/$setting->{slices}";
	return if $setting->{dids} && !grep { $_ eq $event->{did} } @{ $setting->{dids} };
	my $repo = $self->{repos}{ $event->{did} } //= new_repo();
	if ($event->{kind} eq '#identity')
	{
		$repo->{handle} = $event->{handle} unless $event->{handle} eq '\N';
	}
	elsif ($event->{kind} eq '#account')
	{
		# an #account event with a lower number than the last one was sent again, and is passed over
		return if $event->{seq} < $repo->{told};
		$repo->{told} = $event->{seq};
		@$repo{qw(active status)} = @$event{qw(active status)};
		$self->erase($repo, $event, $setting) if $event->{active} eq 'f' && $event->{status} eq 'deleted';
	}
	else
	{
		$self->take_commit($repo, $event, $setting);
	}
	return;
}

# Returns the rows of record, repo, record_event, of what was handed over and of what was counted, as
# lines of COPY; how many operations were applied, and events counted.
sub expected
{
	my ($events, $pieces) = @_;
	my $self = bless { repos => {}, ops => 0, events => 0, counts => {}, map { $_ => [] } qw(record repo record_event handed collection_stat) };

	foreach my $piece (@$pieces)
	{
		foreach my $event (@$events)
		{
			next if $event->{seq} <= $piece->{after} || $event->{seq} > $piece->{upto};
			next if $event->{hash} % $piece->{shards} != $piece->{shard};
			$event->{times}++;
			$self->{events}++;
			$self->take($event, $piece->{setting});
		}
	}
	foreach my $did (sort keys %{ $self->{repos} })
	{
		my $repo = $self->{repos}{$did};
		push @{ $self->{repo} }, join "\t", $did, @$repo{qw(rev commit data active status handle sync)};
		push @{ $self->{record} }, map { "$did\t$_\t$repo->{records}{$_}" } sort keys %{ $repo->{records} };
	}
	foreach my $collection (sort keys %{ $self->{counts} })
	{
		push @{ $self->{collection_stat} }, join "\t", $collection, map { $_ // 0 } @{ $self->{counts}{$collection} }{qw(create update delete)};
	}
	return $self;
}

1;
