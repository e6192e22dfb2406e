#!/usr/bin/python3
"""Makes exports of repositories: CAR files.

    export.py DIR                writes the exports for test/t/repos/340_exports.pl
    export.py --stream           the events of the first account, as a stream, to standard output
    export.py --long             prints the DID of the exports long and longer
    export.py --many N SMALL LARGE DIR
                                 N exports of SMALL posts each and an export of LARGE posts, in the order of a server's table
    export.py --recipes N DIR    exports of N accounts as DIR/DID.car, each with three recipes among other records, and
                                 in DIR/DID.json their collections; prints the DIDs

The same arguments give the same bytes.
"""

import json
import os
import random
import sys

import cbor2

import synth
from synth import car, cid, encode, tid, tree

ME = synth.did(1)
POST = "app.bsky.feed.post/"


def note(text, **more):
    return encode({"$type": "com.example.note", "text": text, **more})


def export(records, rev, who=ME, spoil=None, shuffle=False, more=()):
    """records: {path: block}; spoil(blocks, nodes, root) changes the list of blocks."""
    root, nodes = tree({path: cid(block) for path, block in records.items()})
    commit = synth.Stream().signed(who, rev, root)
    blocks = [(cid(commit), commit), *reversed(nodes), *((cid(block), block) for block in records.values()), *more]
    if shuffle:
        random.Random(1).shuffle(blocks)
    if spoil:
        spoil(blocks, nodes, root)
    return car(cid(commit), blocks)


# Collections whose order in the tree is not that of their names.
ODD_ORDER = ["com.ex.a", "com.ex.a.b", "com.ex.a-b.c", "com.ex.a.b.c", "com.ex.a0.b", "com.ex.aB", "com.ex.ab.b"]


def first():
    records = {f"{name}/{key}": note(f"{name} {key}") for name in ODD_ORDER for key in ["self", tid(1), tid(2), "3k", "~"]}
    records.update({f"{POST}{tid(n)}": encode(synth.post(f"post {n}")) for n in range(500)})
    records.update({"com.example.note/a": note("the same"), "com.example.note/b": note("the same")})
    return records


def second():
    records = first()
    for name in ["com.ex.a/self", "com.ex.a.b/3k", f"{POST}{tid(17)}"]:
        del records[name]
    for path in [path for path in records if path.startswith("com.ex.a-b.c/")]:
        del records[path]
    records["com.ex.aB/self"] = note("changed")
    records[f"{POST}{tid(18)}"] = encode(synth.post("changed"))
    records["com.ex.a.c/new"] = note("new")
    records[f"{POST}{tid(1000)}"] = encode(synth.post("new"))
    return records


def strange():
    """Paths that are those of no record, records that are none, and one that jsonb cannot hold."""
    return {
        "com.Example.note/1": note("upper case"),
        "com.example.note/a/b": note("three parts"),
        "nothing": note("one part"),
        "com.example.note/1": note("a record"),
        "com.example.note/2": encode({"text": "without a type"}),
        "com.example.note/3": cbor2.dumps(17),
        "com.example.note/4": note("\0"),
    }


def no_text():
    """Paths are bytes: some that no text can have, and the name of a letter that is of no record."""
    names = ["#identity", "a\0b/c", "\udcff\udcfe/x", "com.example.note/\udcff", "x" * 1024]
    return {name: note(str(n)) for n, name in enumerate(names)}


# Long, and such that nothing can be left out of it: what stands beside it in a row is stored compressed.
LONG = "did:example:" + "".join(random.Random(1).choices("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", k=1750))


def long(n):
    """The last record's row is compared with n others before it."""
    records = {f"app.bsky.feed.post/{i:07}{'c' * 100}": note("z" * 900) for i in range(n)}
    return {**records, f"zz.zz.zz/{'a' * 512}": note("last")}


def big(n=20_000):
    return {f"{POST}{tid(i)}": encode(synth.post(f"{i} " + "x" * 300)) for i in range(n)}


def posts(who, n):
    """Of several collections; most lie far from their node."""
    kinds = ["app.bsky.feed.like", "app.bsky.feed.like", "app.bsky.feed.post", "app.bsky.graph.follow"]
    records = {f"{kinds[i % 4]}/{tid(i * 1000)}": encode(synth.post(f"Number {i}. " + "text " * (20 + i % 20))) for i in range(n)}
    return export(records, tid(50), who=who, shuffle=n < 100_000)


def collections(n=3_000):
    return {f"com.example.c{i % 60}.d{i}/self": note(str(i)) for i in range(n)}


