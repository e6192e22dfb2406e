# 355_repo_attacks.pl
#		Hostile servers answer with invalid or unloadable files: cut, endless, with impossible lengths,
#		compressed bombs, millions of useless blocks.  For each answer no row changes, the job shows the
#		problem, and the fetcher survives in bounded memory.  One server sends its bytes slowly while other
#		jobs wait for the memory reserved by the slow job.  R-40 to R-46.

use strict;
use warnings FATAL => 'all';

use Digest::SHA qw(sha256);
use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Clock;
use AtprotoTest::Exports;
use MIME::Base64;
use PostgreSQL::Test::Utils;
use Test::More;

my ($network, $node, $files) = begin_exports('attacks', "atproto.fetch_retry = '1h'\natproto.fetch_memory = '1MB'\natproto.max_repo_bytes = '16MB'\natproto.max_repo_records = 600\n");
my $clock = AtprotoTest::Clock->new($node);
my ($me, $other, $many) = map { did($_) } qw(a c d);

sub varint
{
	my ($n) = @_;
	return $n < 128 ? chr $n : chr($n % 128 + 128) . varint(int($n / 128));
}

# A section: raw bytes, and their CID.
sub block
{
	my ($bytes) = @_;
	return varint(36 + length $bytes) . "\x01\x55\x12\x20" . sha256($bytes) . $bytes;
}

# Where the sections of a file begin.
sub sections
{
	my ($car) = @_;
	my ($at, @at) = (0);

	while ($at < length $car)
	{
		my ($len, $shift) = (0, 0);

		push @at, $at;
		for (;;)
		{
			my $byte = ord substr $car, $at++, 1;
			$len |= ($byte & 127) << $shift;
			$shift += 7;
			last if $byte < 128;
		}
		$at += $len;
	}
	return @at;
}

sub serve
{
	my ($did, $car, %fault) = @_;

	open my $f, '>:raw', "$files/made.$did" or die;
	print $f $car;
	close $f or die;
	$network->repos({ $HOST => { $did => { car => "$files/made.$did" } } });
	return unless %fault;
	return $network->fault({ host => $HOST, did => $did, path => 'getRepo\\b', %fault });
}

sub fetcher { return query("SELECT pid FROM pg_stat_activity WHERE backend_type = 'atproto fetcher'") }

# The peak memory of the process, in kB.
sub peak { return slurp_file("/proc/$_[0]/status") =~ /VmHWM:\s*(\d+)/ ? $1 : undef }

my $fingerprint = "SELECT md5(string_agg(concat_ws(' ', did, collection, rkey, ctid, xmin), E'\\n' ORDER BY did, collection, rkey)) FROM atproto.record";
my $first       = slurp_file("$files/first.car");
my $second      = slurp_file("$files/second.car");
my @at          = sections($second);
my $last        = substr $second, $at[-1];
my $tiny        = sub { my ($n) = @_; join '', map { block(pack 'N', $_) } 1 .. $n };

query("SELECT atproto.subscribe('attacks', 'wss://$HOST', backfill => 'repair')");
serve($me, $first);
query("SELECT atproto.resync('$me')");
wait_for("SELECT EXISTS (SELECT FROM atproto.repo WHERE did = '$me' AND sync = 'synchronized' AND hold IS NULL)");
my ($rows, $pid) = (query($fingerprint), fetcher());
my $before = -r "/proc/$pid/status" ? peak($pid) : undef;

# --- answers other than an export ---

