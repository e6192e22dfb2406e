# AtprotoTest/Probe.pm
#		Makes the fetcher send requests for a test, through the task "probe"
#		(test/probe/probe.c) of builds with ATP_INJECTION_POINTS.
#
#		my $probe = AtprotoTest::Probe->make;		# tables in the database of query()
#		my $id = $probe->ask('https://a.example.com/', redirects => 3);
#		is($probe->answer($id)->{outcome}, 'ok', 'it is answered');

package AtprotoTest::Probe;

use strict;
use warnings FATAL => 'all';

use JSON::PP;
use Test::More;

# Options of query() and the like: database => 'name'.
sub make
{
	my ($class, %o) = @_;
	my $self = bless { options => \%o, id => 0 }, $class;

	AtprotoTest::query(<<'SQL', %o);
CREATE SCHEMA atproto_probe;
CREATE TABLE atproto_probe.request (id int PRIMARY KEY, url text NOT NULL, accept text,
	redirects int NOT NULL DEFAULT 0, whole_ms int NOT NULL DEFAULT 60000, body_max bigint NOT NULL DEFAULT 0,
	cut bool NOT NULL DEFAULT false, gzip bool NOT NULL DEFAULT false, http2 bool NOT NULL DEFAULT false,
	slow_s int NOT NULL DEFAULT 0, piece int NOT NULL DEFAULT 0, parallel int NOT NULL DEFAULT 0, rate int NOT NULL DEFAULT 0,
	state text NOT NULL DEFAULT 'new', outcome text, status int, error text, final_url text, body text, body_len bigint,
	read bigint, largest int, content_type text);
SQL
	return $self;
}

# Asks for URLs, each with columns of the table: [ 'https://...', redirects => 3 ], ...  Gives
# what answer() wants, in their order.
sub ask_all
{
	my ($self, @requests) = @_;
	my ($sql, @ids) = ('');

	foreach (@requests)
	{
		my ($url, %o) = @$_;
		my $columns = join '', map { ", $_" } sort keys %o;
		my $values  = join '', map { ", '$o{$_}'" } sort keys %o;

		push @ids, ++$self->{id};
		$sql .= "INSERT INTO atproto_probe.request (id, url$columns) VALUES ($ids[-1], '$url'$values);\n";
	}
	AtprotoTest::query("BEGIN; $sql SELECT atproto_internal.wake(); COMMIT", %{ $self->{options} });
	return @ids;
}

sub ask
{
	my ($self, @request) = @_;
	return ($self->ask_all(\@request))[0];
}

# Waits for the answers, and gives the rows.
sub answers
{
	my ($self, @ids) = @_;
	my $ids = join ', ', @ids;

	AtprotoTest::wait_for("SELECT bool_and(state = 'done') FROM atproto_probe.request WHERE id IN ($ids)", gone => 1, %{ $self->{options} });
	return map { decode_json($_) } split /\n/,
	  AtprotoTest::query("SELECT row_to_json(r) FROM atproto_probe.request r WHERE id IN ($ids) ORDER BY id", %{ $self->{options} });
}

sub answer
{
	my ($self, $id) = @_;
	return ($self->answers($id))[0];
}

# Asks, and waits for the answer.
sub get
{
	my ($self, @request) = @_;
	return $self->answer($self->ask(@request));
}

# In what state the requests are: 'done 3, new 1'.
sub states
{
	my ($self) = @_;
	return AtprotoTest::query(q{SELECT string_agg(state || ' ' || n, ', ' ORDER BY state)
		FROM (SELECT state, count(*) AS n FROM atproto_probe.request GROUP BY 1) s}, %{ $self->{options} });
}

1;
