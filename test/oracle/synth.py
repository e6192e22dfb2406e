#!/usr/bin/python3
"""Makes captures that no real server would send, or as long as a benchmark needs.

    synth.py posts N > FILE      N commits with one post each, of 1,000 accounts, framed and
                                 sized as production traffic: 10 blocks, 5.5 kB
    synth.py bad N > FILE        N commits of one account, with 200 invalid records each, 1.8 MB
    synth.py again > FILE        the same keys again and again, close together
    synth.py folded > FILE       several operations on one record of each of five accounts
    synth.py alike N ... > FILE  for each N a commit that writes one record of N bytes, of which
                                 jsonb is 12 times as large, under 200 keys
    synth.py erased > FILE       an account with three records that is deleted
    synth.py clock > FILE        accounts that go and come while their server's clock steps back
    synth.py returns > FILE      accounts that were deleted or deactivated, have come back, and then write; one that is only active
    synth.py missed > FILE       accounts that go and come: with a commit, a #sync to another tree, to the same tree
                                 or a commit with an operation left out meanwhile
    synth.py odd > FILE          the rules of state.py one by one: stale and rejected commits,
                                 invalid records, accounts that come and go

Commits are not signed, and each tree has only what its commit writes.  The same arguments
give the same bytes.
"""

import functools
import hashlib
import random
import struct
import sys

import cbor2

ALPHABET = "234567abcdefghijklmnopqrstuvwxyz"
EPOCH = 1_767_225_600_000_000  # microseconds: 2026-01-01


def encode(value):
    return cbor2.dumps(value, canonical=True)


def cid(block, codec=0x71):
    return bytes([1, codec, 0x12, 0x20]) + hashlib.sha256(block).digest()


def link(binary):
    return cbor2.CBORTag(42, b"\0" + binary)


def tid(n):
    """The TID n microseconds after the epoch of these captures."""
    value = (EPOCH + n) << 10
    return "".join(ALPHABET[value >> shift & 31] for shift in range(60, -1, -5))


def did(n):
    return "did:plc:" + "".join(ALPHABET[n >> 5 * i & 31] for i in range(24))


def varint(n):
    out = b""
    while n > 127:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def car(root, blocks):
    """blocks: list of (CID, bytes)"""
    header = encode({"version": 1, "roots": [link(root)]})
    out = [varint(len(header)), header]
    for key, block in blocks:
        out += varint(len(key) + len(block)), key, block
    return b"".join(out)


@functools.lru_cache(maxsize=None)
def layer(key):
    """The layer of the Merkle search tree that a key belongs to: pairs of leading zero bits."""
    digest = int.from_bytes(hashlib.sha256(key).digest(), "big")
    return (256 - digest.bit_length()) // 2


@functools.lru_cache(maxsize=100_000)
def node(items, level):
    """A node of this level, of (key, CID) pairs: its CID, and with it all nodes below as (CID, bytes).

    Kept, since of a large tree most is in the next one, too.
    """
    entries, below, last, left, nodes = [], [], b"", None, []

    def subtree():
        if not below:
            return None
        root, blocks = node(tuple(below), level - 1)
        nodes.extend(blocks)
        return link(root)

    for item in [*items, None]:
        if item is not None and layer(item[0]) < level:
            below.append(item)
            continue
        if entries:
            entries[-1]["t"] = subtree()
        else:
            left = subtree()
        below = []
        if item is not None:
            key, value = item
            shared = 0
            while shared < min(len(key), len(last)) and key[shared] == last[shared]:
                shared += 1
            entries.append({"p": shared, "k": key[shared:], "v": link(value), "t": None})
            last = key
    block = encode({"l": left, "e": entries})
    return cid(block), (*nodes, (cid(block), block))


def tree(records):
    """The Merkle search tree of {path: CID}: its root, and its nodes as (CID, bytes)."""
    items = tuple(sorted((path.encode(errors="surrogateescape"), value) for path, value in records.items()))
    return node(items, max((layer(key) for key, _ in items), default=0))