foreach my $case (
	[ 'nothing',                         '',                                        qr/ends in the middle|truncated|is cut/i ],
	[ 'a page',                          '<html>no</html>',                         qr/invalid CAR file/ ],
	[ 'cut inside a block',              substr($second, 0, -5),                    qr/invalid CAR file at byte \d+/ ],
	[ 'cut inside a length',             $second . "\xff",                          qr/invalid CAR file at byte \d+/ ],
	[ 'cut between two blocks',          substr($second, 0, $at[-1]),               qr/A record of the tree is not among the blocks/ ],
	[ 'only its header',                 substr($second, 0, $at[1]),                qr/invalid CAR file/ ],
	[ 'a length that overflows',         $second . "\xff" x 9 . "\x7f",             qr/invalid CAR file at byte \d+/ ],
	[ 'a length of too many bytes',      $second . "\x80" x 20,                     qr/invalid CAR file at byte \d+/ ],
	[ 'a section of no bytes',           $second . "\0",                            qr/invalid CAR file at byte \d+/ ],
	[ 'a section of 2 GB',               $second . varint(2**31) . 'x' x 1000,      qr/invalid CAR file at byte \d+/ ],
	[ 'a header of 2 GB',                varint(2**31) . 'x' x 1000,                qr/invalid CAR file at byte \d+/ ],
	[ 'more records than the limit',     slurp_file("$files/big.car"),              qr/exceeds "atproto.max_repo_records"/, who => $other ],
	[ 'an end that never comes',         $second,                                   qr/exceeds "atproto.max_repo_bytes"/, repeat => encode_base64($last, '') ],
	[ 'packed a thousand times smaller', $second . block("\0" x 1_900_000) x 10,    qr/exceeds "atproto.max_repo_bytes"/, gzip => JSON::PP::true ],
	[ 'zeros, packed so',                '',                                        qr/invalid CAR file at byte \d+/, bomb => 1000 ],
	[ 'blocks that nothing needs',       $second . $tiny->(320_000),                qr/exceeds what "atproto.fetch_memory" allows/ ])
{
	my ($name, $car, $error, %fault) = @$case;
	my $did   = delete $fault{who} // $me;
	my $fault = serve($did, $car, %fault);

	query("DELETE FROM atproto.repo_job; SELECT atproto.resync('$did')");
	wait_for("SELECT EXISTS (SELECT FROM atproto.repo_job WHERE state = 'queued' AND tries = 1)");
	my ($problem, $why) = split /\|/, query("SELECT problem, error FROM atproto.repo_problem WHERE did = '$did'"), 2;
	is($problem, 'failed', "$name: it is told");
	like($why, $error, "$name: and why");
	is(query($fingerprint), $rows, "$name: not a row has changed");
	is(query("SELECT count(*) FILTER (WHERE hold IS NOT NULL), count(*) FILTER (WHERE sync = 'resyncing') FROM atproto.repo"), '0|0', "$name: nothing waits for it");
	$network->unfault($fault) if defined $fault;
}
is(fetcher(), $pid, 'the fetcher lives');
SKIP:
{
	skip 'nobody tells how much memory a process has taken', 1 unless defined $before;
	cmp_ok(peak($pid) - $before, '<', 48 * 1024, 'R-46: its memory is bounded');
}
is(query("SELECT count(*) FROM pg_ls_tmpdir()"), '0', 'R-46: no temporary file stays');
serve($me, $second);
query("SELECT atproto.resync('$me')");
wait_for("SELECT NOT EXISTS (SELECT FROM atproto.repo_job WHERE did = '$me')");
is(query("SELECT equal, records FROM atproto.audit('$me')"), 't|531', 'what is one is taken all the same');

# --- a slow answer makes other jobs wait for the memory that its job has reserved ---

$node->safe_psql('postgres', $_) foreach "ALTER SYSTEM SET atproto.fetch_memory = '8MB'", 'SELECT pg_reload_conf()';
wait_for("SELECT setting = '8192' FROM pg_settings WHERE name = 'atproto.fetch_memory'");
my $blocks = $tiny->(250_000);
my $slow   = serve($me, slurp_file("$files/again.car") . $blocks, rate_after => length($blocks), rate => 2000);
serve($many, slurp_file("$files/no_collections.car") . $blocks);
query("SELECT atproto.resync('$me')");
wait_for("SELECT sum(size) > 5000000 FROM pg_ls_tmpdir()");
query("SELECT atproto.resync('$many')");
wait_for("SELECT state = 'running' FROM atproto.repo_job WHERE did = '$many'");
wait_until(
	sub {
		return 1 if query("SELECT EXISTS (SELECT FROM atproto.repo_job WHERE did = '$me' AND error ~ 'others waited for the memory')") eq 't';
		$clock->advance(31);
		return 0;
	},
	'the one that is waited for to be given up');
pass('R-46: an export that does not get on while others wait for its memory is given up');
wait_for("SELECT NOT EXISTS (SELECT FROM atproto.repo_job WHERE did = '$many')");
is(query("SELECT sync FROM atproto.repo WHERE did = '$many'"), 'synchronized', 'R-46: and they get on');
$network->unfault($slow);
query("SELECT atproto.resync('$me')");
wait_for("SELECT NOT EXISTS (SELECT FROM atproto.repo_job WHERE did = '$me')");
is(query("SELECT equal, records FROM atproto.audit('$me')"), 't|531', 'R-24: which is fetched another time');
is(fetcher(), $pid, 'by the same fetcher');

$node->stop;
done_testing();
