# 111_verdicts.pl
#		Each of 60 single frames comes through a connection of its own, which ends after the frame; the
#		recorded reason of the end shows the consumer's verdict on the frame: E-20 to E-30, E-40, E-42,
#		E-44.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use JSON::PP;
use PostgreSQL::Test::Utils;
use Test::More;

my $frames = decode_json(slurp_file(test_dir() . '/data/vectors/derived/frames.json'));
my $dir    = PostgreSQL::Test::Utils::tempdir();

# The first delay before a reconnection is anything up to an hour.
my $node = make_node(
	'verdicts', conf => <<'EOF');
max_worker_processes = 80
atproto.reconnect_delay = 1h
atproto.reconnect_max_delay = 1h
EOF

my @servers;
foreach my $i (0 .. $#$frames)
{
	my $bytes = pack 'H*', $frames->[$i]{hex};
	push @servers, AtprotoTest::Server->start(write_capture("$dir/$i", $bytes), '--close-at-end');
}
is(scalar @servers, 60, 'there are 60 frames');
$node->safe_psql('postgres',
	join ';', map { subscribe_sql("f$_", $servers[$_], cursor => 0) } 0 .. $#servers);
$node->poll_query_until('postgres',
	'SELECT count(*) = 60 FROM atproto.stat_subscription WHERE reconnects > 0 OR state = $$stopped$$')
  or BAIL_OUT('not every connection ended');

# The consumer's reaction to each verdict: the reason of the end, dead letters.
my %expected = (
	message => [ qr/^\{"closed": \d+\}$/,        0 ],
	ignore  => [ qr/^\{"closed": \d+\}$/,        0 ],
	error   => [ qr/^\{"error frame": \d+\}$/,   0 ],
	fatal   => [ qr/^\{"(?:frame|seq)": \d+\}$/, 1 ]);

# Frames without a seq, or whose payload is not read, move no cursor (E-42, E-22).
my %moves = map { $_ => 1 } 'identity', 'identity with unknown payload field',
  'identity with unknown header field', 'payload has $type', 'float64 in unknown field', 'seq 2^53-1',
  'unknown t', 't full NSID form', 't without #';

foreach my $i (0 .. $#$frames)
{
	my ($name, $verdict, $hex) = @{ $frames->[$i] }{ 'name', 'verdict', 'hex' };
	my ($drops, $events, $letters, $kept, $stage) = split /\|/, $node->safe_psql('postgres', <<"SQL");
SELECT drops, events, count(d.id), bool_and(f.bytes = '\\x$hex'), min(d.stage)
FROM atproto.stat_subscription s LEFT JOIN atproto.dead_letter d ON d.subscription = s.name
	LEFT JOIN atproto.dead_frame f USING (subscription, digest)
WHERE s.name = 'f$i' GROUP BY 1, 2
SQL

	if ($name eq 'error FutureCursor')
	{
		# E-45
		is($node->safe_psql('postgres', "SELECT stopped FROM atproto.subscription WHERE name = 'f$i'"),
			'the server sent the error FutureCursor: Cursor in the future.', "$name: stops");
		next;
	}
	like($drops, $expected{$verdict}[0], "$name: $verdict");
	is("$events $letters", join(' ', $moves{$name} ? 1 : 0, $expected{$verdict}[1]), "$name: events and dead letters");
	is("$kept $stage", 't frame', "$name: the frame is kept") if $expected{$verdict}[1];
}
is($node->safe_psql('postgres', 'SELECT did, count(*) FROM atproto.repo GROUP BY 1'),
	'did:plc:ewvi7nxzyoun6zhxrhs64oiz|1', 'the good messages arrived');

$node->stop;
done_testing();