class Stream:
    """Messages with a seq that counts up.

    A commit brings its whole tree: of all that the account has written.  prevData is there when it is the
    tree of the commit before; not when an operation is one that cannot be, or #sync named another tree.
    """

    def __init__(self, seed=1):
        self.seq = 0
        self.random = random.Random(seed)
        self.heads = {}  # of repositories: rev and data, which the next commit continues
        self.records = {}  # of repositories: path -> CID

    def message(self, kind, payload):
        self.seq += 1
        return encode({"op": 1, "t": kind}) + encode({"seq": self.seq, **payload})

    def signed(self, who, rev, data, **changes):
        """A commit block."""
        commit = {
            "did": who,
            "version": 3,
            "data": link(data),
            "rev": rev,
            "prev": None,
            "sig": self.random.randbytes(64),
            **changes,
        }
        return encode(commit)

    def commit(self, who, rev, ops, nodes=(), breaks=None, time="2026-01-01T00:00:00.000Z", **changes):
        """ops: (action, path, record or bytes or None); breaks(parts) spoils what was made."""
        blocks = [(cid(node), node) for node in nodes]
        wire_ops = []
        written, present = {}, self.records.get(who, {})
        after, before = dict(present), {}
        for action, path, record in ops:
            op = {"action": action, "path": path, "cid": None}
            if record is not None:
                body = record if isinstance(record, bytes) else encode(record)
                if cid(body) not in written.values():
                    blocks.append((cid(body), body))
                op["cid"] = link(cid(body))
                written[path] = cid(body)
                after[path] = written[path]
            else:
                after.pop(path, None)
            before[path] = None
            if action != "create":
                before[path] = present.get(path, cid(path.encode()))
                op["prev"] = link(before[path])
            wire_ops.append(op)
        data, branches = tree(after)
        before = tree({path: value for path, value in {**after, **before}.items() if value})[0]
        since, head = self.heads.get(who, (None, None))
        if since is None or since < rev:
            self.heads[who] = rev, data
            self.records[who] = after
        block = self.signed(who, rev, data, **changes)
        root = cid(block)
        blocks += [*branches, (root, block)]
        parts = {"root": root, "blocks": blocks, "ops": wire_ops}
        if breaks:
            breaks(parts)
        chain = {"prevData": link(before)} if before == head else {}
        return self.message(
            "#commit",
            {
                "repo": who,
                "rev": rev,
                "since": since,
                "time": time,
                "commit": link(root),
                **chain,
                "blocks": car(parts["root"], parts["blocks"]),
                "ops": parts["ops"],
                "blobs": [],
                "rebase": False,
                "tooBig": False,
            },
        )

    def sync(self, who, rev, data=None):
        """To a tree that nobody knows, unless it is given."""
        data = data or cid(self.random.randbytes(8))
        if who not in self.heads or self.heads[who][0] < rev:
            self.heads[who] = rev, data
        block = self.signed(who, rev, data)
        return self.message(
            "#sync",
            {
                "did": who,
                "rev": rev,
                "time": "2026-01-01T00:00:00.000Z",
                "blocks": car(cid(block), [(cid(block), block)]),
            },
        )

    def account(self, who, active, status=None):
        extra = {} if status is None else {"status": status}
        if status == "deleted":
            self.heads.pop(who, None)
            self.records.pop(who, None)
        time = "2026-01-01T00:00:00.000Z"
        return self.message("#account", {"did": who, "active": active, "time": time, **extra})

    def identity(self, who, handle=None, time="2026-01-01T00:00:00.000Z"):
        extra = {} if handle is None else {"handle": handle}
        return self.message("#identity", {"did": who, "time": time, **extra})


def post(text, **more):
    return {
        "$type": "app.bsky.feed.post",
        "text": text,
        "langs": ["en"],
        "createdAt": "2026-01-01T00:00:00.000Z",
        **more,
    }