def recipes(n):
    """Three recipes of the n-th account, and posts."""
    records = {f"exchange.recipe.recipe/{tid(i)}": encode({"$type": "exchange.recipe.recipe", "name": f"recipe {3 * n + i}"}) for i in range(3)}
    records.update({f"{POST}{tid(i)}": encode(synth.post(f"post {i}")) for i in range(20)})
    return export(records, tid(50), who=synth.did(n))


# The last record but two has a block of its own.
def without_record(blocks, nodes, root):
    del blocks[-3]


def without_node(blocks, nodes, root):
    blocks.remove(next(node for node in nodes if node[0] != root))


def wrong_at_the_end(blocks, nodes, root):
    key, block = blocks[-1]
    blocks[-1] = key, block[:-1] + bytes([block[-1] ^ 1])


def other_codec(blocks, nodes, root):
    """The block of a record under the CID that it has as raw bytes."""
    key, block = blocks[-3]
    blocks[-3] = cid(block, 0x55), block


def files():
    yield "first", export(first(), tid(10))
    yield "shuffled", export(first(), tid(10), shuffle=True)
    yield "older", export(first(), tid(5))
    yield "second", export(second(), tid(20))
    yield "again", export(second(), tid(30))
    yield "none", export({}, tid(40))
    yield "other", export(first(), tid(50), who=synth.did(2))
    yield "future", export(first(), tid(100 * 365 * 86400 * 1_000_000))
    yield "strange", export(strange(), tid(50))
    yield "no_text", export(no_text(), tid(60))
    yield "zeros", export({"\0" * 1024: note("last")}, tid(60), spoil=lambda blocks, nodes, root: blocks.pop())
    yield "cleared", export({}, tid(70))
    yield "letters", export({f"{i}/": note("no path") for i in range(15_000)}, tid(80))
    yield "long", export(long(0), tid(50), who=LONG)
    yield "longer", export(long(2100), tid(60), who=LONG)
    yield "big", export(big(), tid(50), who=synth.did(3), shuffle=True)
    yield "collections", export(collections(), tid(50), who=synth.did(4))
    yield "no_collections", export({}, tid(60), who=synth.did(4))
    yield "without_record", export(first(), tid(50), spoil=without_record)
    yield "without_node", export(first(), tid(50), spoil=without_node)
    yield "wrong_hash", export(first(), tid(50), spoil=wrong_at_the_end)
    yield "other_codec", export(first(), tid(50), spoil=other_codec)
    tiny = [(cid(block), block) for block in (encode(n) for n in range(100_000))]
    yield "tiny", export(first(), tid(50), more=tiny)
    yield "twice", export(first(), tid(50), more=[(cid(block), block) for block in first().values()])


def stream():
    """What is of the exports' time, and what comes after the second."""
    s = synth.Stream()
    before = tree({path: cid(block) for path, block in second().items()})[0]
    yield s.commit(ME, tid(15), [("create", "com.example.note/old", note("old"))])
    s.heads[ME], s.records[ME] = (tid(20), before), {path: cid(block) for path, block in second().items()}
    yield s.commit(ME, tid(25), [("create", "com.example.note/new", note("new")), ("delete", "com.ex.a.c/new", None)])
    yield s.commit(ME, tid(26), [("create", "com.Example.note/1", note("upper case")), ("create", "com.example.note/1", note("beside"))])
    yield s.commit(ME, tid(27), [("create", "com.example.note/last", note("last"))])


def main():
    if sys.argv[1:] == ["--long"]:
        print(LONG, end="")
        return
    if sys.argv[1:] == ["--stream"]:
        synth.write(stream(), sys.stdout.buffer)
        return
    if sys.argv[1:2] == ["--many"] and len(sys.argv) == 6:
        n, small, large = map(int, sys.argv[2:5])
        for i in range(n + 1):
            name = f"{'small' if i < n else 'large'}-{synth.did(i)}.car"
            with open(os.path.join(sys.argv[5], name), "wb") as f:
                f.write(posts(synth.did(i), small if i < n else large))
        return
    if sys.argv[1:2] == ["--recipes"] and len(sys.argv) == 4:
        for n in range(int(sys.argv[2])):
            path = os.path.join(sys.argv[3], synth.did(n))
            with open(path + ".car", "wb") as f:
                f.write(recipes(n))
            with open(path + ".json", "w", encoding="ascii") as f:
                json.dump({"collections": ["app.bsky.feed.post", "exchange.recipe.recipe"]}, f)
            print(synth.did(n))
        return
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    for name, file in files():
        with open(os.path.join(sys.argv[1], name + ".car"), "wb") as f:
            f.write(file)


if __name__ == "__main__":
    main()
