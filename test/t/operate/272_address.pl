# 272_address.pl
#		release/project.py copies the version, the maintainer and the public address from META.json to all other
#		files, also a second time, and refuses arguments that are no version, address or maintainer.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use File::Copy qw(copy);
use JSON::PP;
use POSIX qw(strftime);
use PostgreSQL::Test::Utils;
use Test::More;

my $tree = test_dir() . '/..';
my $dir  = PostgreSQL::Test::Utils::tempdir();
my @files = qw(META.json atproto.control debian/control.in debian/control debian/copyright debian/changelog CHANGELOG.md contrib/docker/README.md);
mkdir "$dir/$_" or BAIL_OUT($!) foreach qw(debian contrib contrib/docker);
copy("$tree/$_", "$dir/$_") or BAIL_OUT("$_: $!") foreach @files;

sub edit
{
	my ($name, $edit) = @_;
	local $_ = slurp_file("$dir/$name");
	$edit->();
	open(my $fh, '>', "$dir/$name") or BAIL_OUT("$name: $!");
	print $fh $_;
	close $fh;
	return;
}

# The sources of a release say "released" in three files.  The test begins with a version that is not released.
edit('META.json',        sub { s/("release_status": )"\w+"/$1"unstable"/ });
edit('CHANGELOG.md',     sub { s/^(## [\d.]+)$/$1 (not released)/m unless /^## \S+ \(not released\)$/m });
edit('debian/changelog', sub { s/\A(atproto \(\S+\)) \w+;/$1 UNRELEASED;/ });

sub project
{
	my @args = map { "'" . s/'/'\\''/gr . "'" } @_;
	return system("cd '$dir' && PYTHONDONTWRITEBYTECODE=1 '$tree/release/project.py' @args >/dev/null 2>&1");
}

sub set_address { return project('address', @_); }

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
foreach my $control (grep { /debian\/control/ } @files)
{
	my $text = slurp_file("$dir/$control");
	is(scalar(() = $text =~ /^(?:Maintainer: .* <a\@b\.example>|Homepage: https:\/\/forge\.example\/a\/b|Vcs-Git: .*\.git|Vcs-Browser: .*)$/mg), 4, "$control: four lines");
	unlike($text, qr/old\.example/, "$control: nothing is left of the first");
}
like(slurp_file("$dir/debian/copyright"), qr/^Source: https:\/\/forge\.example\/a\/b$/m, 'debian/copyright: the address');
like(slurp_file("$dir/debian/changelog"), qr/\A.*UNRELEASED.*\n(?s:.*?)\n -- \S+nnchen & Co <a\@b\.example>  /, 'debian/changelog: the maintainer of what is not released');

# META.json has the version, and all other files get the version from META.json.
isnt(project(@$_), 0, "refused: @$_") foreach [ 'version', '1.1' ], ['version'], [ 'version', '1.1.0-1' ], ['nothing'], [ 'show', 'nothing' ];
is(project('version', '2.7.18'), 0, 'a version');
is(project(),                    0, 'and copied again');
$meta = decode_json(slurp_file("$dir/META.json"));
is("$meta->{version} $meta->{provides}{atproto}{version} $meta->{'meta-spec'}{version}", '2.7.18 2.7.18 1.0.0', 'META.json: the version');
like(slurp_file("$dir/atproto.control"), qr/^default_version = '2\.7'$/m, 'atproto.control: the version of the SQL');
my $log = slurp_file("$dir/debian/changelog");
like($log, qr/\Aatproto \(2\.7\.18-1\) UNRELEASED;/, 'debian/changelog: the version');
is(scalar(() = $log =~ /^atproto /mg), scalar(() = $before{'debian/changelog'} =~ /^atproto /mg), 'in the entry that was not released');

# A release: what says that the version is not released goes.  Then the next version begins an entry, and the entry of
# the release stays.
like(slurp_file("$dir/CHANGELOG.md"), qr/^## \S+ \(not released\)$/m, 'CHANGELOG.md: not released');
{
	local $ENV{SOURCE_DATE_EPOCH} = 1800000000;
	is(project('released'), 0, 'a release');
}
is(decode_json(slurp_file("$dir/META.json"))->{release_status}, 'stable', 'META.json: stable');
unlike(slurp_file("$dir/CHANGELOG.md"), qr/not released/, 'CHANGELOG.md: released');
is(project(), 0, 'copied after the release');
my $released = slurp_file("$dir/debian/changelog");
like($released, qr/\Aatproto \(2\.7\.18-1\) unstable;/, 'debian/changelog: a release is not changed');
my ($date) = $released =~ /^ -- .*?  (.*)$/m;
is($date, strftime('%a, %d %b %Y %H:%M:%S +0000', gmtime 1800000000), 'debian/changelog: the date is that of the release');
is(project('version', '2.7.18'), 0, 'the same version again');
is(decode_json(slurp_file("$dir/META.json"))->{release_status}, 'stable', 'META.json: is still released');
is(project('version', '2.7.19'), 0, 'the next version');
is(decode_json(slurp_file("$dir/META.json"))->{release_status}, 'unstable', 'META.json: the next version is not released');
like(slurp_file("$dir/debian/changelog"), qr/\Aatproto \(2\.7\.19-1\) UNRELEASED;(?s:.*)^atproto \(2\.7\.18-1\) unstable;/m, 'debian/changelog: a new entry');

done_testing();
