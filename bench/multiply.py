#!/usr/bin/python3
"""Makes a long capture of a short one: the same traffic, of other accounts.

    multiply.py COPIES CAPTURE > FILE

Copy k has a DID of its own for each DID of the capture (same length), and
sequence numbers that continue those of copy k - 1.  A commit names its account,
so its block, the block's CID, and the CAR file around it are made anew;
records, trees and revisions stay as they are.  Signatures are no longer valid.
"""

import base64
import gzip
import hashlib
import io
import struct
import sys

import cbor2


def messages(path):
    """Header and payload of each message of a capture, as bytes and as a value."""
    with open(path, "rb") as f:
        data = f.read()
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    pos = 0
    while pos < len(data):
        (n,) = struct.unpack_from(">I", data, pos)
        message = data[pos + 4 : pos + 4 + n]
        pos += 4 + n
        stream = io.BytesIO(message)
        cbor2.load(stream)
        split = stream.tell()
        yield message[:split], cbor2.loads(message[split:])


def encode(value):
    return cbor2.dumps(value, canonical=True)


def varint(n):
    out = b""
    while n > 127:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def read_varint(data, pos):
    value = shift = 0
    while True:
        byte = data[pos]
        pos += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, pos


def sections(car):
    """(header, [section, ...]) of a CAR file; a section is a CID and its block."""
    n, pos = read_varint(car, 0)
    header = cbor2.loads(car[pos : pos + n])
    pos += n
    found = []
    while pos < len(car):
        n, pos = read_varint(car, pos)
        found.append(car[pos : pos + n])
        pos += n
    return header, found


class Commit:
    """The CAR file of a #commit or #sync, ready to be written for other accounts."""

    def __init__(self, car):
        header, self.sections = sections(car)
        root = header["roots"][0].value[1:]
        self.at = next(i for i, s in enumerate(self.sections) if s[:36] == root)
        self.block = cbor2.loads(self.sections[self.at][36:])

    def of(self, did):
        """(CID, CAR file)"""
        block = encode({**self.block, "did": did})
        cid = b"\x01\x71\x12\x20" + hashlib.sha256(block).digest()
        header = encode({"version": 1, "roots": [cbor2.CBORTag(42, b"\0" + cid)]})
        out = [varint(len(header)), header]
        for i, section in enumerate(self.sections):
            if i == self.at:
                section = cid + block
            out += varint(len(section)), section
        return cid, b"".join(out)


def account(did, copy):
    if not did.startswith("did:plc:"):
        raise SystemExit(f"not a did:plc: {did}")
    digest = hashlib.sha256(f"{copy} {did}".encode()).digest()
    return "did:plc:" + base64.b32encode(digest)[:24].decode().lower()


def main():
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    copies = int(sys.argv[1])
    capture = []
    for header, payload in messages(sys.argv[2]):
        commit = Commit(payload["blocks"]) if "blocks" in payload else None
        capture.append((header, payload, commit))
    first = capture[0][1]["seq"]
    length = capture[-1][1]["seq"] - first + 1
    out = sys.stdout.buffer
    for copy in range(copies):
        for header, payload, commit in capture:
            payload = {**payload, "seq": payload["seq"] + copy * length}
            name = "repo" if "repo" in payload else "did"
            payload[name] = account(payload[name], copy)
            if commit:
                cid, payload["blocks"] = commit.of(payload[name])
                if "commit" in payload:
                    payload["commit"] = cbor2.CBORTag(42, b"\0" + cid)
            message = header + encode(payload)
            out.write(struct.pack(">I", len(message)))
            out.write(message)


main()