def posts(n):
    s = Stream()
    for i in range(n):
        nodes = [s.random.randbytes(s.random.randrange(250, 850)) for _ in range(8)]
        text = s.random.randbytes(s.random.randrange(10, 140)).hex()
        rev = tid(i)
        path = f"app.bsky.feed.post/{rev}"
        s.records.clear()  # the random nodes stand for what the accounts had before
        yield s.commit(did(i % 1000 + 1), rev, [("create", path, post(text[:200]))], nodes)


def bad(n):
    s = Stream()
    for i in range(n):
        ops = [("create", f"app.bsky.feed.post/{j}", {"no type": f"{j}" + "x" * 9000}) for j in range(200)]
        yield s.commit(did(1), tid(i), ops)
    yield s.commit(did(2), tid(1), [("create", "app.bsky.feed.post/1", {"no": "type"})])
    yield s.commit(did(2), tid(2), [("create", "app.bsky.feed.post/2", post("good"))])


def again():
    """12 accounts that do the same in turns, so that each key comes back within a batch."""
    s = Stream()
    key = "app.bsky.feed.post/x"
    who = list(map(did, range(1, 13)))
    steps = [
        # (what happens to accounts 1, 4, 7, 10), (2, 5, ...), (3, 6, ...)
        ("create", "update", "create"),
        ("delete", "update", "create"),
        ("create", "delete", "erase"),
        ("update", "delete", "create"),
        ("delete", "create", "update"),
        ("create", "create", "delete"),
    ]
    for n, step in enumerate(steps):
        for i, account in enumerate(who):
            action = step[i % 3]
            if action == "erase":
                yield s.account(account, False, "deleted")
                yield s.account(account, True)
            else:
                record = None if action == "delete" else post(f"{n} {i}")
                yield s.commit(account, tid(100 * n + i), [(action, key, record)])


def folded():
    """5 accounts, each of which does something with one record, and then something else."""
    s = Stream()
    steps = [("create", "delete"), ("update", "delete", "create"), ("update", "update"), ("create", "update"), ("delete", "create")]
    for i, actions in enumerate(steps):
        for n, action in enumerate(actions):
            record = None if action == "delete" else post(f"{n} {i}")
            yield s.commit(did(i + 1), tid(10 * i + n), [(action, "app.bsky.feed.post/x", record)])


def alike(sizes):
    s = Stream()
    for i, n in enumerate(sizes):
        record = {"$type": "com.example.x", "n": [i] + [0] * (n - 1)}
        yield s.commit(did(i + 1), tid(i), [("create", f"com.example.x/{k}", record) for k in range(200)])


def erased():
    """An account with three records that is deleted."""
    s = Stream()
    key = "app.bsky.feed.post/"
    for n, name in enumerate("abc"):
        yield s.commit(did(1), tid(n), [("create", key + name, post(name))])
    yield s.account(did(1), False, "deleted")


def clock():
    """An account that goes and comes while its server's clock steps back; its deletion, replayed late."""
    s = Stream()
    key = "app.bsky.feed.post/"

    def account(who, active, time, status=None):
        if status == "deleted":
            s.heads.pop(who, None)
        extra = {} if status is None else {"status": status}
        return s.message("#account", {"did": who, "active": active, "time": f"2026-01-01T{time}:00.000Z", **extra})

    yield s.commit(did(1), tid(1), [("create", key + "a", post("before"))])
    yield account(did(1), False, "12:00", "deactivated")
    yield account(did(1), True, "11:00")
    yield s.commit(did(1), tid(2), [("create", key + "b", post("after"))])
    yield s.commit(did(2), tid(1), [("create", key + "a", post("goes with the account"))])
    yield account(did(2), False, "12:00", "deleted")
    yield account(did(2), True, "11:00")
    yield s.commit(did(2), tid(2), [("create", key + "b", post("a new beginning"))])


