#!/usr/bin/python3
"""A capture of messages whose frames are good and whose fields are not (E-50).

    violations.py FILE      writes the capture, and prints the names of the violations

The messages with an odd seq are commits with one post each, all of one repository; the
ones with an even seq, in the order of the names, violate the schema of their message.
"""

import sys

import synth

TIME = "2026-01-01T00:00:00.000Z"
DID = synth.did(1)
LINK = synth.link(synth.cid(b""))
COMMIT = {"repo": DID, "rev": synth.tid(1), "since": None, "time": TIME, "commit": LINK, "blocks": b"", "ops": []}
SYNC = {"did": DID, "rev": synth.tid(1), "time": TIME, "blocks": b""}
ACCOUNT = {"did": DID, "time": TIME, "active": True}
IDENTITY = {"did": DID, "time": TIME}
OP = {"action": "create", "path": "app.bsky.feed.post/x", "cid": LINK}


def op(**changes):
    return {**COMMIT, "ops": [{**OP, **changes}]}


def without(payload, key):
    return {k: v for k, v in payload.items() if k != key}


VIOLATIONS = [
    *((f"{t} without {key}", t, without(payload, key))
      for t, payload in (("#commit", COMMIT), ("#sync", SYNC), ("#account", ACCOUNT), ("#identity", IDENTITY))
      for key in payload if key != "since"),
    ("bad DID", "#commit", {**COMMIT, "repo": "did:plc"}),
    ("DID is an integer", "#sync", {**SYNC, "did": 7}),
    ("DID is null", "#identity", {**IDENTITY, "did": None}),
    ("DID is a handle", "#account", {**ACCOUNT, "did": "a.test"}),
    ("bad rev", "#commit", {**COMMIT, "rev": "zzzzzzzzzzzzz"}),
    ("bad since", "#commit", {**COMMIT, "since": "x"}),
    ("commit is a text", "#commit", {**COMMIT, "commit": "x"}),
    ("commit is raw bytes", "#commit", {**COMMIT, "commit": synth.link(synth.cid(b"", 0x55))}),
    ("blocks is a text", "#commit", {**COMMIT, "blocks": "x"}),
    ("blocks is no CAR file", "#commit", {**COMMIT, "blocks": b"x"}),
    ("blocks is too large", "#commit", {**COMMIT, "blocks": bytes(2_000_001)}),
    ("blocks of #sync is too large", "#sync", {**SYNC, "blocks": bytes(10_001)}),
    ("ops is a map", "#commit", {**COMMIT, "ops": {}}),
    ("201 operations", "#commit", {**COMMIT, "ops": [{**OP, "path": f"{OP['path']}{i}"} for i in range(201)]}),
    ("operation is a text", "#commit", {**COMMIT, "ops": ["x"]}),
    ("unknown action", "#commit", op(action="merge")),
    ("path is null", "#commit", op(path=None)),
    ("path with a bad collection", "#commit", op(path="post/x")),
    ("path with a bad record key", "#commit", op(path="app.bsky.feed.post/a b")),
    ("cid is a text", "#commit", op(cid="x")),
    ("active is a text", "#account", {**ACCOUNT, "active": "true"}),
    ("status is an integer", "#account", {**ACCOUNT, "active": False, "status": 1}),
    ("status with U+0000", "#account", {**ACCOUNT, "active": False, "status": "a\0b"}),
    ("handle is an integer", "#identity", {**IDENTITY, "handle": 1}),
    ("handle without a dot", "#identity", {**IDENTITY, "handle": "localhost"}),
]


def main():
    stream = synth.Stream()
    with open(sys.argv[1], "wb") as f:
        for i, (name, kind, payload) in enumerate(VIOLATIONS):
            path = f"app.bsky.feed.post/{i}"
            commit = stream.commit(DID, synth.tid(i + 10), [("create", path, synth.post(name))])
            synth.write([commit, stream.message(kind, payload)], f)
            print(name)


if __name__ == "__main__":
    main()
