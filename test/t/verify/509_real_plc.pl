# 509_real_plc.pl
#		A real did:plc directory, with PostgreSQL and sequencer (test/real/setup-plc): creations, keys of both
#		curves, handles, servers, recoveries before and after 72 hours, tombstones, refused operations, an operation that
#		the operator removes. A subscription reads the directory by pages and by the stream, live: the tables are what the
#		directory exports and says of each account, and plc_check() gives a reason for each operation that the directory refuses.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::RealPlc;
use JSON::PP;
use PostgreSQL::Test::Utils;
use POSIX qw(strftime);
use Test::More;

if (my $why = AtprotoTest::RealPlc->missing)
{
	diag($why);
	plan skip_all => $why;
}

my $plc  = AtprotoTest::RealPlc->start;
my $json = JSON::PP->new->canonical->ascii;
my $MINUTE = 60_000;
my $HOUR   = 60 * $MINUTE;

# --- the directory's time, in milliseconds: two months ago, so that the directory's stream does not reach back to the first operations ---

my $now = (time - 60 * 24 * 3600) * 1000;

sub set_clock
{
	($now) = @_;
	$plc->clock(clock_text());
	return;
}

sub clock_text
{
	return strftime('%Y-%m-%dT%H:%M:%S', gmtime int($now / 1000)) . sprintf '.%03dZ', $now % 1000;
}

# --- accounts: { did, ops => [the operations that the directory has taken] } ---

my %who;
my $PDS = 'AtprotoPersonalDataServer';

sub server { my ($endpoint) = @_; return { atproto_pds => { type => $PDS, endpoint => $endpoint } } }

