# 393_jetstream_third.pl
#		Two relays and a Jetstream, which is ahead of both, fill the same tables.  The second relay lacks a
#		commit and sends the following commits before the first relay sends the missing one.  A repository
#		that loses an operation must be marked.  F-08.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Jetstream;
use AtprotoTest::Union;
use PostgreSQL::Test::Utils;
use Test::More;

my $node  = make_node('third', conf => "max_worker_processes = 20\natproto.reconnect_delay = 50ms\natproto.multi_source_wait = 0");
my $union = AtprotoTest::Union->new($node);
my $dir   = PostgreSQL::Test::Utils::tempdir();
my ($one) = $union->repositories;
my ($did, @commits) = @$one;

# The second relay completes Jetstream's part of a commit, or continues after it.
foreach my $lacks (1, 2)
{
	foreach my $has_all (0, 1)
	{
		my $what  = ($lacks == 1 ? 'the commit itself' : 'the one after it') . ($has_all ? ', Jetstream has all' : '');
		my @gone  = @commits[ 2 .. 1 + $lacks ];
		my @parts = map { $union->{messages}[$_] } $has_all ? @commits[ 2 .. 3 ] : $commits[3];
		my $texts = texts('v2', write_capture("$dir/parts$lacks$has_all", @parts));
		my ($first, $second) = map { AtprotoTest::Server->start($union->without(@$_), '--hold-at', $commits[2] + 1) } [], \@gone;
		my $jetstream = AtprotoTest::Server->start($texts);

		query('CREATE SCHEMA m');
		query(subscribe_sql($_->[0], $_->[1], cursor => 0, target => "'m'")) foreach [ 'first', $first ], [ 'second', $second ];
		wait_for_seq($node, $_, $commits[2]) foreach qw(first second);
		query(subscribe_sql('jetstream', $jetstream, cursor => 0, target => "'m'"));
		wait_for_texts('jetstream', $texts);
		$second->release;
		wait_for_seq($node, 'second', $PDS_LAST);
		is(query("SELECT sync FROM m.repo WHERE did = '$did'"), 'partial', "$what: nobody can know yet");
		$first->release;
		wait_for_seq($node, 'first', $PDS_LAST);
		is(query("SELECT sync FROM m.repo WHERE did = '$did'"), $has_all ? 'partial' : 'desynchronized', "F-08: $what: the first relay has more, or the same");
		tables_match($node, $union->{pds}, "$what: all is there", schema => 'm', modes => ['record']) if $has_all;
		query('SELECT atproto.unsubscribe(name) FROM atproto.subscription');
		wait_for(q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'atproto consumer'});
		query('SET client_min_messages = warning; DROP SCHEMA m CASCADE');
	}
}

$node->stop;
done_testing();
