# 272_address.pl
#		test/tools/set-address enters the public address and the maintainer at every place in the sources,
#		also a second time, and refuses arguments that are no address and no maintainer.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use File::Copy qw(copy);
use JSON::PP;
use PostgreSQL::Test::Utils;
use Test::More;

my $tree = test_dir() . '/..';
my $dir  = PostgreSQL::Test::Utils::tempdir();
my @files = qw(META.json debian/control.in debian/control);
mkdir "$dir/debian" or BAIL_OUT($!);
copy("$tree/$_", "$dir/$_") or BAIL_OUT("$_: $!") foreach @files;

sub set_address
{
	my @args = map { "'" . s/'/'\\''/gr . "'" } @_;
	return system("cd '$dir' && '$tree/test/tools/set-address' @args >/dev/null 2>&1");
}

my %before = map { $_ => slurp_file("$dir/$_") } @files;
isnt(set_address(@$_), 0, "refused: @$_")
  foreach [], ['https://forge.example/a/b'], [ 'http://forge.example/a/b', 'A <a@b.example>' ], [ 'https://forge.example/a/b/', 'A <a@b.example>' ],
  [ 'https://forge.example/a/b', 'A' ], [ "https://forge.example/a\nb", 'A <a@b.example>' ], [ 'https://forge.example/a/b', "A\nB <a\@b.example>" ];
is(slurp_file("$dir/$_"), $before{$_}, "$_ is as it was") foreach @files;

is(set_address('https://old.example/x/y', 'Old <old@old.example>'), 0, 'entered');
is(set_address('https://forge.example/a/b', 'Ännchen & Co <a@b.example>'), 0, 'entered again');
my $meta = decode_json(slurp_file("$dir/META.json"));
my $was  = decode_json($before{'META.json'});
is_deeply($meta->{resources}, {
	homepage => 'https://forge.example/a/b',
	bugtracker => { web => 'https://forge.example/a/b/issues' },
	repository => { url => 'https://forge.example/a/b.git', web => 'https://forge.example/a/b', type => 'git' },
}, 'META.json: resources');
is($meta->{maintainer}, "\x{c4}nnchen & Co <a\@b.example>", 'META.json: maintainer');
delete $_->{resources}, delete $_->{maintainer} foreach $meta, $was;
is_deeply($meta, $was, 'META.json: the rest is as it was');
foreach my $control (grep { /debian/ } @files)
{
	my $text = slurp_file("$dir/$control");
	is(scalar(() = $text =~ /^(?:Maintainer: .* <a\@b\.example>|Homepage: https:\/\/forge\.example\/a\/b|Vcs-Git: .*\.git|Vcs-Browser: .*)$/mg), 4, "$control: four lines");
	unlike($text, qr/old\.example/, "$control: nothing is left of the first");
}

done_testing();
