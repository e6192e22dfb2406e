"""Keys and signatures by ECDSA on both curves, written from their definition, without the library that the
extension uses.  Slow, some milliseconds each, and with secrets open to attacks by time."""

import hashlib

CURVES = {
    # prefix of a Multikey; p, a, b, G, n
    "k256": (
        b"\xe7\x01",
        0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEFFFFFC2F,
        0,
        7,
        (
            0x79BE667EF9DCBBAC55A06295CE870B07029BFCDB2DCE28D959F2815B16F81798,
            0x483ADA7726A3C4655DA4FBFC0E1108A8FD17B448A68554199C47D08FFB10D4B8,
        ),
        0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141,
    ),
    "p256": (
        b"\x80\x24",
        0xFFFFFFFF00000001000000000000000000000000FFFFFFFFFFFFFFFFFFFFFFFF,
        -3,
        0x5AC635D8AA3A93E7B3EBBD55769886BC651D06B0CC53B0F63BCE3C3E27D2604B,
        (
            0x6B17D1F2E12C4247F8BCE6E563A440F277037D812DEB33A0F4A13945D898C296,
            0x4FE342E2FE1A7F9B8EE7EB4A7C0F9E162BCE33576B315ECECBB6406837BF51F5,
        ),
        0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551,
    ),
}


def add(curve, p, q):
    _, m, a, _, _, _ = CURVES[curve]
    if p is None or q is None:
        return p or q
    if p[0] == q[0] and (p[1] + q[1]) % m == 0:
        return None
    if p == q:
        slope = (3 * p[0] * p[0] + a) * pow(2 * p[1], -1, m)
    else:
        slope = (q[1] - p[1]) * pow(q[0] - p[0], -1, m)
    x = (slope * slope - p[0] - q[0]) % m
    return x, (slope * (p[0] - x) - p[1]) % m


def times(curve, n, p):
    out = None
    while n:
        if n & 1:
            out = add(curve, out, p)
        p = add(curve, p, p)
        n >>= 1
    return out


class Key:
    """The key that this seed gives."""

    def __init__(self, seed, curve="k256"):
        self.curve = curve
        self.prefix, _, _, _, self.base, self.order = CURVES[curve]
        self.secret = int.from_bytes(hashlib.sha256(seed.encode()).digest(), "big") % (self.order - 1) + 1
        x, y = times(curve, self.secret, self.base)
        # as atproto.identity has it
        self.multikey = self.prefix + bytes([2 + y % 2]) + x.to_bytes(32, "big")

    def numbers(self, message):
        digest = hashlib.sha256(message).digest()
        k = int.from_bytes(hashlib.sha256(self.secret.to_bytes(32, "big") + digest).digest(), "big") % (self.order - 1) + 1
        r = times(self.curve, k, self.base)[0] % self.order
        s = pow(k, -1, self.order) * (int.from_bytes(digest, "big") + r * self.secret) % self.order
        return r, min(s, self.order - s)

    def sign(self, message):
        return pack(*self.numbers(message))


def pack(r, s):
    return r.to_bytes(32, "big") + s.to_bytes(32, "big")


def der(r, s):
    def integer(n):
        body = n.to_bytes(n.bit_length() // 8 + 1, "big")
        return bytes([2, len(body)]) + body

    body = integer(r) + integer(s)
    return bytes([0x30, len(body)]) + body
