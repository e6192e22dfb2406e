# AtprotoTest/Pages.pm
#		The pages of the documentation, and the blocks in them.
#
#		foreach my $page (pages()) { foreach my $block (blocks($page, 'sql')) { ... $block->{text} ... } }

package AtprotoTest::Pages;

use strict;
use warnings FATAL => 'all';

use AtprotoTest ();
use Exporter qw(import);
use File::Find;
use PostgreSQL::Test::Utils;

our @EXPORT = qw(root test_file pages page_text blocks recipes prose);

sub root
{
	return AtprotoTest::test_dir() . '/..';
}

# The path of a test, from its name; one that does not exist, if there is no such test.
sub test_file
{
	my ($name) = @_;
	my ($found) = glob(AtprotoTest::test_dir() . "/t/*/$name.pl");
	return $found // "$name.pl";
}

# Their names, from the root of the sources: what a user reads first comes first.
sub pages
{
	my $root = root();
	my @found;

	find({ no_chdir => 1, wanted => sub { push @found, $_ =~ s{^\Q$root\E/}{}r if /\.md\z/ && !m{/(node_modules|tmp_check|build)/} } }, map { "$root/$_" } 'doc', 'contrib', 'bench', 'demo', 'examples', 'test');
	return ('README.md', 'CONTRIBUTING.md', 'CHANGELOG.md', sort @found);
}

sub page_text
{
	my ($page) = @_;
	return slurp_file(root() . "/$page");
}

# The blocks of a page in one language ('' are those without), in its order: page, line (of the first line in it), text,
# and name: its first line that is not a comment.
sub blocks
{
	my ($page, $language) = @_;
	my @blocks;
	my $open;
	my $line = 0;

	foreach (split /^/, page_text($page))
	{
		$line++;
		if ($open)
		{
			if (/^\s*```\s*$/) { push @blocks, $open; undef $open; }
			else               { $open->{text} .= $_; }
		}
		elsif (/^\s*```(\w*)/)
		{
			$open = { page => $page, language => $1, line => $line + 1, text => '' };
		}
	}
	die "$page: a block does not end" if $open;
	foreach my $block (@blocks)
	{
		($block->{name}) = grep { !/^\s*(--|#)/ && /\S/ } split /\n/, $block->{text};
		$block->{name} //= '';
	}
	return grep { $_->{language} eq $language } @blocks;
}

# The SQL of a page: heading (of its section), text, and plan, where the line after the block says it.
sub recipes
{
	my ($page) = @_;
	my $heading = '';
	my @recipes;

	foreach (page_text($page) =~ /^(## [^\n]*|```sql\n.*?^```\n(?:\nPlan: [^\n]*\n)?)/gms)
	{
		if (/^## (.*)/) { $heading = $1; next; }
		my ($text, $plan) = /^```sql\n(.*?)^```\n(?:\nPlan: ([^\n]*)\n)?/ms;
		push @recipes, { heading => $heading, text => $text, plan => $plan };
	}
	return @recipes;
}

# What is outside of the blocks.
sub prose
{
	my ($page) = @_;
	return page_text($page) =~ s/^\s*```.*?^\s*```\s*$//gmsr;
}

1;
