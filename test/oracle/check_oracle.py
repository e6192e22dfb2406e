#!/usr/bin/python3
"""Does the oracle follow its rules?  Compares its rows for synth.py's odd stream with rows written by hand; TAP."""

import sys
import tempfile

import exports
import other
import record
import state
import streams
import synth
import wire

count = failed = 0


def equal(got, want, name):
    global count, failed
    count += 1
    if got != want:
        failed += 1
    print(f"{'ok' if got == want else 'not ok'} {count} - {name}")
    if got != want:
        print(f"#      got: {got}\n# expected: {want}")


class Memory(state.State):
    """Takes messages from a list."""

    def run_messages(self, messages):
        for message in messages:
            header, payload = wire.frame(message)
            self.message(payload["seq"], header["t"], payload)
        return self


def rows(repo):
    """path -> (what its revision is, in microseconds; the record, or why it has no JSON)"""
    out = {}
    for (collection, rkey), (_, rev, value) in repo.records.items():
        try:
            value = record.plain(value)
        except record.NoJson as e:
            value = str(e)
        out[f"{collection}/{rkey}"] = (revs[rev], value)
    return out


revs = {synth.tid(n): n for n in range(1000)}
revs[None] = None
odd = list(synth.odd())
st = Memory().run_messages(odd)
a, b, c, d, e, gone, removed, behind = (st.repos[synth.did(n)] for n in range(1, 9))
p = "app.bsky.feed.post/"

equal(rows(a), {p + "1": (11, synth.post("one, changed"))}, "old commits are ignored, update and delete are done")
equal((revs[a.rev], a.handle), (14, "a.test"), "#sync moves rev; an #identity without handle keeps it")

bad = ["float", "uint64", "negative", "no-type", "empty-type", "null-type", "list", "blob", "blob-cbor"]
bad += ["order", "long-form", "trailing", "twice", "utf8", "cut", "large"]
classes = ["float", "integer", "integer", "type", "type", "type", "type", "blob", "blob"]
classes += ["cbor"] * 6 + ["size"]
equal(
    [(path, kind) for seq, path, kind in st.dead if path],
    [(p + name, kind) for name, kind in zip(bad, classes)] + [(p + "beside-cut", "type")],
    "each invalid record is dead, with its class",
)
equal(
    rows(b),
    {p + "beside-" + name: (100 + i, synth.post(name)) for i, name in enumerate(bad)},
    "and those beside it are stored; a record keeps its value when an update is not valid",
)
equal(revs[b.rev], 150, "a commit with an invalid record moves the revision")

x = "com.example.x/"
link = "bafkreihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyku"  # of no bytes, raw
blob = {"$type": "blob", "mimeType": "a/b", "size": 0, "ref": {"$link": link}}
equal(
    rows(c),
    {
        x + "int64": (200, {"$type": "x", "min": -9223372036854775808, "max": 9223372036854775807}),
        x + "empty-key": (201, {"$type": "x", "": {"": []}}),
        x + "nul-text": (202, "nul in a text"),
        x + "nul-key": (203, "nul in a key"),
        x + "map-link": (204, "ambiguous map"),
        x + "map-bytes": (205, "ambiguous map"),
        x + "link-bytes": (206, {"$type": "x", "l": {"$link": link}, "b": {"$bytes": "AP8"}, "e": {"$bytes": ""}}),
        x + "blob": (207, {"$type": "x", "b": blob}),
        x + "size": (208, {"$type": "x", "t": "x" * 999_984}),
    },
    "valid records, up to the limits",
)
equal(len(synth.encode({"$type": "x", "t": "x" * 999_984})), 1_000_000, "the largest has 1,000,000 bytes")

equal(
    [kind for seq, path, kind in st.dead if not path],
    ["operations", "hash", "missing", "commit", "commit", "operations", "operations", "commit"] + ["path"] * 3,
    "rejected commits",
)
equal((rows(d), revs[d.rev]), ({p + "stored": (250, synth.post("stored after all"))}, 250), "move nothing")

equal(
    rows(e),
    {p + "1": (400, synth.post("stays")), p + "3": (403, synth.post("active again"))},
    "commits while an account is not active are ignored, its records stay",
)
equal((gone.active, gone.status, gone.rev), (True, None, None), "an account may come back from deletion")
equal((rows(removed), removed.status, revs[removed.rev]), ({}, "deleted", 500), "deletion removes records, not the revision")
equal((behind.active, behind.status), (True, "desynchronized"), "active accounts can have a status")

before = [(did, r.rev, r.active, r.status, r.handle, dict(r.records)) for did, r in st.repos.items()]
st.run_messages(odd)
after = [(did, r.rev, r.active, r.status, r.handle, dict(r.records)) for did, r in st.repos.items()]
equal(after, before, "replaying it all changes nothing")

