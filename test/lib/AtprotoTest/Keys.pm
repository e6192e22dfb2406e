# AtprotoTest/Keys.pm
#		Public keys in the forms of DID documents, written without code of the extension.
#
#		my $bytes = AtprotoTest::Keys::bytes_of('zQ3sh...');	# of a Multikey
#		AtprotoTest::Keys::text_of(AtprotoTest::Keys::long_point($bytes))	# 'z...', both coordinates

package AtprotoTest::Keys;

use strict;
use warnings FATAL => 'all';

use Math::BigInt;

my @digits = split //, '123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz';
my %value  = map { $digits[$_] => $_ } 0 .. $#digits;

# p, a, b of the curves, by the first bytes of a Multikey.
my %curves = (
	'e701' => [
		'0xfffffffffffffffffffffffffffffffffffffffffffffffffffffffefffffc2f', 0, 7 ],
	'8024' => [
		'0xffffffff00000001000000000000000000000000ffffffffffffffffffffffff', -3,
		'0x5ac635d8aa3a93e7b3ebbd55769886bc651d06b0cc53b0f63bce3c3e27d2604b' ]);

# "z" and base58btc, to bytes.
sub bytes_of
{
	my ($text) = @_;
	my $n = Math::BigInt->new(0);

	$n = $n * 58 + $value{$_} foreach split //, substr $text, 1;
	my $hex = substr $n->as_hex, 2;
	return pack 'H*', length($hex) % 2 ? "0$hex" : $hex;
}

# The other way; bytes that do not begin with zero.
sub text_of
{
	my ($bytes) = @_;
	my $n    = Math::BigInt->new('0x' . unpack 'H*', $bytes);
	my $text = '';

	while ($n > 0)
	{
		$text = $digits[ $n % 58 ] . $text;
		$n->bdiv(58);
	}
	return "z$text";
}

# 04, x and y of a Multikey's bytes.
sub long_point
{
	my ($key) = @_;
	my ($p, $a, $b) = map { Math::BigInt->new($_) } @{ $curves{ unpack 'H4', $key } };
	my $odd = unpack('C', substr $key, 2, 1) & 1;
	my $x   = Math::BigInt->new('0x' . unpack 'H*', substr $key, 3);
	# p is 3 modulo 4
	my $y = (($x**3 + $a * $x + $b) % $p)->bmodpow(($p + 1) / 4, $p);

	$y = $p - $y if $y % 2 != $odd;
	return pack 'C H64 H64', 4, map { sprintf '%064s', substr $_->as_hex, 2 } $x, $y;
}

1;
