#!/usr/bin/env python3
"""Writes segment.jss, a segment of an archive, and rows.tsv, what stands in it.

Made from the description of the format by test/network/segment.py, which shares nothing with the extension's reader.
Run it in its directory.  Columns of rows.tsv: block, seq, witnessed_at, indexed_at, kind, did, collection, rkey, rev, payload
(hexadecimal), and what is wrong with the row ("-": nothing).
"""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "../../../network"), os.path.join(HERE, "..")]
sys.dont_write_bytecode = True

import segment  # noqa: E402
from convert import dag_cbor  # noqa: E402
from segment import ACCOUNT, CREATE, CREATE_RESYNC, DELETE, IDENTITY, SYNC, UPDATE, Bounds, Row  # noqa: E402

ALICE = b"did:plc:ewvi7nxzyoun6zhxrhs64oiz"
BOB = b"did:web:bob.example.com"
RECIPE = b"exchange.recipe.recipe"
POST = b"app.bsky.feed.post"
REV = b"3mbzsehb4s22a"
LATER = b"3mbzsehbcs22a"
START = 1_767_225_600_000_000


def record(name):
    return dag_cbor({"$type": "exchange.recipe.recipe", "name": name})


def message(did, **more):
    return dag_cbor({"seq": 7, "did": did.decode(), "time": "2026-01-01T00:00:00.000Z", **more})


def long_did(n):
    return b"did:web:" + b"a" * (n - 8)


# each row with what is wrong with it; sequence numbers have gaps
BLOCKS = [
    [
        (Row(0, 0, CREATE, ALICE, RECIPE, b"3mbzsehb4s22b", REV, record("Soup")), "-"),
        (Row(0, 0, IDENTITY, ALICE, payload=message(ALICE, handle="alice.example.com")), "-"),
        (Row(0, 0, UPDATE, ALICE, RECIPE, b"3mbzsehb4s22b", LATER, record("Onion soup"), indexed_at=1), "-"),
        (Row(0, 0, ACCOUNT, BOB, payload=message(BOB, active=False, status="deactivated")), "-"),
        (Row(0, 0, DELETE, ALICE, POST, b"self", LATER), "-"),
        (Row(0, 0, SYNC, BOB, rev=REV, payload=message(BOB, rev="3mbzsehb4s22a", blocks={"$bytes": ""})), "-"),
        (Row(0, 0, CREATE_RESYNC, BOB, POST, b"~a:b.c_d-e", REV, record("Bread")), "-"),
        (Row(0, 0, CREATE, long_did(2048), b"a" * 63 + b".example." + b"b" * 63, b"r" * 255, REV, record("")), "-"),
    ],
    [],  # compaction has removed all rows
    [
        (Row(0, 0, CREATE, b"", RECIPE, b"a", REV, record("a")), "did"),
        (Row(0, 0, CREATE, long_did(2049), RECIPE, b"a", REV, record("a")), "did"),
        (Row(0, 0, CREATE, ALICE, b"Exchange.Recipe.recipe", b"a", REV, record("a")), "path"),
        (Row(0, 0, CREATE, ALICE, b"recipe", b"a", REV, record("a")), "path"),
        (Row(0, 0, CREATE, ALICE, RECIPE, b"..", REV, record("a")), "path"),
        (Row(0, 0, CREATE, ALICE, RECIPE, b"a/b", REV, record("a")), "path"),
        (Row(0, 0, CREATE, ALICE, RECIPE, b"", REV, record("a")), "path"),
        (Row(0, 0, UPDATE, ALICE, RECIPE, b"a", b"", record("a")), "rev"),
        (Row(0, 0, UPDATE, ALICE, RECIPE, b"a", b"zzzzzzzzzzzzz", record("a")), "rev"),
        (Row(0, 0, DELETE, ALICE, RECIPE, b"a", REV, record("a")), "payload"),
        (Row(0, 0, CREATE, ALICE, RECIPE, b"a", REV, b""), "record"),
        (Row(0, 0, CREATE, ALICE, RECIPE, b"a", REV, dag_cbor([1])), "record"),
        (Row(0, 0, CREATE, ALICE, RECIPE, b"a", REV, dag_cbor({"$type": "a.b.c", "x": 1.5})), "record"),
        (Row(0, 0, CREATE, ALICE, RECIPE, b"a", REV, record("a") + b"\xf6"), "record"),
        (Row(0, 0, CREATE, ALICE, RECIPE, b"a", REV, b"\xbf\xff"), "record"),
        (Row(0, 0, IDENTITY, b"alice.example.com", payload=message(ALICE)), "did"),
        (Row(0, 0, IDENTITY, ALICE, payload=b""), "message"),
        (Row(0, 0, IDENTITY, ALICE, payload=message(BOB)), "message"),
        (Row(0, 0, ACCOUNT, ALICE, payload=message(ALICE)), "message"),
        (Row(0, 0, ACCOUNT, ALICE, payload=message(ALICE, active=True) + b"\xf6"), "message"),
        (Row(0, 0, ACCOUNT, ALICE, payload=dag_cbor("active")), "message"),
        (Row(0, 0, SYNC, ALICE, rev=b"", payload=message(ALICE, rev="3mbzsehb4s22a", blocks={"$bytes": ""})), "rev"),
        (Row(0, 0, SYNC, ALICE, rev=REV, payload=message(ALICE, rev="3mbzsehb4s22a")), "message"),
    ],
]


def main():
    seq = 0
    for number, block in enumerate(BLOCKS):
        for row, _ in block:
            seq += 3
            row.seq = seq + number * 1000
            row.witnessed_at = START + seq
    rows = [[row for row, _ in block] for block in BLOCKS]
    bounds = [segment.bounds_of(some) for some in rows]
    bounds[1] = Bounds(500, 700, START + 25, START + 26)
    with open("segment.jss", "wb") as f:
        f.write(segment.segment_of(rows, bounds))
    with open("rows.tsv", "w", encoding="ascii") as f:
        f.write("block\tseq\twitnessed_at\tindexed_at\tkind\tdid\tcollection\trkey\trev\tpayload\twrong\n")
        for number, block in enumerate(BLOCKS):
            for r, wrong in block:
                texts = [t.decode() or "-" for t in (r.did, r.collection, r.rkey, r.rev)]
                cells = [number, r.seq, r.witnessed_at, r.indexed_at, r.kind, *texts, r.payload.hex() or "-", wrong]
                f.write("\t".join(map(str, cells)) + "\n")


if __name__ == "__main__":
    main()
