#!/usr/bin/python3
"""Prints the contents of a capture, message by message, without applying any rule.

    history.py CAPTURE

Tab-separated lines in the order of the stream, with COPY's escapes.  A message is
    seq, #type, did, rev, commit, data, active, status, handle, prevData, since
and each operation of a commit, after it,
    seq, action, did, rev, collection, rkey, cid, JSON
"""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "oracle"))

import expect  # noqa: E402
import record  # noqa: E402
import state  # noqa: E402
import wire  # noqa: E402


class Reader(state.State):
    """Only what reads a message; nothing is kept."""

    def rows(self, kind, payload):
        did = payload["repo" if kind == "#commit" else "did"]
        rev = commit = data = None
        blocks = {}
        if kind in ("#commit", "#sync"):
            blocks, root, tree = self.signed(payload, did)
            rev, commit, data = payload["rev"], wire.cid_text(root), wire.cid_text(tree)
        prev = payload.get("prevData")
        prev = prev and wire.cid_text(wire.cid(prev))
        yield (kind, did, rev, commit, data,
               payload.get("active"), payload.get("status"), payload.get("handle"), prev, payload.get("since"))
        for op in payload.get("ops", []):
            collection, _, rkey = op["path"].partition("/")
            cid = json = None
            if op["cid"] is not None:
                block = wire.cid(op["cid"])
                cid, json = wire.cid_text(block), expect.json_or_none(record.check(blocks[block]))
            yield op["action"], did, rev, collection, rkey, cid, json


def main():
    sys.stdout.reconfigure(encoding="utf-8", newline="\n")
    reader = Reader()
    for message in wire.messages(sys.argv[1]):
        header, payload = wire.frame(message)
        for row in reader.rows(header["t"], payload):
            print("\t".join(map(expect.field, (payload["seq"], *row))))


if __name__ == "__main__":
    main()
