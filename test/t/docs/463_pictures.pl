# 463_pictures.pl
#		The pictures of the pages are what their programs draw: the measurements from bench/notes, every bar
#		with a figure of the notes; the demo from a recording with the queries of make demo.  The
#		program that draws the dashboard draws each panel of dashboard.json, from what a server answers.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Pages;
use AtprotoTest::Process;
use IPC::Run;
use JSON::PP;
use PostgreSQL::Test::Utils;
use Test::More;

my $root = root();
my $dir  = PostgreSQL::Test::Utils::tempdir('pictures');

sub drawn
{
	my (@command) = @_;
	my $out = '';

	ok(IPC::Run::run(\@command, '<', \undef, '>&', \$out), "@command[0, 1]: draws") or diag($out);
	return;
}

# --- measurements ---

my @notes = glob("$root/bench/notes/*.md");
my $notes = join '', map { slurp_file($_) } @notes;
my $page  = page_text('bench/README.md');
foreach my $of ($page =~ /`bench\/plot --groups (\S+ doc\/images\/\w+\.svg) bench\/notes\/\*\.md`/g)
{
	my ($groups, $picture) = split / /, $of;

	drawn("$root/bench/plot", '--groups', $groups, "$dir/picture.svg", @notes);
	is(slurp_file("$dir/picture.svg"), slurp_file("$root/$picture"), "$picture is what bench/plot draws from the notes");
	like($page, qr{\(\.\./$picture\)}, "bench/README.md shows $picture");
}
my $bench = slurp_file("$root/doc/images/bench.svg");
my ($peers, $copy) = $bench =~ /bold">(Seconds until.*?)(The floor.*?)Five questions/s or BAIL_OUT('the picture begins with something else');
my @seconds = $peers =~ />(\d+\.\d\d) s/g;
cmp_ok(scalar @seconds, '>=', 13, 'programs outside the server come first');
is(join(' ', grep { $notes !~ /\| \Q$_\E \(/ } @seconds), '', 'each with seconds of the notes');
my @rows = $copy =~ />(\d+\.\d\d)×</g;
is(join(' ', map { "**$_**" } @rows), join(' ', $notes =~ /divided by those of `COPY`: (.*?); by CPU time/s ? $1 =~ /(\*\*[\d.]+\*\*)/g : ()), 'COPY is the floor, with every ratio of the notes, also those below it');

# --- the demo ---

my $demo = slurp_file("$root/doc/images/demo.svg");
cmp_ok(length $demo, '<=', 60_000, 'the picture of the demo is small');
system('mkdir', '-p', "$dir/demo", "$dir/doc/images") == 0 && system('cp', "$root/demo/record", "$dir/demo") == 0 && system('cp', "$root/doc/images/demo.cast", "$dir/doc/images") == 0 or BAIL_OUT('no copy');
drawn("$dir/demo/record", '--svg');
is(slurp_file("$dir/doc/images/demo.svg"), $demo, 'and is what demo/record draws from the recording');
my ($head, @pieces) = split /\n/, slurp_file("$root/doc/images/demo.cast");
is(decode_json($head)->{version}, 2, 'the recording has the format of asciinema, version 2');
my $said = join('', map { decode_json($_)->[2] } @pieces) =~ s/\r//gr;
foreach my $file (qw(backfill replay queries))
{
	my $sql = slurp_file("$root/demo/$file.sql") =~ s/^--[^\n]*\n//gmr;
	my @lacking = grep { index($said, $_) < 0 } map { "== $_" } $sql =~ /^\\echo '== (.*)'$/mg;

	is(join("\n", @lacking), '', "demo/$file.sql: the recording has each part (demo/record makes a new one)");
}
like($said, qr/make demo-stop/, 'up to its end');

# --- the dashboard ---

# Answers each query of the drawing with two series of the labels that the legends name, as Prometheus does.
append_to_file("$dir/answers.py", <<'EOS');
import json, os, signal, sys, threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from urllib.parse import parse_qs, urlparse

class Answer(BaseHTTPRequestHandler):
	def do_GET(self):
		query = {name: values[0] for name, values in parse_qs(urlparse(self.path).query).items()}
		start, end, step = (float(query[name]) for name in ("start", "end", "step"))
		values = [[start + n * step, str(n)] for n in range(int((end - start) / step))] + [[end, "NaN"]]
		labels = {name: name + " label" for name in ("state", "reason", "stage", "problem", "collection")}
		series = [{"metric": {"subscription": name, **labels}, "values": values} for name in ("one", "two")]
		body = json.dumps({"status": "success", "data": {"resultType": "matrix", "result": [] if "held_seconds" in query["query"] else series}}).encode()
		self.send_response(200)
		self.end_headers()
		self.wfile.write(body)
	def log_message(self, *_): pass

signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
server = HTTPServer(("127.0.0.1", 0), Answer)
with open(sys.argv[1], "w") as file:
	file.write(str(server.server_port))
server.serve_forever()
EOS
my $prometheus = AtprotoTest::Process->start('answers', "$dir/port", $ENV{PYTHON} || '/usr/bin/python3', '-B', "$dir/answers.py", "$dir/port");
drawn("$root/contrib/monitoring/picture", '--draw', 'http://127.0.0.1:' . slurp_file("$dir/port"), "$dir/dashboard.svg");
$prometheus->stop;
my $dashboard = slurp_file("$dir/dashboard.svg");
my @titles = map { $_->{title} } @{ decode_json(slurp_file("$root/contrib/monitoring/dashboard.json"))->{panels} };
is(join(', ', grep { index($dashboard, ">$_<") < 0 } @titles), '', 'each panel is drawn');
like($dashboard, qr/one: state label.*one: reason label/s, 'with legends');
is(scalar(() = $dashboard =~ />no data</g), 1, 'and a panel without data says so');
unlike($dashboard, qr/nan/i, 'what is no number is not drawn');
my $shown = slurp_file("$root/doc/images/dashboard.svg");
my @shown = $shown =~ /fill="#fff" font-size="13"[^>]*>([^<]*)</g;
cmp_ok(scalar @shown, '>=', 5, 'the picture of the pages has panels');
is(join(', ', grep { my $title = $_; !grep { $_ eq $title } @titles } @shown), '', 'of dashboard.json');
unlike($shown, qr/no data/, 'with data');

done_testing();
