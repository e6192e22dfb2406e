"""Parts of repositories, as PDSs serve them: getRecord with its proof, getBlocks, getLatestCommit.

Written from the lexicons and the behaviour of the reference server, not from the extension's reader.  Standard library only.
"""

import base64
import os
import struct


class Link(bytes):
    """A CID, binary."""


def item(data, at):
    """One item of DAG-CBOR, and where it ends."""
    first = data[at]
    kind, short = first >> 5, first & 31
    at += 1
    if kind == 7:
        if short == 27:
            return struct.unpack_from(">d", data, at)[0], at + 8
        return {20: False, 21: True, 22: None}[short], at
    n = short
    if short >= 24:
        size = 1 << (short - 24)
        n = int.from_bytes(data[at : at + size], "big")
        at += size
    if kind == 0:
        return n, at
    if kind == 1:
        return -1 - n, at
    if kind in (2, 3):
        value = data[at : at + n]
        return (bytes(value) if kind == 2 else value.decode("utf-8", "surrogateescape")), at + n
    if kind == 6:
        value, at = item(data, at)
        return Link(value[1:]), at
    values = []
    for _ in range(n * (2 if kind == 5 else 1)):
        value, at = item(data, at)
        values.append(value)
    return (values if kind == 4 else dict(zip(values[::2], values[1::2]))), at


def varint(data, at):
    n = shift = 0
    while True:
        n |= (data[at] & 127) << shift
        shift += 7
        at += 1
        if data[at - 1] < 128:
            return n, at


def number(n):
    return bytes([n]) if n < 128 else bytes([n % 128 + 128]) + number(n // 128)


def text(cid):
    """A binary CID in base32."""
    return "b" + base64.b32encode(cid).decode().lower().rstrip("=")


class Repository:
    """A CAR file, taken apart."""

    def __init__(self, path):
        with open(path, "rb") as f:
            data = f.read()
        n, at = varint(data, 0)
        self.root = bytes(item(data, at)[0]["roots"][0])
        at += n
        self.blocks = {}
        while at < len(data):
            n, at = varint(data, at)
            self.blocks[data[at : at + 36]] = data[at + 36 : at + n]
            at += n
        self.commit = item(self.blocks[self.root], 0)[0]
        self.by_text = {text(cid): cid for cid in self.blocks}

    def node(self, cid):
        node = item(self.blocks[cid], 0)[0]
        entries, key = [], b""
        for entry in node["e"]:
            key = key[: entry["p"]] + entry["k"]
            entries.append((key, bytes(entry["v"]), entry["t"] and bytes(entry["t"])))
        return node["l"] and bytes(node["l"]), entries

    def proof(self, key):
        """The blocks from the commit down to where the key is, or would be; and the record's block, or None."""
        found, cid = [self.root], bytes(self.commit["data"])
        while cid and cid in self.blocks:
            found.append(cid)
            try:
                down, entries = self.node(cid)
            except (KeyError, IndexError, TypeError, ValueError):
                break  # a block that a test has made to be no node
            for other, value, right in entries:
                if other == key:
                    return found, value
                if other > key:
                    break
                down = right
            cid = down
        return found, None

    def car(self, cids):
        header = b"\xa2eroots\x81\xd8\x2aX\x25\x00" + self.root + b"gversion\x01"
        parts = [number(len(header)) + header]
        for cid in cids:
            parts.append(number(36 + len(self.blocks[cid])) + cid + self.blocks[cid])
        return b"".join(parts)


class Parts:
    """What the test has told of a repository decides: car, and old, moves, every (README.md)."""

    def __init__(self):
        self.read = {}

    def repository(self, path):
        stamp = os.stat(path).st_mtime_ns, os.path.getsize(path)
        if self.read.get(path, (None,))[0] != stamp:
            self.read[path] = stamp, Repository(path)
        return self.read[path][1]

    def present(self, known):
        """The repository at this request: it moves on after each so many requests."""
        moves = known.get("moves")
        if moves:
            known["asked"] = known.get("asked", 0) + 1
            if known["asked"] > known.get("every", 1):
                known["asked"] = 1
                known["car"] = moves.pop(0)
        return self.repository(known["car"])

    def get_record(self, known, query):
        """200 and a CAR; a name of an error."""
        repository = self.present(known)
        found, record = repository.proof(f"{query.get('collection', '')}/{query.get('rkey', '')}".encode())
        if record is None and known.get("old"):
            return "RecordNotFound"
        if record in repository.blocks:
            found.append(record)
        return repository.car(found)

    def get_blocks(self, known, cids):
        """All blocks or none; the texts of the CIDs that are missing."""
        repository = self.present(known)
        of = repository.by_text
        missing = [cid for cid in cids if cid not in of]
        return (None, missing) if missing else (repository.car([of[cid] for cid in cids]), missing)

    def latest(self, known):
        repository = self.present(known)
        return {"cid": text(repository.root), "rev": repository.commit["rev"]}