equal(state.State(["app.bsky.*"]).wanted("did:x", "app.bsky.feed.post"), True, "collection patterns")
equal(state.State(["app.bsky.*"]).wanted("did:x", "app.bskyx.y"), False, "end at a dot")
equal(
    [state.State(None, ["did:x"], ["create"]).wanted(*x) for x in
     (("did:x", "a.b.c", "create"), ("did:y", "a.b.c", "create"), ("did:x", "a.b.c", "delete"))],
    [True, False, False],
    "DIDs and actions",
)
with tempfile.NamedTemporaryFile() as f:
    synth.write(odd, f)
    f.flush()
    changed = state.State([], changes={3: ["app.bsky.*"], 4: []})
    changed.run(f.name)
    equal(rows(changed.repos[synth.did(1)]), {p + "1": (11, synth.post("one, changed"))}, "filters that change after an event")
    equal([op[:2] for op in changed.operations], [(4, "update"), (4, "delete")], "the operations that pass them")

# --- labels and messages ---

with tempfile.NamedTemporaryFile() as f:
    synth.write(streams.labels(), f)
    f.flush()
    labels = other.Other()
    labels.run(f.name)
post, src = streams.POST, streams.SRC
equal(labels.labels[src, post, "old-last"][6], 2, "a label with an older cts does not win")
equal(labels.labels[src, post, "new-last"][6], 5, "a newer one does")
equal(labels.labels[src, post, "equal"][6], 7, "nor does the first of equal ones")
equal(labels.labels[src, post, "zone"][1], False, "times are compared in UTC")
equal(labels.labels[src, post, "fraction"][1], False, "to the microsecond")
now = other.micros("2026-06-01T00:00:00Z")
current = {row[2] for row in labels.label_rows(now) if row[:2] == (src, post)}
equal([x in current for x in ("expired", "expired-twice", "not-expired", "taken-back", "put-again", "late-negation")],
      [False, False, True, False, True, True], "those that hold")
equal(len(labels.dead), len(streams.BAD) + 2, "each bad label is bad alone, and two messages")
equal([m[2] is None for m in labels.messages[:3]], [False] * 3, "messages of labels have JSON")
# --- exports ---

posts = {f"app.bsky.feed.post/{n:05}": synth.post(str(n)) for n in range(300)}
file = exports.make(synth.did(1), synth.tid(7), posts)
whole = exports.Export(file, synth.did(1))
equal({path: wire.decode(block) for path, (_, block) in whole.records.items()}, posts, "an export gives its records")
equal(whole.rev, synth.tid(7), "and its revision")


def refused(file, who=None):
    try:
        exports.Export(file, who)
    except wire.Malformed as e:
        return str(e)


equal(refused(exports.make(synth.did(1), synth.tid(7), {})), None, "so does one without records")
equal(refused(file, synth.did(2)), "did", "R-42: another account's")
equal(refused(file[:-1]), "car", "R-40: cut in a block")
equal(refused(file[:-1] + bytes([file[-1] ^ 1])), "hash", "R-41: a byte is wrong")
roots, blocks = wire.car(file)
equal({refused(synth.car(roots[0], [block for block in blocks.items() if block[0] != key])) for key in blocks},
      {"missing"}, "R-43: each block is needed")
equal(refused(synth.car(roots[0], [*blocks.items(), *blocks.items(), (synth.cid(b"x"), b"x")])), None,
      "R-40: blocks that come twice, or that nobody needs")


def with_tree(*nodes):
    """An export whose tree is these nodes, the top one last."""
    signed = wire.decode(blocks[roots[0]])
    signed["data"] = synth.link(synth.cid(nodes[-1]))
    top = synth.encode(signed)
    return synth.car(synth.cid(top), [(synth.cid(b), b) for b in (top, b"", *nodes)])


def entry(key, shared=0, below=None):
    return {"k": key, "p": shared, "v": synth.link(synth.cid(b"")), "t": below}


low = [key for key in (b"a%d" % n for n in range(50)) if synth.layer(key) == 0][:2]
high = next(key for key in (b"b%d" % n for n in range(50)) if synth.layer(key) == 1)
leaf = synth.encode({"l": None, "e": [entry(low[0])]})
equal(refused(with_tree(leaf, synth.encode({"l": synth.link(synth.cid(leaf)), "e": [entry(high)]}))), None, "a tree by hand")
for name, *nodes in (
    ("order", synth.encode({"l": None, "e": [entry(low[1]), entry(low[0])]})),
    ("prefix", synth.encode({"l": None, "e": [entry(low[0]), entry(low[1])]})),
    ("height", synth.encode({"l": None, "e": [entry(low[0]), entry(high)]})),
    ("layer", leaf, synth.encode({"l": synth.link(synth.cid(leaf)), "e": [entry(low[1], 1)]})),
    ("twice", leaf, synth.encode({"l": synth.link(synth.cid(leaf)), "e": [entry(high, 0, synth.link(synth.cid(leaf)))]})),
    ("empty top", leaf, synth.encode({"l": synth.link(synth.cid(leaf)), "e": []})),
):
    equal(refused(with_tree(*nodes)), "tree", f"R-44: {name}")

equal(list(synth.posts(3)), list(synth.posts(3)), "synth.py repeats exactly")
sizes = [len(m) for m in synth.posts(300)]
equal(5000 < sum(sizes) / 300 < 6000, True, "its posts have the size of production frames")
print(f"1..{count}")
sys.exit(1 if failed else 0)
