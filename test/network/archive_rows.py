#!/usr/bin/python3
"""The events of a capture as the rows of a Jetstream's archive, for archive.py: archive_rows.py CAPTURE > ROWS

Each line is a JSON array: number, time in microseconds, kind, DID, collection, record key, revision, payload (base64), time that an
operator has set.  An operation whose record is not in the message's blocks, or whose collection or key is longer than 255
bytes, becomes no row, as at a Jetstream.
"""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "../oracle")]
sys.dont_write_bytecode = True

import cbor2  # noqa: E402
import wire  # noqa: E402
from archive import line_of  # noqa: E402
from segment import ACCOUNT, CREATE, DELETE, IDENTITY, SYNC, UPDATE, Row  # noqa: E402

START = 1_767_225_660_000_000  # a minute after the times that steps.py writes: an archive sees events late
ACTIONS = {"create": CREATE, "update": UPDATE, "delete": DELETE}
MARKERS = {"#identity": IDENTITY, "#account": ACCOUNT, "#sync": SYNC}


def rows_of(message):
    """Rows without numbers and times."""
    header, payload = wire.frame(message)
    kind = header.get("t")
    if kind in MARKERS:
        yield Row(0, 0, MARKERS[kind], payload["did"].encode(), rev=payload.get("rev", "").encode(), payload=cbor2.dumps(payload, canonical=True))
    if kind != "#commit":
        return
    blocks = wire.car(payload["blocks"])[1]
    for op in payload["ops"]:
        collection, rkey = (part.encode() for part in op["path"].split("/", 1))
        record = b"" if op["action"] == "delete" else blocks.get(bytes(op["cid"].value)[1:])
        if record is not None and len(collection) < 256 and len(rkey) < 256:
            yield Row(0, 0, ACTIONS[op["action"]], payload["repo"].encode(), collection, rkey, payload["rev"].encode(), record)


def main():
    seq = 0
    for message in wire.messages(sys.argv[1]):
        for row in rows_of(message):
            seq += 1
            row.seq, row.witnessed_at = seq, START + 1000 * seq
            print(line_of(row))


if __name__ == "__main__":
    main()
