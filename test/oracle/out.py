#!/usr/bin/python3
"""What a repository is as a file, after the commits of a capture: built from the messages alone (O-01 to O-05).

    out.py cars CAPTURE            one line for each account: DID, SHA-256 of the file, records; of an account that was
                                   deleted: DID and "deleted"
    out.py car CAPTURE DID         the file, in hexadecimal
    out.py signed SEED N           a signed repository with N records, beside which some stand twice: its DID, the
                                   account's key, a stranger's key, and the file in the order of O-01, in hexadecimal
    out.py proofs FILE PATH...     a line for each path: the proof that com.atproto.sync.getRecord would answer, of a file in
                                   hexadecimal: the nodes on the way are found by a search from the root
    out.py spoil FILE PATH         the proof of a path, spoilt in each of many ways: a line each with the way's name and the file

The file is the order of O-01: the commit, each node before what the node points to, a record at its first place.
The tree is synth.py's, the commit is the one that the last message brought.
"""

import hashlib
import sys

import curves
import sign
import synth
import wire


def order(commit, root, nodes, blocks):
    """The CIDs of a repository, a node before what the node points to, none twice."""
    found = {commit: None}

    def enter(key):
        found[key] = None
        node = wire.decode(nodes[key])
        if node["l"] is not None:
            enter(wire.cid(node["l"]))
        for entry in node["e"]:
            found.setdefault(wire.cid(entry["v"]), None)
            if entry["t"] is not None:
                enter(wire.cid(entry["t"]))

    enter(root)
    return [(key, blocks[key]) for key in found]


class Account:
    def __init__(self):
        self.records = {}
        self.blocks = {}
        self.commit = None
        self.deleted = False

    def take(self, kind, payload):
        if kind == "#account":
            self.deleted = payload.get("status") == "deleted" and not payload["active"]
            return
        roots, blocks = wire.car(payload["blocks"])
        self.commit = roots[0]
        self.blocks.update(blocks)
        for op in payload.get("ops", []):
            if op["action"] == "delete":
                del self.records[op["path"]]
            else:
                self.records[op["path"]] = wire.cid(op["cid"])

    def file(self):
        root, nodes = synth.tree(self.records)
        nodes = dict(nodes)
        if wire.cid(wire.decode(self.blocks[self.commit])["data"]) != root:
            raise SystemExit("out.py: the capture does not have all commits")
        return synth.car(self.commit, order(self.commit, root, nodes, {**self.blocks, **nodes}))


def read_hex(name):
    with open(name, encoding="ascii") as f:
        return bytes.fromhex(f.read())


def accounts(capture):
    found = {}
    for message in wire.messages(capture):
        header, payload = wire.frame(message)
        kind = header.get("t")
        if kind in ("#commit", "#sync", "#account"):
            found.setdefault(payload.get("repo") or payload["did"], Account()).take(kind, payload)
    return found


def file_of(did, records, key):
    """The file of these records, {path: block}, signed by the key."""
    blocks = {synth.cid(block): block for block in records.values()}
    root, nodes = synth.tree({path: synth.cid(block) for path, block in records.items()})
    commit = {"did": did, "version": 3, "rev": synth.tid(10**9), "prev": None, "data": synth.link(root)}
    commit = synth.encode({**commit, "sig": key.sign(synth.encode(commit))})
    blocks.update(nodes)
    blocks[synth.cid(commit)] = commit
    return synth.car(synth.cid(commit), order(synth.cid(commit), root, blocks, blocks))


def signed(seed, n):
    """Records of three collections, whose names are prefixes of each other; every tenth has the bytes of another."""
    records = {}
    for i in range(n):
        name = ("com.example.a", "com.example.a-b.c", "com.example.a.b")[i % 3]
        n = i - 3 if i % 10 == 9 else i
        records[f"{name}/{synth.tid(i * 1000)}"] = synth.encode({"$type": name, "n": n, "text": "é" * (n % 40)})
    did = synth.did(len(seed) + n)
    return did, file_of(did, records, sign.Key(seed)), sign.Key(seed), sign.Key(seed + "x")


