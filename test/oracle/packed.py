#!/usr/bin/python3
"""A second unpacker of the packed form of DAG-CBOR, made from the description in src/core/packed/packed_code.h.

    packed.py FILE      a table with tabs: name, stored value, DAG-CBOR (both in hexadecimal); the stored values must
                        unpack to the DAG-CBOR.  TAP.

Numbers of texts, keys and shapes come from src/core/packed/packed_list.h, nothing else from the extension.
"""

import base64
import datetime
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
SORTABLE = "234567abcdefghijklmnopqrstuvwxyz"
TIMES = {0x46: (6, 3, "Z"), 0x47: (5, 0, "Z"), 0x48: (7, 6, "Z"), 0x49: (7, 6, "+00:00"), 0x4A: (6, 3, "+00:00")}


class Damaged(Exception):
    pass


def read_lists():
    with open(os.path.join(HERE, "../../src/core/packed/packed_list.h"), encoding="utf-8") as f:
        source = f.read()
    texts = dict((int(number), text) for number, text in re.findall(r'^ATP_PACKED_TEXT\((\d+), "(.*)"\)$', source, re.M))
    keys = re.findall(r'^ATP_PACKED_KEY\((\d+), (\w+), "(.*)"\)$', source, re.M)
    by_name = {"KEY_" + name: text for _, name, text in keys}
    shapes = re.findall(r"^ATP_PACKED_SHAPE\((\d+), (.*)\)$", source, re.M)
    return texts, {int(n): text for n, _, text in keys}, {int(n): [by_name[k] for k in names.split(", ")] for n, names in shapes}


TEXTS, KEYS, SHAPES = read_lists()


def head(major, n):
    if n < 24:
        return bytes([major << 5 | n])
    size = next(size for size in range(4) if n < 1 << (8 << size))
    return bytes([major << 5 | 24 + size]) + n.to_bytes(1 << size, "big")


def cbor_text(text):
    data = text if isinstance(text, bytes) else text.encode()
    return head(3, len(data)) + data


def cid_of(codec, digest):
    return bytes([1, codec, 0x12, 32]) + digest


def cid_text(codec, digest):
    return "b" + base64.b32encode(cid_of(codec, digest)).decode().lower().rstrip("=")


def sortable(number, chars):
    return "".join(SORTABLE[number >> 5 * i & 31] for i in reversed(range(chars)))


def time_text(number, digits, zone):
    seconds, fraction = divmod(number, 10**digits)
    at = datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=seconds)
    return at.isoformat(timespec="seconds") + (".%0*d" % (digits, fraction) if digits else "") + zone


class Reader:
    def __init__(self, data):
        self.data = data
        self.pos = 0

    def take(self, n):
        if self.pos + n > len(self.data):
            raise Damaged("cut short")
        self.pos += n
        return self.data[self.pos - n : self.pos]

    def byte(self):
        return self.take(1)[0]

    def number(self):
        n = shift = 0
        while True:
            byte = self.byte()
            n |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return n

    def with_length(self):
        return Reader(self.take(self.number()))

    def rest(self):
        return self.take(len(self.data) - self.pos)

    def collection(self):
        number = self.byte()
        return TEXTS[number if number < 0x40 else number + 0x40].encode()

    def uri(self, flags):
        authority = self.take(self.byte()) if flags & 1 else b"did:plc:" + sortable(int.from_bytes(self.take(15), "big"), 24).encode()
        collection = self.take(self.byte()) if flags & 2 else self.collection()
        key = self.rest() if flags & 4 else sortable(int.from_bytes(self.take(8), "big"), 13).encode()
        return b"at://" + authority + b"/" + collection + b"/" + key

    def text(self, code):
        """None: the code stands for no text."""
        if code < 0x40:
            return TEXTS[code]
        if 0x60 <= code < 0x80:
            return self.take(code - 0x60)
        if code in TIMES:
            size, digits, zone = TIMES[code]
            return time_text(int.from_bytes(self.take(size), "big"), digits, zone)
        if code == 0x40:
            return TEXTS[0x40 + self.byte()]
        if code in (0x41, 0x42):
            return cid_text({0x41: 0x71, 0x42: 0x55}[code], self.take(32))
        if code == 0x43:
            return "did:plc:" + sortable(int.from_bytes(self.take(15), "big"), 24)
        if code == 0x44:
            return self.uri(0)
        if code == 0x45:
            parts = self.with_length()
            return parts.uri(parts.byte())
        if code == 0x4B:
            return self.take(self.number())
        return None

    def scalar(self, code):
        """None: the code stands for a container."""
        simple = {0x50: b"\xf6", 0x51: b"\xf4", 0x52: b"\xf5"}
        if code >= 0x80:
            return head(0, code - 0x80)
        if code in simple:
            return simple[code]
        if code in (0x4D, 0x4E, 0x4F):
            cid = self.take(self.number()) if code == 0x4F else cid_of(0x71 if code == 0x4D else 0x55, self.take(32))
            return b"\xd8\x2a" + head(2, len(cid) + 1) + b"\0" + cid
        if code == 0x53:
            return b"\xfb" + self.take(8)
        if code in (0x54, 0x55):
            return head(code - 0x54, self.number())
        if code in (0x56, 0x57):
            return head(code - 0x56, int.from_bytes(self.take(8), "big"))
        if code == 0x58:
            data = self.take(self.number())
            return head(2, len(data)) + data
        return None

    def pair(self):
        number = self.byte()
        return cbor_text(KEYS[number] if number else self.take(self.number())) + self.value()

    def container(self, code):
        if code == 0x4C:
            cid = cid_text(0x71, self.take(32))
            return b"\xa2" + cbor_text("cid") + cbor_text(cid) + cbor_text("uri") + cbor_text(Reader(self.take(24)).uri(0))
        if code not in (0x59, 0x5A, 0x5B):
            raise Damaged("code %02x" % code)
        body = self.with_length()
        if code == 0x5B:
            keys = SHAPES[body.byte()]
            out = head(5, len(keys)) + b"".join(cbor_text(key) + body.value() for key in keys)
        else:
            count = body.number() if body.data else 0
            member = body.value if code == 0x59 else body.pair
            out = head(code - 0x55, count) + b"".join(member() for _ in range(count))
        if body.rest():
            raise Damaged("bytes behind a container")
        return out

    def value(self):
        code = self.byte()
        text = self.text(code)
        if text is not None:
            return cbor_text(text)
        scalar = self.scalar(code)
        return scalar if scalar is not None else self.container(code)


def unpack(stored):
    reader = Reader(stored)
    edition = reader.byte()
    out = reader.value() if edition else reader.rest()
    if reader.rest():
        raise Damaged("bytes behind the value")
    return out


def main():
    with open(sys.argv[1], encoding="utf-8") as f:
        lines = f.read().splitlines()[1:]
    failed = 0
    for number, line in enumerate(lines, 1):
        name, stored, cbor = line.split("\t")
        good = unpack(bytes.fromhex(stored)).hex() == cbor
        failed += not good
        print("%s %d - %s" % ("ok" if good else "not ok", number, name))
    print("1..%d" % len(lines))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
