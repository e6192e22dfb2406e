"""Signatures and public keys of k256 and P-256 (V-05 to V-08, W-08 to W-12), in Python alone.

Only for tests: slow, and with secrets open to attacks by time.
"""

import functools
import hashlib

BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"


class Curve:
    """y² = x³ + ax + b over p; points are (x, y, z), x/z² and y/z³; z = 0: infinity."""

    def __init__(self, p, a, b, n, x, y):
        self.p, self.a, self.b, self.n = p, a, b, n
        self.base = self.table((x, y, 1))

    def double(self, point):
        x, y, z = point
        p = self.p
        yy = y * y % p
        s = 4 * x * yy % p
        zz = z * z % p
        m = (3 * x * x + self.a * zz * zz) % p
        out = (m * m - 2 * s) % p
        return out, (m * (s - out) - 8 * yy * yy) % p, 2 * y * z % p

    def add(self, one, two):
        if one[2] == 0:
            return two
        if two[2] == 0:
            return one
        p = self.p
        x1, y1, z1 = one
        x2, y2, z2 = two
        zz1, zz2 = z1 * z1 % p, z2 * z2 % p
        u1, u2 = x1 * zz2 % p, x2 * zz1 % p
        s1, s2 = y1 * z2 * zz2 % p, y2 * z1 * zz1 % p
        h, r = (u2 - u1) % p, (s2 - s1) % p
        if h == 0:
            return self.double(one) if r == 0 else (1, 1, 0)
        hh = h * h % p
        hhh, v = h * hh % p, u1 * hh % p
        x = (r * r - hhh - 2 * v) % p
        return x, (r * (v - x) - s1 * hhh) % p, h * z1 * z2 % p

    def table(self, point):
        """Its first 16 multiples."""
        out = [(1, 1, 0), point]
        while len(out) < 16:
            out.append(self.add(out[-1], point))
        return out

    def sum(self, *pairs):
        """Of multiples: (number, table of the point)."""
        total = (1, 1, 0)
        for shift in range(252, -1, -4):
            for _ in range(4):
                total = self.double(total)
            for number, table in pairs:
                total = self.add(total, table[number >> shift & 15])
        return total

    def windows(self, point, bits=4):
        """Tables for product(): for each window of so many bits of a number, the affine multiples of the point that
        the window's digits stand for."""
        rows, size = [], 1 << bits
        for _ in range(256 // bits):
            row = [point]
            while len(row) < size - 1:
                row.append(self.add(row[-1], point))
            rows.append(row)
            point = self.add(row[-1], point)
        # One inversion for all points: the inverse of the product of all z, taken apart from behind.
        flat, product = [point for row in rows for point in row], [1]
        for _, _, z in flat:
            product.append(product[-1] * z % self.p)
        inverse, out = pow(product[-1], -1, self.p), []
        for (x, y, z), before in zip(reversed(flat), product[-2::-1]):
            one, inverse = inverse * before % self.p, inverse * z % self.p
            square = one * one % self.p
            out.append((x * square % self.p, y * square * one % self.p))
        out.reverse()
        return [out[at : at + size - 1] for at in range(0, len(out), size - 1)]

    @functools.cached_property
    def base_windows(self):
        return self.windows(self.base[1], 8)

    def product(self, number, windows, total=(1, 1, 0)):
        """The multiple of the point that windows() was given, added to total: additions only."""
        p, mask = self.p, len(windows[0])
        bits = mask.bit_length()
        for row in windows:
            digit = number & mask
            number >>= bits
            if digit == 0:
                continue
            x2, y2 = row[digit - 1]
            x1, y1, z1 = total
            if z1 == 0:
                total = (x2, y2, 1)
                continue
            zz = z1 * z1 % p
            h, r = (x2 * zz - x1) % p, (y2 * zz * z1 - y1) % p
            if h == 0:
                total = self.double(total) if r == 0 else (1, 1, 0)
                continue
            hh = h * h % p
            hhh, v = h * hh % p, x1 * hh % p
            x = (r * r - hhh - 2 * v) % p
            total = (x, (r * (v - x) - y1 * hhh) % p, h * z1 % p)
        return total

    def affine(self, point):
        """x and y; None at infinity."""
        if point[2] == 0:
            return None
        inverse = pow(point[2], -1, self.p)
        square = inverse * inverse % self.p
        return point[0] * square % self.p, point[1] * square * inverse % self.p

    def root(self, x, odd):
        """The point with this x; None: it is not on the curve."""
        if x >= self.p:
            return None
        yy = (x * x * x + self.a * x + self.b) % self.p
        y = pow(yy, (self.p + 1) // 4, self.p)
        if y * y % self.p != yy:
            return None
        return x, (y if y % 2 == odd else self.p - y), 1


K256 = Curve(
    2**256 - 2**32 - 977, 0, 7, 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141,
    0x79BE667EF9DCBBAC55A06295CE870B07029BFCDB2DCE28D959F2815B16F81798,
    0x483ADA7726A3C4655DA4FBFC0E1108A8FD17B448A68554199C47D08FFB10D4B8,
)
P256 = Curve(
    2**256 - 2**224 + 2**192 + 2**96 - 1, -3, 0x5AC635D8AA3A93E7B3EBBD55769886BC651D06B0CC53B0F63BCE3C3E27D2604B,
    0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551,
    0x6B17D1F2E12C4247F8BCE6E563A440F277037D812DEB33A0F4A13945D898C296,
    0x4FE342E2FE1A7F9B8EE7EB4A7C0F9E162BCE33576B315ECECBB6406837BF51F5,
)
CURVES = {b"\xe7\x01": K256, b"\x80\x24": P256}


class Key:
    """A public key, from the 35 bytes of its Multikey."""

    def __init__(self, multikey):
        self.bytes = multikey
        self.curve = CURVES[multikey[:2]]
        point = self.curve.root(int.from_bytes(multikey[3:], "big"), multikey[2] & 1)
        if len(multikey) != 35 or multikey[2] not in (2, 3) or point is None:
            raise ValueError("not a point")
        self.table = self.curve.table(point)
        self.asked, self.windows = 0, None

    def product(self, number, base_number):
        """The multiple of the key, plus that of the curve's base point.  A key that is used often gets larger tables."""
        self.asked += 1
        if self.asked > 4:
            self.windows = self.windows or self.curve.windows(self.table[1])
            return self.curve.product(number, self.windows, self.curve.product(base_number, self.curve.base_windows))
        return self.curve.sum((base_number, self.curve.base), (number, self.table))

    def verifies(self, message, sig):
        n = self.curve.n
        r, s = int.from_bytes(sig[:32], "big"), int.from_bytes(sig[32:], "big")
        if len(sig) != 64 or not 0 < r < n or not 0 < s <= n // 2:
            return False
        w = pow(s, -1, n)
        number = int.from_bytes(hashlib.sha256(message).digest(), "big")
        point = self.curve.affine(self.product(r * w % n, number * w % n))
        return point is not None and point[0] % n == r


def sign(curve, secret, message, high=False):
    """64 bytes; high: with the s that is not allowed (V-07)."""
    digest = hashlib.sha256(message).digest()
    number, d, n = int.from_bytes(digest, "big"), int.from_bytes(secret, "big"), curve.n
    k = int.from_bytes(hashlib.sha256(secret + digest).digest(), "big") % n
    r = curve.affine(curve.product(k, curve.base_windows))[0] % n
    s = pow(k, -1, n) * (number + r * d) % n
    if (s > n // 2) != high:
        s = n - s
    return r.to_bytes(32, "big") + s.to_bytes(32, "big")


def multikey(text):
    """The 35 bytes of "z…"."""
    if text[:1] != "z" or len(text) > 128:
        raise ValueError("not base58")
    number = 0
    for digit in text[1:]:
        number = number * 58 + BASE58.index(digit)
    return number.to_bytes(35, "big")


def key_of_document(document):
    """The Multikey of a DID document's first valid key; None."""
    did = document["id"]
    for method in document.get("verificationMethod", []):
        if method.get("id") not in ("#atproto", did + "#atproto") or method.get("controller") != did:
            continue
        try:
            key = multikey(method["publicKeyMultibase"])
            Key(key)
        except (KeyError, ValueError, OverflowError):
            continue
        return key
    return None