def key_text(key):
    """did:key of a key."""
    number, text = int.from_bytes(key.multikey, "big"), ""
    while number:
        number, digit = divmod(number, 58)
        text = curves.BASE58[digit] + text
    return "did:key:z" + text


def way(file, path):
    """The commit, the nodes that a search for the path reads, and the record or None."""
    (commit, *_), blocks = wire.car(file)
    key, found, path = wire.cid(wire.decode(blocks[commit])["data"]), [commit], path.encode()
    while key is not None:
        found.append(key)
        node = wire.decode(blocks[key])
        last, link = b"", node["l"]
        for entry in node["e"]:
            last = last[: entry["p"]] + entry["k"]
            if last == path:
                return found, wire.cid(entry["v"]), blocks
            if last > path:
                break
            link = entry["t"]
        key = None if link is None else wire.cid(link)
    return found, None, blocks


def proof(file, path):
    found, record, blocks = way(file, path)
    return synth.car(found[0], [(key, blocks[key]) for key in [*found, record] if key is not None])


def spoilt(file, path):
    """Names and files; the name begins with what the file still proves: there, absent or none."""
    found, record, blocks = way(file, path)
    answer = "absent" if record is None else "there"
    keys = [key for key in [*found, record] if key is not None]
    put = [(key, blocks[key]) for key in keys]
    yield f"{answer}: backwards", synth.car(found[0], put[::-1])
    yield f"{answer}: twice", synth.car(found[0], put + put)
    yield f"{answer}: the whole export", file
    yield f"{answer}: the whole export backwards", synth.car(found[0], list(blocks.items())[::-1])
    yield f"{answer}: a block of nobody", synth.car(found[0], put + [(synth.cid(b"x"), b"x")])
    for i, key in enumerate(keys):
        yield f"none: without block {i}", synth.car(found[0], put[:i] + put[i + 1:])
        changed = bytearray(blocks[key])
        changed[len(changed) // 2] ^= 1
        yield f"none: block {i} changed", synth.car(found[0], put[:i] + [(key, bytes(changed))] + put[i + 1:])
    commit = wire.decode(blocks[found[0]])
    for name, change in (("version", {"version": 2}), ("did", {"did": synth.did(1)}), ("rev", {"rev": synth.tid(5)}),
                         ("data", {"data": synth.link(found[-1])} if len(found) > 2 else {"rev": synth.tid(6)}), ("prev", {"prev": synth.link(found[0])}),
                         ("sig", {"sig": commit["sig"][:32] + (sign.Key("").order - int.from_bytes(commit["sig"][32:], "big")).to_bytes(32, "big")})):
        block = synth.encode({**commit, **change})
        yield f"none: another {name}", synth.car(synth.cid(block), [(synth.cid(block), block), *put[1:]])
    yield "none: the root is a node", synth.car(found[1], put)
    yield "none: cut", synth.car(found[0], put)[:-1]
    yield "none: empty", b""


def main():
    command, *args = sys.argv[1:]
    if command == "cars":
        for did, account in sorted(accounts(args[0]).items()):
            if account.deleted:
                print(did, "deleted")
            elif account.commit is not None:
                print(did, hashlib.sha256(account.file()).hexdigest(), len(account.records))
    elif command == "car":
        print(accounts(args[0])[args[1]].file().hex())
    elif command == "signed":
        did, file, key, stranger = signed(args[0], int(args[1]))
        print(did, key_text(key), key_text(stranger), file.hex())
    elif command == "proofs":
        file = read_hex(args[0])
        for path in args[1:]:
            print(proof(file, path).hex())
    elif command == "spoil":
        for name, file in spoilt(read_hex(args[0]), args[1]):
            print(name, file.hex(), sep="\t")
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
