#!/usr/bin/env python3
"""Writes seeds for the fuzz targets of the data model: seed.py CAPTURE... DIR.

One directory below DIR for each target: test/build/new, and `make -C test keep-NAME` keeps
of them what a target needs.  From the captures come frames, their payloads, CAR files, blocks
and CIDs; then some values that captures do not have.
"""

import os
import sys

from corpus import read_packed, write_input

EXTRA = """
00 17 1818 18ff 190100 1a00010000 1b0000000100000000 1bffffffffffffffff 20 37 3818
3bffffffffffffffff 40 4100 60 6161 62c3a9 63e282ac 64f09f9880 80 8100 a0 a1616100 a2616100616200
a2616100626161f6 f4 f5 f6 fb3ff8000000000000 fb7ff0000000000000 f93e00 fa3fc00000 f7 e0 f800
9f00ff bfff 5fff 7fff d82a4100 c000 1801 190001 1a00000001 1b0000000000000001 7801 62c328
a2616200616100 a2616100616100 a10000 9b7fffffffffffffff 5bffffffffffffffff 1a000f4240 1a05f5e100
a1652474797065646173646681 a1652474797065636162 a1652470696e6b01
a165246c696e6b6161 a166246279746573 a36373697a65006524747970656462 616263
""".split()


def varint(data, pos):
    value = shift = 0
    while True:
        byte = data[pos]
        pos += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, pos


def byte_string_after(data, key):
    """The byte string under a key, found by its bytes; enough for a seed."""
    pos = data.find(key)
    if pos < 0:
        return None
    pos += len(key)
    size = {0x58: 1, 0x59: 2, 0x5A: 4}.get(data[pos])
    if size is None:
        return None
    length = int.from_bytes(data[pos + 1 : pos + 1 + size], "big")
    return data[pos + 1 + size : pos + 1 + size + length]


def main():
    *captures, out = sys.argv[1:]

    def put(target, data):
        write_input(os.path.join(out, target), data)

    for path in captures:
        for message in read_packed(path):
            if len(message) > 8192:
                continue
            put("frame", message)
            body = message.find(b"bop\x01")
            if body < 0:
                continue
            payload = message[body + 4 :]
            for number, kind in enumerate((b"#commit", b"#sync", b"#identity", b"#account", b"#info")):
                if kind in message[:body]:
                    put("repos", bytes([number]) + payload)
            put("repos", b"\x05" + payload)
            car = byte_string_after(payload, b"fblocks")
            if car is None:
                continue
            put("car", car)
            size, pos = varint(car, 0)
            pos += size
            keys = b""
            while pos < len(car):
                size, pos = varint(car, pos)
                block = car[pos + 36 : pos + size]
                put("cid", car[pos : pos + 36])
                put("dagcbor", block)
                put("jsonb", block)
                put("link", block)
                at = block.find(b"\xa4ak")
                if at >= 0 and 0x58 == block[at + 3]:
                    keys += block[at + 4 : at + 5 + block[at + 4]]
                pos += size
            put("mst", keys)
    for value in EXTRA:
        put("dagcbor", bytes.fromhex(value))
        put("jsonb", bytes.fromhex(value))
        put("link", bytes.fromhex(value))
    put("cid", b"bafyreidfayvfuwqa7qlnopdjiqrxzs6blmoeu4rujcjtnci5beludirz2a")
    put("cid", b"QmdfTbBqBPQ7VNxZEYEj14VmRuZBkqFbiwReogJgS1zR1n")


if __name__ == "__main__":
    main()