def returns():
    """Each account's old status, all their returns, their commits; at last a commit of another account, and an account that is only active."""
    s = Stream()
    was = {did(1): "deleted", did(2): "deactivated", did(3): "takendown"}
    later = dict.fromkeys([*was, did(4)])

    def account(who, time, active, **status):
        return s.message("#account", {"did": who, "active": active, "time": f"2026-01-01T{time}:00.000Z", **status})

    for who, status in was.items():
        yield account(who, "10:00", False, status=status)
    for who in was:
        yield account(who, "11:00", True)
    for n, name in enumerate("ab"):
        for who in later:
            rev = tid((12 * 60 + n) * 60_000_000)
            yield s.commit(who, rev, [("create", "app.bsky.feed.post/" + name, post(name))], time=f"2026-01-01T12:0{n}:00.000Z")
    yield s.identity(did(5), "handle.example", time="2026-01-01T13:00:00.000Z")
    yield account(did(5), "13:00", True)


# --- the odd ones ---


def spoil_block(parts):
    key, block = parts["blocks"][0]
    parts["blocks"][0] = key, block[:-1] + bytes([block[-1] ^ 1])


def drop_record(parts):
    del parts["blocks"][0]


def drop_commit(parts):
    del parts["blocks"][-1]


def other_root(parts):
    parts["root"] = parts["blocks"][0][0]


def twice(parts):
    parts["ops"] *= 2


def no_cid(parts):
    parts["ops"][0]["cid"] = None


def odd():
    """check_oracle.py says what each of these must leave behind."""
    s = Stream()
    a, b, c, d, e = map(did, range(1, 6))
    p = "app.bsky.feed.post/"

    # a: old and repeated revisions, and what a commit can do
    yield s.commit(a, tid(10), [("create", p + "1", post("one")), ("create", p + "2", post("two"))])
    yield s.commit(a, tid(9), [("create", p + "3", post("too old"))])
    yield s.commit(a, tid(10), [("delete", p + "1", None)])
    yield s.commit(a, tid(11), [("update", p + "1", post("one, changed")), ("delete", p + "2", None)])
    yield s.commit(a, tid(12), [("delete", p + "9", None), ("create", p + "9", post("same path"))])
    yield s.commit(a, tid(13), [])
    yield s.sync(a, tid(14))
    yield s.sync(a, tid(12))
    yield s.commit(a, tid(14), [("create", p + "4", post("as old as the #sync"))])
    yield s.message("#unknown", {"did": a})
    yield s.identity(a, "a.test")
    yield s.identity(a)

    # b: records that are not valid, each beside one that is
    bad = [
        ("float", b"\xa2\x61f\xfb\x3f\xf8" + bytes(6) + b"\x65$type\x61x"),
        ("uint64", {"$type": "x", "n": 2**63}),
        ("negative", {"$type": "x", "n": -(2**63) - 1}),
        ("no-type", {"text": "x"}),
        ("empty-type", {"$type": ""}),
        ("null-type", {"$type": "x", "in": {"$type": None}}),
        ("list", ["$type"]),
        ("blob", {"$type": "x", "b": {"$type": "blob", "mimeType": "a/b", "size": 1}}),
        ("blob-cbor", {"$type": "x", "b": {"$type": "blob", "mimeType": "a/b", "size": 1, "ref": link(cid(b""))}}),
        ("order", b"\xa2\x61b\x01\x61a\x02"),
        ("long-form", b"\xa1\x65$type\x78\x01x"),
        ("trailing", encode({"$type": "x"}) + b"\0"),
        ("twice", b"\xa2\x65$type\x61x\x65$type\x61x"),
        ("utf8", b"\xa1\x65$type\x61\xff"),
        ("cut", encode({"$type": "x"})[:-1]),
        ("large", {"$type": "x", "t": "x" * 999_985}),
    ]
    for i, (name, record) in enumerate(bad):
        ops = [("create", p + name, record), ("create", p + "beside-" + name, post(name))]
        yield s.commit(b, tid(100 + i), ops)
    yield s.commit(b, tid(150), [("update", p + "beside-cut", encode(["not a record"]))])

    # c: records that are valid at the edge, or that jsonb cannot hold
    edge = [
        ("int64", {"$type": "x", "min": -(2**63), "max": 2**63 - 1}),
        ("empty-key", {"$type": "x", "": {"": []}}),
        ("nul-text", {"$type": "x", "t": "a\0b"}),
        ("nul-key", {"$type": "x", "in": [{"a\0": 1}]}),
        ("map-link", {"$type": "x", "l": {"$link": "x"}}),
        ("map-bytes", {"$type": "x", "l": {"$bytes": "x", "more": 1}}),
        ("link-bytes", {"$type": "x", "l": link(cid(b"", 0x55)), "b": b"\0\xff", "e": b""}),
        ("blob", {"$type": "x", "b": {"$type": "blob", "mimeType": "a/b", "size": 0, "ref": link(cid(b"", 0x55))}}),
        ("size", {"$type": "x", "t": "x" * 999_984}),  # 1,000,000 bytes
    ]
    for i, (name, record) in enumerate(edge):
        yield s.commit(c, tid(200 + i), [("create", "com.example.x/" + name, record)])

    # d: commits that are rejected whole; none moves the revision
    good = [("create", p + "x", post("never stored"))]
    for spoil in (spoil_block, drop_record, drop_commit, other_root, twice, no_cid):
        yield s.commit(d, tid(300), good, breaks=spoil)
    yield s.commit(d, tid(300), good, did=a)
    yield s.commit(d, tid(300), [("create", "nsid/x", post("x"))])
    yield s.commit(d, tid(300), [("create", p + "..", post("x"))])
    yield s.commit(d, tid(300), [("create", p + "x/y", post("x"))])
    yield s.commit(d, tid(250), [("create", p + "stored", post("stored after all"))])

    # e: an account that comes and goes
    yield s.account(e, True)
    yield s.commit(e, tid(400), [("create", p + "1", post("stays"))])
    yield s.account(e, False, "deactivated")
    yield s.commit(e, tid(401), [("create", p + "2", post("while not active"))])
    yield s.sync(e, tid(402))
    yield s.account(e, True)
    yield s.commit(e, tid(403), [("create", p + "3", post("active again"))])
    yield s.account(did(6), False, "deleted")
    yield s.account(did(6), True)
    yield s.commit(did(7), tid(500), [("create", p + "1", post("to be removed"))])
    yield s.account(did(7), False, "deleted")
    yield s.account(did(8), True, "desynchronized")


