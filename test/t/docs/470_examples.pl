# 470_examples.pl
#		The programs of examples/, unchanged, on a simulated network: each shows what the simulator says that
#		the tables must contain.  The page of statusphere changes by itself: seen by a client of its
#		server-sent events and, where chromium is installed, in a browser.  No example is longer than 150 lines.
#
#		ATPROTO_PICTURES=DIRECTORY keeps the pictures of examples/README.md.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Clients qw(works);
use AtprotoTest::Jetstream;
use AtprotoTest::Network;
use AtprotoTest::Preload;
use AtprotoTest::Process;
use HTTP::Tiny;
use IO::Socket::INET;
use JSON::PP;
use List::Util qw(max min sum uniq);
use PostgreSQL::Test::Utils;
use Test::More;

my $python   = $ENV{PYTHON} || '/usr/bin/python3';
my $examples = test_dir() . '/../examples';
my $files    = PostgreSQL::Test::Utils::tempdir('examples');
my $pictures = $ENV{ATPROTO_PICTURES} // $files;
my $last     = 4000;
my $host     = 'quiet.example.com';

# --- the length ---

my %lines;
foreach my $file (grep { -f } glob("$examples/*"), glob("$examples/*/*"))
{
	my ($example) = $file =~ m{/examples/([\w.]+)};
	my @lines = split /\n/, slurp_file($file);

	$lines{$example} += @lines if $example ne 'README.md';
}
is(join(' ', sort keys %lines), 'feed moderation.sql notebook.ipynb search.mjs search.py statusphere ten_lines.py', 'the examples');
cmp_ok($lines{$_}, '<=', $_ eq 'ten_lines.py' ? 10 : 150, "$_ is short") foreach sort keys %lines;

# --- the network ---

my ($capture, $expect) = simulate(
	'--social', '--text', 3, '--events', $last, '--accounts', 40, '--start', '-55min', '--span', '55min', '--mix', 'like=40,post=30,status=15,block=6,delete=6,account=0,identity=0,sync=0',
	'--directory', "$files/directory", '--exports', "$files/exports");

# Every record at the end: did, collection, rkey, value.  COPY has doubled the backslashes.
my @records = map {
	my @columns = split /\t/;
	{ did => $columns[0], collection => $columns[1], rkey => $columns[2], value => decode_json($columns[5] =~ s/\\\\/\\/gr) }
} split /\n/, slurp_file("$expect/record");
my %handle = map { my @columns = split /\t/; $columns[0] => $columns[5] } split /\n/, slurp_file("$files/directory/keys");

# Those of a collection, the newest first.
sub records
{
	my ($collection) = @_;
	my @found = sort { $b->{rkey} cmp $a->{rkey} || $b->{did} cmp $a->{did} } grep { $_->{collection} eq $collection } @records;

	return @found;
}

my $network = AtprotoTest::Network->start;
my ($me)    = map { $_->{did} } grep { -e "$files/exports/1/$_->{did}.car" } records('app.bsky.feed.post');
$network->documents({ documents("$files/directory") });
$network->handles({ map { $handle{$_} => $_ } keys %handle });
$network->repos({ $host => { $me => { car => "$files/exports/1/$me.car" } } });

my $texts = texts('v1', $capture);
my $jetstream = AtprotoTest::Server->start($texts, '--live-start', 0);
my $node  = make_node(
	'examples', create => 0,
	start => AtprotoTest::Preload->make(network => $network),
	conf  => $network->settings . "atproto.handle_no_dns = '.example.com'\natproto.fetch_host_rate = 1000\natproto.batch_delay = 5ms\nmax_worker_processes = 20\n");

# Waits until a subscription has stored the last operation that the Jetstream has of some collections.
sub wait_for_last
{
	my ($name, @collections) = @_;
	my $any = join '|', map { quotemeta } @collections;
	my $end = max(map { /"time_us":(\d+)/ } grep { /"collection":"(?:$any)"/ } read_capture($texts));

	wait_for("SELECT coalesce(max(seq), 0) >= $end FROM atproto.stat_subscription WHERE name = '$name'");
	return;
}

# The examples find their database in the environment.
delete $ENV{LD_PRELOAD};
@ENV{qw(PGHOST PGPORT PGDATABASE DATABASE_URL)} = ($node->host, $node->port, 'postgres', 'postgresql:///postgres');

sub runs
{
	my ($name, @command) = @_;
	my ($out, $err) = run_command(\@command);

	is($err, '', "$name runs without a warning");
	return $out;
}

