# 115_alike.pl
#		A commit that writes one large record under 200 keys, which an account may
#		do: its memory is that of a few records, not of the 200 rows, whichever way
#		the rows take into the table.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../lib";

use AtprotoTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $capture = make_capture('synth.py', 'alike', 1);
my $node    = make_node('main');
my $server  = AtprotoTest::Server->start($capture);

sub query { return $node->safe_psql('postgres', $_[0]) }

# The most memory that the consumer has until the commit is stored.
sub most_memory
{
	my ($name, %options) = @_;
	my $most = 0;

	query(subscribe_sql($name, $server, cursor => 0, %options));
	AtprotoTest::wait_until(
		sub {
			my $pid = query("SELECT COALESCE(pid, 0) FROM atproto.stat_subscription WHERE name = '$name'");
			my $kb  = private_memory($pid);

			$most = $kb if $kb > $most;
			return query("SELECT events = 1 FROM atproto.cursor WHERE subscription = '$name'") eq 't';
		},
		"the commit of $name");
	query("SELECT atproto.unsubscribe('$name')");
	return $most;
}

# 144 MB of jsonb
my $rows = 'SELECT count(*), count(DISTINCT value), min(jsonb_array_length(value->$$n$$)) FROM';

cmp_ok(most_memory('direct'), '<', $MEMORY_MAX, 'rows that go directly into their table: memory stays small');
is(query("$rows atproto.record"), '200|1|60000', 'all of them arrive');

query($_) foreach 'CREATE SCHEMA watched', q{SELECT atproto.create_tables('watched')}, q{
	CREATE FUNCTION watched.nothing() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
	CREATE TRIGGER nothing AFTER INSERT ON watched.record FOR EACH STATEMENT EXECUTE FUNCTION watched.nothing()};
cmp_ok(most_memory('statement', target => q{'watched'}, events => q{'keep'}), '<', $MEMORY_MAX, 'rows that are bound to statements: memory stays small');
is(query("$rows watched.record"), '200|1|60000', 'all of them arrive');
is(query("$rows watched.record_event"), '200|1|60000', 'in record_event, too');

$node->stop;
done_testing();
