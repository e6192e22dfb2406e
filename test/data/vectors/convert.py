#!/usr/bin/env python3
"""JSON vectors to tables that a test in C can read: derived/*.tsv, columns named in the first line.

The encoder of DAG-CBOR in it is not the extension's, so the tables say what ought to come out.
Run it in its directory when a vector file has changed.
"""

import base64
import json

CHARS = "abcdefghijklmnopqrstuvwxyz234567"


def head(major, number):
    if number < 24:
        return bytes([major << 5 | number])
    for info, size in ((24, 1), (25, 2), (26, 4), (27, 8)):
        if number < 256**size:
            return bytes([major << 5 | info]) + number.to_bytes(size, "big")
    raise ValueError(number)


def cid_bytes(text):
    bits = "".join(f"{CHARS.index(c):05b}" for c in text[1:])
    return bytes(int(bits[i : i + 8], 2) for i in range(0, len(bits) - 7, 8))


def dag_cbor(value):
    """Canonical bytes; floats as they are, which the data model does not have."""
    if isinstance(value, bool) or value is None:
        return bytes([{False: 0xF4, True: 0xF5, None: 0xF6}[value]])
    if isinstance(value, int):
        return head(0, value) if value >= 0 else head(1, -1 - value)
    if isinstance(value, float):
        import struct

        return dag_cbor(int(value)) if value == int(value) else b"\xfb" + struct.pack(">d", value)
    if isinstance(value, str):
        text = value.encode()
        return head(3, len(text)) + text
    if isinstance(value, list):
        return head(4, len(value)) + b"".join(map(dag_cbor, value))
    if set(value) == {"$link"}:
        return b"\xd8\x2a" + head(2, 37) + b"\0" + cid_bytes(value["$link"])
    if set(value) == {"$bytes"}:
        data = base64.b64decode(value["$bytes"] + "=" * (-len(value["$bytes"]) % 4))
        return head(2, len(data)) + data
    pairs = sorted((len(k.encode()), k.encode(), v) for k, v in value.items())
    return head(5, len(pairs)) + b"".join(head(3, n) + k + dag_cbor(v) for n, k, v in pairs)


def load(path):
    with open(path, encoding="utf-8") as f:
        return json.load(f)


def table(name, columns, rows):
    with open(f"derived/{name}.tsv", "w", encoding="utf-8") as f:
        for row in [columns, *rows]:
            f.write("\t".join(row) + "\n")


def records(verdict, path):
    """Values that are objects, each made into a record; those that JSON alone can spoil are left out."""
    for case in load(path):
        value = case["json"]
        if not isinstance(value, dict):
            yield verdict, dag_cbor(value).hex(), case["note"]
            continue
        try:
            if case["note"].startswith(("bytes with", "link with")):
                continue
            yield verdict, dag_cbor({"$type": "com.example.record", **value}).hex(), case["note"]
        except ValueError:
            raise SystemExit(case["note"]) from None


def main():
    table(
        "frames",
        ["verdict", "hex", "name"],
        # a depth bomb is a test's to build: its 100 kB are the same two bytes
        ([f["verdict"], f["hex"] or "-", f["name"]] for f in load("derived/frames.json") if len(f["hex"]) < 10000),
    )
    table(
        "data_model",
        ["cid", "hex"],
        (
            [f["cid"], base64.b64decode(f["cbor_base64"] + "=" * (-len(f["cbor_base64"]) % 4)).hex()]
            for f in load("interop/data-model/data-model-fixtures.json")
        ),
    )
    table(
        "records",
        ["verdict", "hex", "name"],
        [
            *records("valid", "interop/data-model/data-model-valid.json"),
            *records("invalid", "interop/data-model/data-model-invalid.json"),
        ],
    )
    table(
        "mst_heights",
        ["height", "key"],
        ([str(k["height"]), k["key"] or "-"] for k in load("interop/mst/key_heights.json")),
    )
    table(
        "commit_proofs",
        ["name", "value", "before", "after", "keys", "adds", "dels", "proof"],
        (
            [
                p["comment"], p["leafValue"], p["rootBeforeCommit"], p["rootAfterCommit"],
                *(" ".join(p[k]) or "-" for k in ("keys", "adds", "dels", "blocksInProof")),
            ]
            for p in load("interop/firehose/commit-proof-fixtures.json")
        ),
    )


if __name__ == "__main__":
    main()