sub psql_file
{
	my ($file, %environment) = @_;
	local %ENV = (%ENV, %environment, PGOPTIONS => '--client-min-messages=warning');

	runs($file, $node->installed_command('psql'), '-X', '-q', '-o', '/dev/null', '-f', "$examples/$file");
	return;
}

# --- Python in ten lines: first, in the schema atproto ---

my %mine;
$mine{ $_->{collection} }++ foreach grep { $_->{did} eq $me } @records;
my @said = split /\n/, runs('ten_lines.py', $python, "$examples/ten_lines.py", $me, "wss://$host");
is(pop @said, 'exactly the records of the last commit: True None', 'ten_lines.py: the audit agrees');
is(join("\n", sort @said), join("\n", sort map { "$_ $mine{$_}" } keys %mine), 'ten_lines.py: the records of the account');
query("SELECT atproto.unsubscribe('mine')");

# --- moderation ---

# Labels of two accounts, one on a record; one label was taken back, and the view ignores one.
my @labelled = map { $_->{did} } (records('app.bsky.actor.profile'))[ 0 .. 2 ];
my $labels   = "$files/labels";
IPC::Run::run([ $python, '-c', <<'EOF', @labelled ], '>', $labels) or BAIL_OUT('no labels');
import struct, sys, cbor2
a, b, c = sys.argv[1:]
labels = [(a, "spam", False), (a, "porn", False), (f"at://{b}/app.bsky.feed.post/3jwdwj2ctlk26", "threat", False), (b, "spam", False), (c, "spam", False), (c, "spam", True)]
for n, (uri, val, neg) in enumerate(labels, 1):
    label = {"ver": 1, "src": "did:plc:" + "2" * 24, "uri": uri, "val": val, "neg": neg, "cts": f"2026-01-01T00:00:{n:02}Z"}
    message = cbor2.dumps({"op": 1, "t": "#labels"}, canonical=True) + cbor2.dumps({"seq": n, "labels": [label]}, canonical=True)
    sys.stdout.buffer.write(struct.pack(">I", len(message)) + message)
EOF
my $labeler = AtprotoTest::Server->start($labels, '--live-start', 0);
psql_file('moderation.sql', STREAM => $jetstream->url, LABELER => $labeler->url(nsid => 'com.atproto.label.subscribeLabels'));