sub taken
{
	my ($who, $op) = @_;

	BAIL_OUT("the directory refused: $op->{status} $op->{answer}") if ($op->{status} // 200) != 200;
	push @{ $who->{ops} }, { %$op, at => $now };
	$who->{did} //= $op->{did};
	return $who;
}

# The clock goes on by ten minutes with each operation; at => another time.
sub create
{
	my ($name, @curves) = @_;
	my @keys = map { $plc->key($_) } @curves;

	set_clock($now + 10 * $MINUTE);
	return $who{$name} = taken({}, $plc->submit(undef, $keys[0], {
		type => 'plc_operation', prev => undef, rotationKeys => \@keys, alsoKnownAs => ["at://$name.example.com"],
		verificationMethods => { atproto => $plc->key($curves[-1]) }, services => server('https://pds.example.com') }));
}

# The operation with changes that would follow an operation: after => its place, from the end.
sub follower
{
	my ($who, %change) = @_;
	my $before = $who->{ops}[ delete $change{after} // -1 ];
	my %op = (%{ $before->{operation} }, prev => $before->{cid}, %change);

	delete $op{sig};
	return \%op;
}

# The rotation key at this place of the operation before.
sub key_of
{
	my ($who, %o) = @_;
	return $who->{ops}[ $o{after} // -1 ]{operation}{rotationKeys}[ $o{by} // 0 ];
}

sub change
{
	my ($who, %o) = @_;
	my $key = key_of($who, %o);

	set_clock(delete $o{at} // $now + 10 * $MINUTE);
	delete $o{by};
	return taken($who, $plc->submit($who->{did}, $key, follower($who, %o)));
}

sub tombstone
{
	my ($who, %o) = @_;

	set_clock($now + 10 * $MINUTE);
	return taken($who, $plc->submit($who->{did}, key_of($who, %o), { type => 'plc_tombstone', prev => $who->{ops}[-1]{cid} }));
}

sub sql_json
{
	my ($value) = @_;
	return "'" . $json->encode($value) =~ s/'/''/gr . "'::jsonb";
}

# The directory refuses the operation now; plc_check() refuses the account's log with the operation at the end, for this reason.
my @refused;

sub refused
{
	my ($what, $reason, $who, $key, $operation) = @_;
	my $sent = $plc->submit($who->{did}, $key, $operation);
	my (undef, $log) = $plc->get("/$who->{did}/log/audit");

	cmp_ok($sent->{status}, '>=', 400, "$what: the directory refuses ($sent->{answer})");
	push @{$log}, { did => $who->{did}, operation => $sent->{operation}, cid => $sent->{cid}, nullified => JSON::PP::false, createdAt => clock_text() };
	push @refused, { what => $what, reason => $reason, log => $log };
	return;
}

sub thief { my ($who, %o) = @_; return change($who, rotationKeys => [ map { $plc->key($_) } qw(k256 p256) ], alsoKnownAs => ['at://thief.example.com'], by => 1, %o) }

# --- before anybody follows ---

set_clock($now);
create('plain', 'k256');
create('other', 'p256');
my $mover = create('mover', 'k256', 'p256', 'k256');
change($mover, verificationMethods => { atproto => $plc->key('p256') });
change($mover, verificationMethods => { atproto => $plc->key('k256') }, by => 1);
change($mover, alsoKnownAs => [ 'at://moved.example.com', 'https://moved.example.com', "at://\x{fc}ml\x{e4}ut.example.com" ], by => 2);
change($mover, services => server('https://other.example.com'));
change($mover, rotationKeys => [ $plc->key('p256'), $plc->key('k256') ]);
change($mover, alsoKnownAs => [], by => 1);
change($mover,
	services => { %{ server('https://third.example.com') }, a => { type => 'Else', endpoint => '' }, atproto_labeler => { type => 'AtprotoLabeler', endpoint => 'https://labels.example.com' } },
	verificationMethods => { atproto => $plc->key('k256'), atproto_label => $plc->key('p256'), "\x{e000}" => 'did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK', "\x{1f600}" => $plc->key('k256') });

# the form of 2022, which a directory takes from nobody today
my ($signing, $recovery) = ($plc->key('k256'), $plc->key('p256'));
set_clock($now + $MINUTE);
my $old = $who{old} = taken({}, $plc->do('plant', by => $signing,
	operation => { type => 'create', signingKey => $signing, recoveryKey => $recovery, handle => 'old.example.com', service => 'pds.example.com', prev => undef }));
my %like_old = (type => 'plc_operation', prev => $old->{did}, rotationKeys => [ $recovery, $signing ], verificationMethods => { atproto => $signing }, services => server('https://pds.example.com'));
set_clock($now + $MINUTE);
taken($old, $plc->submit($old->{did}, $signing, { %like_old, alsoKnownAs => ['at://new.example.com'], prev => $old->{ops}[0]{cid} }));
create('both', 'k256', 'p256');

# recoveries: exactly 72 hours after the operation that is taken back, one millisecond too late, and of a recovery
my ($saved, $lost, $twice) = map { create($_, 'p256', 'k256', 'p256') } qw(saved lost twice);
thief($saved);
change($saved);
thief($lost);
set_clock($lost->{ops}[1]{at} + 72 * $HOUR + 1);
refused('one millisecond too late', 'late', $lost, key_of($lost, after => 0), follower($lost, after => 0, alsoKnownAs => []));
set_clock($now + 4 * $HOUR);
change(create('window', 'p256', 'k256'), by => 1);
change($who{window}, after => 0, alsoKnownAs => ['at://window2.example.com'], at => $who{window}{ops}[1]{at} + 72 * $HOUR);
thief($twice, by => 2);
change($twice, after => 0, by => 1, alsoKnownAs => ['at://second.example.com']);
refused('a recovery by a key that is not stronger', 'key', $twice, key_of($twice, after => 0, by => 2), follower($twice, after => 0, alsoKnownAs => ['at://third.example.com']));
change($twice, by => 2);
change($twice, after => 0, by => 0, alsoKnownAs => ['at://first.example.com'], at => $twice->{ops}[2]{at} + 72 * $HOUR);
refused('an operation that was nullified is no prev', 'nullified', $twice, key_of($twice, after => 1), follower($twice, after => 1));

# two tombstones; a later operation replaces the second
my ($dead, $back) = map { create($_, 'k256', 'k256') } qw(dead back);
tombstone($_, by => 1) foreach $dead, $back;
refused('after a tombstone', 'tombstone', $dead, $plc->key('k256'), follower($dead, after => 0, prev => $dead->{ops}[1]{cid}));
change($back, after => 0);

# --- further operations that the directory refuses ---

my $plain = $who{plain};
set_clock($now + 10 * $MINUTE);
refused('a stranger\'s key', 'signature', $plain, $plc->key('k256'), follower($plain));
refused('the key of commits', 'signature', $plain, $plain->{ops}[0]{operation}{verificationMethods}{atproto}, follower($plain));
refused('a second genesis', 'genesis', $plain, key_of($plain), { %{ follower($plain) }, prev => undef });
refused('another account\'s operation as prev', 'prev', $plain, key_of($plain), follower($plain, prev => $who{other}{ops}[0]{cid}));

# --- a subscription: pages, then the stream ---

my $node = make_node('real_plc', conf => $plc->settings . <<'CONF');
atproto.reconnect_delay = 50ms
atproto.reconnect_max_delay = 200ms
atproto.plc_lag = 1s
CONF

sub caught_up
{
	my $seq = $plc->last_seq;

	wait_for("SELECT seq >= $seq FROM atproto.cursor WHERE subscription = 'plc'", gone => 1);
	return;
}

sub log_of_subscription
{
	return query("SELECT string_agg(concat_ws(' ', event, detail), E'\\n' ORDER BY at) FROM atproto.subscription_log WHERE subscription = 'plc'");
}

sub lines { my ($rows) = @_; return [ map { $json->encode(decode_json($_)) } split /\n/, $rows ] }

# The row of atproto.identity by a document of the directory.
sub of_document
{
	my ($status, $document) = @_;
	return 'gone|||' if $status == 404;
	my ($key) = map { $_->{publicKeyMultibase} } grep { $_->{id} =~ /#atproto$/ } @{ $document->{verificationMethod} };
	my ($server) = map { $_->{serviceEndpoint} =~ s{^https://}{}r } grep { $_->{type} eq $PDS } @{ $document->{service} };
	my ($handle) = map { m{^at://(.*)} } @{ $document->{alsoKnownAs} };
	return join '|', 'good', "did:key:$key", $server, $handle // '';
}

sub tables_are_the_directorys
{
	my ($what) = @_;
	my @export = $plc->export;
	my $of = "FROM (SELECT DISTINCT did FROM plc.plc_operation) d";

	is_deeply(lines(query("SELECT e $of, atproto.plc_export(d.did, 'plc') e ORDER BY (e ->> 'seq')::bigint")), [ map { $json->encode($_) } @export ], "M-10: $what: the operations are those of /export");
	my $bytes = $plc->do('encode', operations => [ map { $_->{operation} } @export ]);
	is_deeply([ split /\n/, query("SELECT encode(l.signed, 'hex') $of, atproto.plc_log(d.did, 'plc') l ORDER BY l.seq") ], $bytes, "M-20: $what: and their bytes");
	is(query("SELECT string_agg(concat_ws(' ', d.did, a.n, a.problem), E'\\n') $of, atproto.plc_audit(d.did, 'plc') a"), '', "M-51: $what: the audit finds nothing");

	my (@audit, @data, @have_audit, @have_data);
	foreach my $name (sort keys %who)
	{
		my $did = $who{$name}{did};
		my (undef, $log) = $plc->get("/$did/log/audit");
		my ($status, $data) = $plc->get("/$did/data");

		push @audit, map { join ' ', $name, $_->{cid}, $_->{createdAt}, $_->{nullified} ? 't' : 'f' } @$log;
		push @have_audit, split /\n/, query("SELECT concat_ws(' ', '$name', cid, to_char(created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"'), nullified_by IS NOT NULL) FROM plc.plc_operation WHERE did = '$did' ORDER BY n");
		push @data, $status == 404 ? "$name gone" : "$name " . $json->encode($data);
		# the meaning of a create operation is in /data, too
		my $operation = decode_json(query("SELECT operation FROM atproto.plc_log('$did', 'plc') WHERE nullified_by IS NULL ORDER BY n DESC LIMIT 1"));
		push @have_data, $operation->{type} eq 'plc_tombstone' ? "$name gone"
		  : "$name " . $json->encode({ did => $did, map { $_ => $operation->{$_} } qw(rotationKeys verificationMethods alsoKnownAs services) });
	}
	is_deeply(\@have_audit, \@audit, "M-05: $what: logs of accounts, with what was nullified, are those of /log/audit");
	is_deeply(\@have_data, \@data, "M-06: $what: states of accounts are those of /data");
	return;
}

sub identities_are_the_documents
{
	my ($what) = @_;
	my (@want, @have);

	wait_for('SELECT fresh AND believed FROM atproto.stat_directory');
	foreach my $name (sort keys %who)
	{
		my $did = $who{$name}{did};

		query("SELECT atproto.resolve('$did')");
		wait_for("SELECT state <> 'wanted' AND log_time IS NOT NULL FROM atproto.identity WHERE did = '$did'", gone => 1);
		push @have, "$name " . query("SELECT state, atproto.did_key(key), pds, handle_claimed FROM atproto.identity WHERE did = '$did'");
		push @want, "$name " . of_document($plc->get("/$did"));
	}
	is_deeply(\@have, \@want, "M-30: $what: identities from the log are those of the documents");
	return;
}

foreach my $case (@refused)
{
	is(query('SELECT verdict, reason FROM atproto.plc_check(' . sql_json($case->{log}) . ') ORDER BY n DESC LIMIT 1'), "refused|$case->{reason}", "M-01: $case->{what}: refused here, too");
	is(query('SELECT count(*) FROM atproto.plc_check(' . sql_json($case->{log}) . qq{) WHERE verdict = 'refused'}), '1', '... and nothing else of the log');
}

query('CREATE SCHEMA plc');
query("SELECT atproto.subscribe('plc', '" . $plc->stream_url . "', target => 'plc', allow_insecure => true, identities => true)");
caught_up();
wait_for(q{SELECT state = 'streaming' FROM atproto.stat_subscription WHERE name = 'plc'});
tables_are_the_directorys('pages');
identities_are_the_documents('pages');
like(log_of_subscription(), qr/^dropped .*code 1000: OutdatedCursor$/m, 'M-12: the stream does not reach back: pages');
is(query('SELECT count(*) FROM plc.plc_refused'), '0', 'M-01: nothing is refused');

# --- live: by the clock of this machine; a trigger says how long the operations took ---

$plc->clock(undef);
$now = time * 1000;
query(<<'SQL');
CREATE TABLE plc.lag (lag interval);
CREATE FUNCTION plc.lag() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO plc.lag VALUES (clock_timestamp() - NEW.created_at); RETURN NULL; END $$;
CREATE TRIGGER lag AFTER INSERT ON plc.plc_operation FOR EACH ROW EXECUTE FUNCTION plc.lag();
SQL

# by the machine's clock, the directory's has nothing to say
sub live
{
	my ($who, %o) = @_;
	my $key = key_of($who, %o);

	delete $o{by};
	return taken($who, $plc->submit($who->{did}, $key, follower($who, %o)));
}

sub create_live
{
	my ($name, @curves) = @_;
	my @keys = map { $plc->key($_) } @curves;

	return $who{$name} = taken({}, $plc->submit(undef, $keys[0], {
		type => 'plc_operation', prev => undef, rotationKeys => \@keys, alsoKnownAs => ["at://$name.example.com"],
		verificationMethods => { atproto => $plc->key($curves[0]) }, services => server('https://pds.example.com') }));
}

my @live = map { create_live("live$_", $_ % 2 ? qw(k256 p256) : qw(p256 k256)) } 1 .. 8;
foreach my $round (1 .. 3)
{
	live($_, verificationMethods => { atproto => $plc->key($round % 2 ? 'k256' : 'p256') }, alsoKnownAs => ["at://round$round.example.com"], by => $round % 2) foreach @live;
}
live($_, after => 0, alsoKnownAs => ['at://recovered.example.com']) foreach @live[ 0, 1 ];
taken($live[2], $plc->submit($live[2]{did}, key_of($live[2]), { type => 'plc_tombstone', prev => $live[2]{ops}[-1]{cid} }));
caught_up();
tables_are_the_directorys('live');
identities_are_the_documents('live');
note('lag: ' . query('SELECT count(*), percentile_cont(0.5) WITHIN GROUP (ORDER BY lag), max(lag) FROM plc.lag'));

# --- the sequencer stands still, and then numbers more at once than the stream has room for ---

$plc->stop_sequencer;
$plc->do('many', count => 600);
is(query('SELECT seq FROM atproto.cursor WHERE subscription = $$plc$$'), (map { $_->{seq} } $plc->export)[-1], 'M-12: operations without numbers are not exported');
$plc->start_sequencer;
caught_up();
like(log_of_subscription(), qr/^dropped .*code 1000: ConsumerTooSlow$/m, 'M-12: the stream ends with ConsumerTooSlow');
tables_are_the_directorys('ConsumerTooSlow');

# --- the directory goes and comes ---

$plc->stop_directory;
wait_for(q{SELECT state <> 'streaming' FROM atproto.stat_subscription WHERE name = 'plc'});
$plc->start_directory;
create_live('again', 'k256');
caught_up();

# --- an operation that breaks the rules, and what follows; the operator removes both ---

my $newest = $plain->{ops}[-1];
my $wrong = $plc->submit($plain->{did}, $plc->key('k256'), follower($plain, alsoKnownAs => ['at://wrong.example.com']));
cmp_ok($wrong->{status}, '>=', 400, 'the directory refuses it');
$plc->sql("INSERT INTO operations (did, operation, cid, nullified, \"createdAt\") VALUES ('$plain->{did}', " . sql_json($wrong->{operation}) . ", '$wrong->{cid}', false, now())");
push @{ $plain->{ops} }, $wrong;
live($plain, alsoKnownAs => ['at://behind.example.com']);
caught_up();
is(query('SELECT string_agg(reason, $$ $$ ORDER BY seq) FROM plc.plc_refused'), 'signature prev', 'M-01: an operation without a right signature, and what follows it');
is(query(qq{SELECT handle FROM plc.plc_history WHERE did = '$plain->{did}' AND until IS NULL}), 'plain.example.com', '... change nothing');
my ($status, $removed) = $plc->post('/admin/removeInvalidOps', { adminSecret => 'secret', did => $plain->{did}, cid => $wrong->{cid} });
is($status, 200, 'the operator removes them');
splice @{ $plain->{ops} }, -2;
live($plain, alsoKnownAs => ['at://right.example.com']);
caught_up();
tables_are_the_directorys('after a removal');
identities_are_the_documents('after a removal');

# --- cursors ---

my $last = $plc->last_seq;
my $from = query(q{SELECT min(seq) FROM plc.plc_operation WHERE did = '} . $live[0]{did} . q{'}) - 1;
foreach ([ newest => $last ], [ middle => $from ], [ future => $last + 1 ])
{
	my ($name, $cursor) = @$_;
	query("CREATE SCHEMA $name; SELECT atproto.subscribe('$name', '" . $plc->stream_url . "', target => '$name', allow_insecure => true, cursor => $cursor)");
}
wait_for(q{SELECT stopped IS NOT NULL FROM atproto.subscription WHERE name = 'future'});
like(query(q{SELECT stopped FROM atproto.subscription WHERE name = 'future'}), qr/as high as the cursor/, 'E-45: a cursor above the newest number stops the subscription');
create_live('last', 'p256');
$last = $plc->last_seq;
wait_for("SELECT seq >= $last FROM atproto.cursor WHERE subscription = '$_'", gone => 1) foreach qw(newest middle);
is(query('SELECT count(*) FROM newest.plc_operation'), '1', 'M-12: from the newest number');
is(query('SELECT count(*) FROM middle.plc_operation'), query("SELECT count(*) FROM plc.plc_operation WHERE seq > $from AND did <> '$plain->{did}'"), 'M-12: from the middle');
is(query(q{SELECT string_agg(DISTINCT detail, ' ') FROM atproto.subscription_log WHERE subscription = 'middle' AND event = 'dropped'}), '', '... by the stream alone');
caught_up();

# --- nothing else ---

is(query('SELECT count(*) FROM atproto.dead_letter'), '0', 'M-01: no dead letters');
is(query(q{SELECT string_agg(subscription, ',' ORDER BY subscription) FROM atproto.gap}), 'future,middle,newest', 'M-12: no gaps but those before a cursor in the middle');
note(log_of_subscription());
$plc->stop;
$node->stop;
done_testing();
