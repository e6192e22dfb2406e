#!/usr/bin/python3
"""Reads an exported repository, and checks its validity (R-40 to R-44).

    exports.py FILE [DID]     one JSON text a line: the commit, then each record in the order of paths

A tree is right when it equals the tree that synth.py builds of the same keys: instead of checking rules
about nodes, all nodes are compared at once.
"""

import json
import sys

import record
import synth
import wire

BLOCK_MAX = 2_000_000  # bytes, R-45


class Export:
    """did, rev, commit and data (binary CIDs), sig, records {path: (CID, block)}."""

    def __init__(self, file, did=None):
        roots, self.blocks = wire.car(file)
        if not roots or any(len(block) > BLOCK_MAX for block in self.blocks.values()):
            raise wire.Malformed("car")
        for key in [roots[0], *self.blocks]:
            if key[:1] != b"\x01" or key[1] not in (0x71, 0x55) or len(key) != 36:
                raise wire.Malformed("cid")
        self.commit = roots[0]
        signed = wire.decode(self.block(self.commit))
        self.did, self.rev, self.sig = signed["did"], signed["rev"], signed["sig"]
        if signed["version"] != 3 or len(self.sig) != 64:
            raise wire.Malformed("commit")
        if did is not None and self.did != did:
            raise wire.Malformed("did")
        self.data = wire.cid(signed["data"])
        found = []
        self.walk(self.data, None, found)
        values = dict(found)
        if len(values) != len(found) or synth.tree({key.decode(): value for key, value in found})[0] != self.data:
            raise wire.Malformed("tree")
        self.records = {key.decode(): (value, self.block(value)) for key, value in sorted(found)}

    def block(self, key):
        if key not in self.blocks:
            raise wire.Malformed("missing")
        return self.blocks[key]

    def walk(self, key, level, found):
        """The keys and values of a subtree, whose height its parent knows."""
        try:
            node = wire.decode(self.block(key))
            path, below = b"", [node["l"]]
            for entry in node["e"]:
                path = path[: entry["p"]] + entry["k"]
                found.append((path, wire.cid(entry["v"])))
                below.append(entry["t"])
        except (KeyError, TypeError):
            raise wire.Malformed("tree") from None
        if level is None:
            level = synth.layer(path)
        for link in below:
            if link is not None and level == 0:
                raise wire.Malformed("tree")
            if link is not None:
                self.walk(wire.cid(link), level - 1, found)

    def lines(self):
        yield {"did": self.did, "rev": self.rev, "commit": wire.cid_text(self.commit), "data": wire.cid_text(self.data)}
        for path, (value, block) in self.records.items():
            line = {"path": path, "cid": wire.cid_text(value)}
            try:
                line["value"] = record.plain(record.check(block))
            except (wire.Malformed, record.NoJson) as e:
                line["error"] = str(e)
            yield line


def make(who, rev, records, sig=bytes(64), nodes=None):
    """An export: records is {path: record or its bytes}."""
    blocks = {path: value if isinstance(value, bytes) else synth.encode(value) for path, value in records.items()}
    data, branches = synth.tree({path: synth.cid(block) for path, block in blocks.items()})
    commit = {"did": who, "version": 3, "rev": rev, "prev": None, "data": synth.link(data), "sig": sig}
    block = synth.encode(commit)
    records = list({synth.cid(b): b for b in blocks.values()}.items())
    return synth.car(synth.cid(block), [(synth.cid(block), block), *(branches if nodes is None else nodes(branches)), *records])


def main():
    with open(sys.argv[1], "rb") as f:
        file = f.read()
    try:
        for line in Export(file, *sys.argv[2:3]).lines():
            print(json.dumps(line, sort_keys=True))
    except wire.Malformed as e:
        sys.exit(f"{sys.argv[1]}: {e}")


if __name__ == "__main__":
    main()