# What the queue must be: did|same text|blocked by|labels.
sub queue
{
	my (%text, %by, %queue);

	foreach (records('app.bsky.feed.post'))
	{
		my $text = substr $_->{value}{text}, 0, 300;
		$text{ $_->{did} }{$text}++ if $text ne '';
	}
	$by{ $_->{value}{subject} }{ $_->{did} } = 1 foreach records('app.bsky.graph.block');
	my %labels = ($labelled[0] => '{spam}', $labelled[1] => '{spam,threat}');
	foreach my $did (keys %handle)
	{
		my @numbers = map { $_ >= 3 ? $_ : 0 } max(0, values %{ $text{$did} // {} }), scalar keys %{ $by{$did} // {} };
		my $labels = $labels{$did} // '';
		next unless $labels || sum @numbers;
		push @{ $queue{ sum(@numbers) + 10 * (() = $labels =~ /\w+/g) } }, join '|', $did, @numbers, $labels;
	}
	return join "\n", map { sort @{ $queue{$_} } } sort { $b <=> $a } keys %queue;
}
my $queue = queue();
cmp_ok(scalar(grep { $_ =~ /\|[1-9]\d*\|0\|/ } split /\n/, $queue), '>', 0, 'moderation.sql: some repeat themselves');
cmp_ok(scalar(grep { $_ =~ /\|0\|[1-9]\d*\|/ } split /\n/, $queue), '>', 0, 'moderation.sql: some are blocked by many');
wait_for_last('moderation', 'app.bsky.feed.post', 'app.bsky.graph.block');
wait_for("SELECT max(seq) = 6 FROM atproto.stat_subscription WHERE name = 'labels'");
is(query('SELECT did, same_text, blocked_by, labels FROM moderation.queue'), $queue, 'moderation.sql: whom to look at, in this order, with the reasons');

# --- the feed generator ---

my $can_serve = works($python, '-c', 'import aiohttp, psycopg_pool');

sub serve
{
	my ($program, %environment) = @_;
	my $name = $program =~ s/\W/_/gr;
	local %ENV = (%ENV, %environment);

	AtprotoTest::Process->start($name, "$files/$name", $python, test_dir() . '/clients/serve.py', "$files/$name", "$examples/$program");
	return 'http://127.0.0.1:' . slurp_file("$files/$name");
}

sub get
{
	my ($url) = @_;
	my $answer = HTTP::Tiny->new(timeout => $AtprotoTest::TIMEOUT)->get($url);
	return { status => $answer->{status}, %{ decode_json($answer->{content}) } };
}

SKIP:
{
	diag('LEFT OUT: python3-aiohttp or python3-psycopg-pool is not installed'), skip('no aiohttp', 1) if !$can_serve;

	my %tags = map { $_ => 1 } 'books', "b\x{fc}cher", 'livros', 'libros';
	my $publisher = 'did:plc:' . '3' x 24;
	my $uri = "at://$publisher/app.bsky.feed.generator";
	my @wanted = map { "at://$_->{did}/$_->{collection}/$_->{rkey}" }
	  grep { grep { $tags{ lc($_->{tag} // '') } } map { @{ $_->{features} } } @{ $_->{value}{facets} // [] } } records('app.bsky.feed.post');

	cmp_ok(scalar @wanted, '>=', 15, 'feed: there are such posts');
	psql_file('feed/feed.sql', STREAM => $jetstream->url);
	my $at = serve('feed/feed.py', FEED_HOST => 'feeds.example.com', FEED_PUBLISHER => $publisher);
	wait_for_last('feed', 'app.bsky.feed.post');

	is(get("$at/.well-known/did.json")->{service}[0]{serviceEndpoint}, 'https://feeds.example.com', 'feed: its identity');
	is(join(' ', map { $_->{uri} } @{ get("$at/xrpc/app.bsky.feed.describeFeedGenerator")->{feeds} }), "$uri/databases $uri/reading", 'feed: its feeds');

	my $skeleton = "$at/xrpc/app.bsky.feed.getFeedSkeleton?feed=$uri/reading";
	my ($page, @got) = (get("$skeleton&limit=7"));
	# a new post and a deleted post do not shift the pages
	query("INSERT INTO feed.post SELECT 'reading', tid_ceil(now())::text::recordkey, '$me'; DELETE FROM feed.post WHERE aturi(did, 'app.bsky.feed.post', rkey) = '$wanted[2]'");
	for (my $pages = 0; $pages < @wanted && @{ $page->{feed} }; $pages++)
	{
		push @got, map { $_->{post} } @{ $page->{feed} };
		$page = get("$skeleton&limit=7&cursor=$page->{cursor}");
	}
	is(join("\n", @got), join("\n", @wanted), 'feed: all pages are the posts with these hashtags, the newest first');
	ok(!exists $page->{cursor}, 'feed: the last page has no cursor');
	is(scalar @{ get($skeleton)->{feed} }, min(50, scalar @wanted), 'feed: 50 posts, if nothing else is said');
	is(get("$skeleton&$_->[0]")->{error}, $_->[1], "feed: $_->[0] is refused")
	  foreach [ 'limit=0', 'InvalidRequest' ], [ 'limit=' . '9' x 5000, 'InvalidRequest' ], [ 'limit=x', 'InvalidRequest' ], [ 'limit=101', 'InvalidRequest' ], [ 'cursor=x', 'InvalidRequest' ], [ 'cursor=%00', 'InvalidRequest' ];
	is(get("$at/xrpc/app.bsky.feed.getFeedSkeleton?feed=$_")->{error}, 'UnknownFeed', "feed: so is the feed $_") foreach "$uri/readings", 'reading', '', "at://$me/app.bsky.feed.generator/reading";

	my ($author) = $wanted[0] =~ m{at://([^/]+)};
	query("UPDATE feed.repo SET active = false WHERE did = '$author'");
	unlike(join(' ', map { $_->{post} } @{ get($skeleton)->{feed} }), qr/$author/, 'feed: posts of inactive accounts are left out');
	is(query('SELECT count(*) FROM feed.record'), '0', 'feed: nothing else is stored');
}

# --- statusphere ---

# The list of the page: emoji, name of the account.
sub statuses
{
	my (@of) = @_;
	return map { "$_->{value}{status} \@$handle{ $_->{did} }" } grep { defined } @of[ 0 .. 29 ];
}

SKIP:
{
	skip('no aiohttp', 1) if !$can_serve;

	# the last part of the stream comes when the test says so
	my @lines = read_capture($texts);
	my $live  = AtprotoTest::Server->start($texts, '--live-start', 0, '--hold-at', int(0.9 * @lines));

	psql_file('statusphere/statusphere.sql', STREAM => $live->url, BACKFILL => 'none', LIST_SOURCE => '');
	my $at = serve('statusphere/statusphere.py');

	# a client of the server-sent events: each is the whole page
	my ($address) = $at =~ m{//(.*)};
	my $socket = IO::Socket::INET->new($address) or BAIL_OUT("no connection to $address");
	my $stream = '';
	print $socket "GET /events HTTP/1.1\r\nHost: $address\r\n\r\n";
	$socket->blocking(0);
	my $newest = sub {
		sysread $socket, $stream, 65536, length $stream;
		my @pages = $stream =~ /^data: (.*)\n\n/mg;
		return @pages ? map { "$_->{status} \@" . ($_->{handle} // '') } @{ decode_json($pages[-1]) } : ();
	};

	my $browser = browser("$at/");
	my $shown = sub { $browser->("evaluate [...document.querySelectorAll('li')].map((line) => line.children[0].innerText + ' ' + line.children[1].innerText)") };
	wait_until(sub { my @got = $newest->(); @got == 30 && !grep { /\@$/ } @got }, 'thirty statuses with handles');
	my @first = $newest->();
	if ($browser)
	{
		wait_until(sub { "@{ $shown->() }" eq "@first" }, 'the page in the browser');
		pass('statusphere: the browser shows the statuses');
		is($browser->('evaluate window.mark = 1'), 1, 'statusphere: the page is marked');
	}

	# the web server also looks every two seconds: a second client shows that the database notifies of changes
	my $listener = $node->background_psql('postgres');
	$listener->query_safe('LISTEN statusphere');
	$live->release;
	my @then = statuses(records('xyz.statusphere.status'));
	wait_until(sub { my @got = $newest->(); "@got" eq "@then" }, 'the last statuses');
	isnt("@first", "@then", 'statusphere: new statuses come by themselves');
	like($listener->query_safe('SELECT 1'), qr/Asynchronous notification "statusphere"/, 'statusphere: because the database tells of each change');
	$listener->quit;
	if ($browser)
	{
		wait_until(sub { "@{ $shown->() }" eq "@then" }, 'the new statuses in the browser');
		is($browser->('evaluate window.mark'), 1, 'statusphere: they appear in the browser, and nobody has loaded the page again');
		$browser->("picture $pictures/statusphere.png");
		like(slurp_file("$pictures/statusphere.png"), qr/^\x89PNG/, 'statusphere: its picture');
	}

	# an invalid status in a signed record
	query(q{UPDATE statusphere.record SET fault = 'x' WHERE rkey = (SELECT max(rkey) FROM statusphere.record)});
	wait_until(sub { my @got = $newest->(); $got[0] eq $then[1] }, 'the page without it');
	pass('statusphere: a record that the Lexicon does not allow is not shown');
	query(q{UPDATE statusphere.record SET value = NULL, raw = '\xa0' WHERE rkey = (SELECT max(rkey) FROM statusphere.record WHERE fault IS NULL)});
	my ($third) = map { $_->{value}{status} } (records('xyz.statusphere.status'))[2];
	utf8::encode($third);
	is(query('SELECT status FROM statusphere.newest LIMIT 1'), $third, 'statusphere: nor is one that jsonb cannot hold');

	# a role without rights on the tables
	query('CREATE ROLE web LOGIN; GRANT USAGE ON SCHEMA statusphere TO web');
	is(query('SET ROLE web; SELECT jsonb_array_length(statusphere.page())'), 30, 'statusphere: the web server needs no more than USAGE on the schema');
	undef $browser;

	# the older statuses: a relay lists the accounts that have some, their servers have the records
	my (undef, $older) = simulate('--social', '--seed', 2, '--events', 200, '--accounts', 8, '--mix', 'status=60,account=0,identity=0,sync=0', '--directory', "$files/older", '--exports', "$files/older_exports");
	my %documents = documents("$files/older");
	my @old = map { join '|', (split /\t/)[ 0, 2, 3 ] } grep { /\txyz\.statusphere\.status\t/ } split /\n/, slurp_file("$older/record");
	$network->documents(\%documents);
	$network->hosts({ $host => { collections => { 'xyz.statusphere.status' => [ sort keys %documents ] } } });
	foreach my $did (keys %documents)
	{
		my ($pds) = $documents{$did}{service}[0]{serviceEndpoint} =~ m{//(.*)};
		$network->repos({ $pds => { $did => { car => "$files/older_exports/1/$did.car" } } });
	}
	cmp_ok(scalar @old, '>', 20, 'statusphere: there are older statuses');
	query("SELECT atproto.unsubscribe('statusphere'); DROP SCHEMA statusphere CASCADE; SELECT atproto.unload_lexicon('xyz.statusphere.status')");
	psql_file('statusphere/statusphere.sql', STREAM => AtprotoTest::Server->start($texts)->url, LIST_SOURCE => "https://$host");
	run_command([ $node->installed_command('psql'), '-X', '-c', "CALL atproto.await_backfill('statusphere')" ]);
	is(query('SELECT did, rkey, cid FROM statusphere.record ORDER BY 1, 2'), join("\n", sort @old), 'statusphere: the older statuses are fetched');
}

# The DID documents that the simulator has written: DID => document.
sub documents
{
	my ($directory) = @_;
	return map { $_->{document} ? ($_->{did} => $_->{document}) : () } map { decode_json($_) } split /\n/, slurp_file("$directory/documents");
}

# A function that sends a line to a headless browser with this page, and returns the answer; undef without an installed browser.
sub browser
{
	my ($url) = @_;
	my ($in, $out, $err) = ('', '', '');

	if (!works('chromium', '--version'))
	{
		diag('LEFT OUT: chromium is not installed: statusphere is not seen in a browser');
		return undef;
	}
	my $run = IPC::Run::start([ $python, test_dir() . '/clients/browser.py', $url ], '<', \$in, '>', \$out, '2>', \$err, IPC::Run::timeout($AtprotoTest::TIMEOUT));
	return sub {
		$in .= "$_[0]\n";
		$out = '';
		$run->pump until $out =~ /\n/ || !$run->pumpable;
		BAIL_OUT("the browser: $err") unless $out =~ /\n/;
		return JSON::PP->new->utf8->allow_nonref->decode($out);
	};
}

# --- the notebook ---

SKIP:
{
	if (!works($python, '-c', 'import pandas, matplotlib, sqlalchemy, psycopg2'))
	{
		diag('LEFT OUT: python3-pandas or python3-matplotlib is not installed: the notebook is not run');
		skip('no pandas and matplotlib', 1);
	}
	query("SELECT atproto.subscribe('network', '${\ $jetstream->url}', collections => '{app.bsky.feed.post,app.bsky.feed.like}')");
	wait_for_last('network', 'app.bsky.feed.post', 'app.bsky.feed.like');

	local $ENV{MPLBACKEND} = 'Agg';
	local $ENV{MPLCONFIGDIR} = $files;
	my $numbers = decode_json(runs('notebook.ipynb', $python, '-W', 'ignore:Glyph', '-c', <<'EOF', "$examples/notebook.ipynb", $pictures));
import json, sys
import matplotlib.pyplot as plt
names = {}
for cell in json.load(open(sys.argv[1]))["cells"]:
    if cell["cell_type"] == "code":
        plt.show = lambda: None
        exec("".join(cell["source"]), names)
for n in plt.get_fignums():
    plt.figure(n).savefig(f"{sys.argv[2]}/notebook-{n}.png", dpi=80, bbox_inches="tight")
print(json.dumps({"posts": int(names["hours"].to_numpy().sum()), "likes": int((names["likes"]["likes"] * names["likes"]["posts"]).sum()),
    "tag": names["tags"].index[0], "figures": len(plt.get_fignums())}))
EOF
	my %tags;
	$tags{$_}++ foreach map { uniq(map { lc $_->{tag} } grep { $_->{tag} } map { @{ $_->{features} } } @{ $_->{value}{facets} // [] }) } records('app.bsky.feed.post');
	is($numbers->{likes}, scalar(records('app.bsky.feed.like')), 'notebook: the likes');
	cmp_ok($numbers->{posts}, '<=', scalar(records('app.bsky.feed.post')), 'notebook: the posts of six languages');
	cmp_ok($numbers->{posts}, '>', 0.9 * records('app.bsky.feed.post'), 'notebook: are nearly all');
	is($tags{ $numbers->{tag} }, max(values %tags), 'notebook: the hashtag that comes most often');
	is($numbers->{figures}, 3, 'notebook: three pictures');
}

is(query('SELECT count(*) FROM atproto.dead_letter'), '0', 'nothing is refused');
$node->stop;
done_testing();
