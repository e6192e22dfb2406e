# 335_poll.pl
#		The library as macOS and FreeBSD build it: the fetcher waits by poll(), and the library calls no function
#		that only Linux has.  Built so here, with WAIT=poll: the fetcher asks name servers, follows many
#		requests at a time, sleeps between them, and passes 331_fetcher.  make leaves out the two optional libraries
#		where their headers are missing.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Installation;
use AtprotoTest::Network;
use AtprotoTest::Preload;
use AtprotoTest::Probe;
use PostgreSQL::Test::Utils;
use Test::More;

# --- the library ---

my $built = AtprotoTest::Installation->new;

# make compiles only what is newer than its object
utime undef, undef, "$built->{sources}/src/net/poll.c" or BAIL_OUT('no poll.c');
$built->install('WAIT=poll');

# The functions of the C library that the sources call: C11, POSIX of 2001, or strlcpy, which PostgreSQL has where the C library lacks it.
my %portable = map { $_ => 1 } qw(abort accept atoi bind bsearch calloc clock clock_gettime close connect ctime errno exit
  fclose fcntl fdopen feof ferror fflush fgets fopen fprintf fputs fread free fscanf fseek fstat ftell fwrite getenv gmtime_r
  inet_pton kill ldexp log malloc memchr memcmp memcpy memmove memset open poll pow pthread_sigmask qsort random read realloc
  rename setenv sigaction sigfillset snprintf socket sqrt stat statvfs strchr strcmp strcpy strcspn strdup strerror strlcpy strlen strncmp
  strncpy strpbrk strrchr strspn strstr strtod strtok strtok_r strtol strtoll strtoul strtoull time unlink vsnprintf write);
my %ours_by_the_compiler = map { $_ => 1 } qw(cxa_finalize errno_location fdelt sigsetjmp stack_chk_fail);
my $library = "$built->{sources}/atproto.so";
my @called  = map { /^\s+U (\w+)\@GLIBC/ ? $1 : () } split /\n/, `nm -D --undefined-only '$library'`;
# __memcpy_chk and __isoc99_fscanf are memcpy and fscanf
my @strange = grep { !$portable{$_} && !$ours_by_the_compiler{$_} } map { s/^__(isoc\d+_)?//r =~ s/_chk$//r } @called;

SKIP:
{
	skip 'the C library has no versions of symbols', 2 unless @called;
	ok((grep { $_ eq 'poll' } @called), 'the library waits by poll()');
	is("@strange", '', 'the library calls no function of the C library that only Linux has');
}

# A machine without the optional libraries: pkg-config knows none, and the compiler finds no header.
{
	my $bare = PostgreSQL::Test::Utils::tempdir('bare');

	append_to_file("$bare/pkg-config", "#!/bin/sh\nexit 1\n");
	append_to_file("$bare/cc", "#!/bin/sh\nexec /usr/bin/cc -nostdinc \"\$@\"\n");
	chmod 0755, "$bare/pkg-config", "$bare/cc";
	my @make = ('make', '-s', '-n', '-W', 'src/atproto.c', '-C', $built->{sources}, "PG_CONFIG=$built->{pg_config}", 'src/atproto.o');
	like(`@make`, qr/-DATP_SECP256K1 .*-DATP_CARES/, 'make finds the optional libraries');
	local $ENV{PATH} = "$bare:$ENV{PATH}";
	unlike(my $command = `@make`, qr/-DATP_SECP256K1|-DATP_CARES/, 'and leaves them out where they are missing');
	like($command, qr/-DATP_EXTVERSION/, 'in the same command');
}

# --- the fetcher ---

my $requests = 150;
my $network  = AtprotoTest::Network->start;
my $preload  = AtprotoTest::Preload->make(network => $network);
my $node     = make_node('poll', start => $preload, install_path => $built->install_path, conf => $network->settings . <<"EOF");
atproto.name_servers = '127.0.0.1:@{[ $network->port('dns') ]}'
EOF
my $probe = AtprotoTest::Probe->make;
my $did   = 'did:plc:' . 'a' x 24;

$network->documents({ $did => $network->document($did, pds => 'pds.example.com', key => 'zQ3shokFTS3brHcDQrn82RUDfCZESWL1ZdCEJwekUDPQiYBme', handle => 'h.example.com') });
$network->dns({ '_atproto.h.example.com' => { TXT => [ ["did=$did"] ] } });
query("SELECT atproto.check_handle('$did')");
wait_for("SELECT EXISTS (SELECT FROM atproto.identity WHERE did = '$did' AND handle_state = 'valid')");
pass('c-ares: a name server answered');

$network->fault({ host => "h$_.example.com", status => 200, body => "body $_", size => 50_000 + $_, delay => 0.2 }) foreach 1 .. $requests;
my @answers = $probe->answers($probe->ask_all(map { [ "https://h$_.example.com/", body_max => 100_000 ] } 1 .. $requests));
is(join(' ', map { $_->{outcome} . ':' . ($_->{body_len} // '') } @answers), join(' ', map { 'ok:' . (50_000 + $_) } 1 .. $requests),
	"libcurl: $requests requests at a time, each has its own answer");

# a fetcher that never slept would be seen asleep never, however slow the machine is
my $waits = 0;
wait_until(
	sub {
		my $sleeps = query("SELECT wait_event IN ('AtprotoStream', 'Extension') FROM pg_stat_activity WHERE backend_type = 'atproto fetcher'") eq 't';

		$waits = $sleeps ? $waits + 1 : 0;
		return $waits == 10;
	},
	'the fetcher to sleep ten times in a row');
pass('the fetcher sleeps when there is nothing to do');
$node->stop;

# --- a test of the fetcher, with this library ---

{
	local $ENV{PATH} = $built->install_path . "/bin:$ENV{PATH}";
	my ($out, $err) = run_command([ $^X, "$FindBin::RealBin/331_fetcher.pl" ]);

	like($out, qr/^1\.\.\d+$/m, '331_fetcher has ended');
	is(join("\n", grep { /^not ok/ } split /\n/, $out), '', '331_fetcher has passed') or diag($err);
}
done_testing();