def missed():
    s = Stream()
    commits, announces, same, spoilt = map(did, range(1, 5))

    def put(who, n, name, **more):
        return s.commit(who, tid(n), [("create", "app.bsky.feed.post/" + name, post(name))], **more)

    for who in (commits, announces, same, spoilt):
        yield put(who, 10, "a")
        yield s.account(who, False, "deactivated")
    yield put(commits, 20, "b")
    yield s.sync(announces, tid(20))
    yield s.sync(same, tid(20), s.heads[same][1])
    yield put(spoilt, 20, "b", breaks=lambda parts: parts["ops"].pop())
    for who in (commits, announces, same, spoilt):
        yield s.account(who, True)


def write(messages, f):
    """A capture's form: each message with its length before it."""
    for message in messages:
        f.write(struct.pack(">I", len(message)) + message)


def run(makers, usage):
    """Writes what the program's first argument names."""
    if len(sys.argv) < 2 or sys.argv[1] not in makers:
        sys.exit(usage)
    write(makers[sys.argv[1]](), sys.stdout.buffer)


def main():
    makers = {
        "posts": lambda: posts(int(sys.argv[2])),
        "bad": lambda: bad(int(sys.argv[2])),
        "again": again,
        "folded": folded,
        "alike": lambda: alike(map(int, sys.argv[2:])),
        "erased": erased,
        "clock": clock,
        "returns": returns,
        "missed": missed,
        "odd": odd,
    }
    run(makers, __doc__)


if __name__ == "__main__":
    main()
