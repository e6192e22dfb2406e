#!/usr/bin/python3
"""Turns a capture of subscribeRepos into what Jetstream makes of it: one text for each operation.

    jetstream.py v1 CAPTURE [--ties PERCENT] [--back MICROSECONDS] [--seed N] [--cursor] > FILE
    jetstream.py v2 CAPTURE [--first SEQ] > FILE
    jetstream.py lies v1|v2 DID > FILE

v1: as /subscribe sends them.  time_us is made from the time of the frame, and increases; with --ties so many
    percent have the time of the text before, with --back each is up to so much earlier.  An account's never
    go back.  With --cursor each has its position, as newer servers send.  No #sync.
v2: as network.bsky.jetstream.subscribeEvents sends them.  seq counts up.  After #sync come the account's records
    as creates, of that revision; those that no message has named are not known here.
lies: texts that no server should send, each with a fault of its own, of one account that is nobody else's.

The output is a capture file of texts.  A frame that is not well-formed, or an operation of one, gives
nothing: a Jetstream drops it.  The same arguments give the same bytes.
"""

import argparse
import base64
import datetime
import json
import math
import random
import struct
import sys

import cbor2

import state
import synth
import wire

NSID = "network.bsky.jetstream.subscribeEvents"
BLOB = ("$type", "ref", "mimeType", "size")
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)


class NoJson(Exception):
    """JSON cannot hold it."""


def microseconds(text):
    try:
        time = datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        return 0
    return (time - EPOCH) // datetime.timedelta(microseconds=1)


def rfc3339(us):
    return (EPOCH + datetime.timedelta(microseconds=us)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def plain(value):
    """A DAG-CBOR value in JSON's own types; keys in alphabetical order, but of blobs, as Go's encoder has them."""
    if isinstance(value, cbor2.CBORTag):
        return {"$link": wire.cid_text(wire.cid(value))}
    if isinstance(value, bytes):
        return {"$bytes": base64.b64encode(value).decode().rstrip("=")}
    if isinstance(value, float) and not math.isfinite(value):
        raise NoJson
    if isinstance(value, list):
        return [plain(member) for member in value]
    if isinstance(value, dict):
        blob = value.get("$type") == "blob" and value.keys() == set(BLOB)
        return {key: plain(value[key]) for key in (BLOB if blob else sorted(value))}
    return value


def text(value):
    """As Go writes it: what would mean something in HTML, or in JavaScript, is escaped."""
    written = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        written = written.replace(character, f"\\u{ord(character):04x}")
    return written.encode()


def is_deep(value, depth=128):
    """More levels than a Jetstream's decoder goes down."""
    if depth == 0:
        return True
    members = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return any(is_deep(member, depth - 1) for member in members)


class Clock:
    """When the server saw each event."""

    def __init__(self, ties=0, back=0, seed=1):
        self.ties = ties
        self.back = back
        self.random = random.Random(seed)
        self.now = 0
        self.last = {}  # of each account

    def of(self, did, sent):
        if not (self.ties and self.random.random() * 100 < self.ties):
            self.now = max(self.now + 1, microseconds(sent))
        seen = max(self.now - self.random.randrange(self.back + 1), self.last.get(did, 0))
        self.last[did] = seen
        return seen


class V1:
    def __init__(self, clock, numbered=False):
        self.clock = clock
        self.numbered = numbered
        self.n = 0

    def event(self, did, sent, kind, body):
        self.n += 1
        number = {"cursor": self.n} if self.numbered else {}
        return text({"did": did, "time_us": self.clock.of(did, sent), **number, "kind": kind, kind: body})

    def commit(self, did, sent, body):
        body = {key: body[key] for key in ("rev", "operation", "collection", "rkey", "record", "cid") if key in body}
        return self.event(did, sent, "commit", body)

    def wrapped(self, did, sent, kind, body):
        """Of these two it has only some members, in alphabetical order."""
        names = {"identity": ("did", "handle", "seq", "time"), "account": ("active", "did", "seq", "status", "time")}
        if kind in names:
            yield self.event(did, sent, kind, {key: body[key] for key in names[kind] if key in body})


class V2:
    def __init__(self, first=1):
        self.clock = Clock()
        self.seq = first - 1

    def message(self, did, sent, kind, body):
        self.seq += 1
        head = {"$type": f"{NSID}#{kind}", "seq": self.seq, "did": did, "time": rfc3339(self.clock.of(did, sent))}
        return text({"$type": "message", "payload": {**head, **body}})

    def commit(self, did, sent, body):
        return self.message(did, sent, "commit", body)

    def wrapped(self, did, sent, kind, body):
        yield self.message(did, sent, kind, {kind: plain(body)})


def operations(did, rev, ops, blocks):
    """(body of a #commit) for each operation that JSON can hold."""
    for op in ops:
        collection, _, rkey = op["path"].partition("/")
        body = {"rev": rev, "operation": op["action"], "collection": collection, "rkey": rkey}
        if op["cid"] is not None:
            key = wire.cid(op["cid"])
            try:
                value = wire.decode(blocks[key], strict=False)
                if is_deep(value):
                    continue
                body["cid"], body["record"] = wire.cid_text(key), plain(value)
                text(body)
            except (wire.Malformed, NoJson, UnicodeEncodeError):
                continue
        yield body


def convert(capture, out):
    seen = state.State()
    records = {}  # did -> {(collection, rkey): body of a create}
    for message in wire.messages(capture):
        header, payload = wire.frame(message)
        if header.get("op") != 1 or header["t"] not in ("#commit", "#sync", "#account", "#identity"):
            continue
        kind = header["t"][1:]
        did = payload["repo"] if kind == "commit" else payload["did"]
        sent = payload["time"]
        try:
            if kind in ("commit", "sync"):
                blocks, root, _ = seen.signed(payload, did)
            if kind == "commit":
                if root != wire.cid(payload["commit"]):
                    continue
                seen.check_operations(payload["ops"], blocks)
        except wire.Malformed:
            continue
        mine = records.setdefault(did, {})
        if kind == "commit":
            for body in operations(did, payload["rev"], payload["ops"], blocks):
                path = body["collection"], body["rkey"]
                mine.pop(path, None)
                if body["operation"] != "delete":
                    mine[path] = {**body, "operation": "create"}
                yield out.commit(did, sent, body)
            continue
        yield from out.wrapped(did, sent, kind, payload)
        if kind == "account" and payload.get("status") == "deleted":
            mine.clear()
        if kind == "sync" and isinstance(out, V2):
            for body in mine.values():
                yield out.commit(did, sent, {**body, "rev": payload["rev"]})


def lies(version, did):
    """Each must become a dead letter, or be passed over; a record is stored of none."""
    out = V1(Clock()) if version == "v1" else V2(first=1_000_000)
    sent = "2026-01-01T00:00:00.000Z"
    record = {"$type": "org.example.lie", "text": "a lie"}
    block = cbor2.dumps(record, canonical=True)
    n = 0

    def commit(record=record, block=block, **changes):
        nonlocal n
        n += 1
        body = {"rev": synth.tid(n), "operation": "create", "collection": "org.example.lie", "rkey": f"lie{n}"}
        if block is not None:
            body["cid"] = wire.cid_text(synth.cid(block))
            body["record"] = record
        body.update(changes)
        return out.commit(did, sent, {key: value for key, value in body.items() if value is not None})

    yield commit(cid=wire.cid_text(synth.cid(b"another")))
    yield commit(cid="bafy")
    yield commit(cid=7)
    yield commit(record={**record, "text": "another"})
    yield commit(record="a text", block=cbor2.dumps("a text"))
    yield commit(record=[record], block=cbor2.dumps([record], canonical=True))
    yield commit(record={"text": "no type"}, block=cbor2.dumps({"text": "no type"}))
    yield commit(record={**record, "n": 1.5})
    yield commit(record={**record, "n": 2**64})
    yield commit(record={**record, "link": {"$link": "no cid"}})
    yield commit(record={**record, "bytes": {"$bytes": "***"}})
    yield commit(record={**record, "bytes": {"$bytes": 7}})
    yield commit(operation="replace")
    yield commit(operation=None)
    yield commit(rev="not a tid")
    yield commit(rev=None)
    yield commit(collection="no nsid")
    yield commit(rkey="..")
    yield commit(rkey="a/b")
    yield commit(record=None)
    good = commit()
    yield good[:-1]
    yield good + b"}"
    yield good + good
    yield b""
    yield b"{"
    yield b"null"
    yield b"[]"
    yield b'"text"'
    yield b"not JSON"
    yield b"\xff\xfe" + good
    yield good.replace(b"a lie", b"a \xff lie")
    yield good.replace(b"a lie", b"a \\ud800 lie")
    yield good.replace(b"a lie", b"a \\x lie")
    yield good.replace(b"a lie", b"a \n lie")
    yield good.replace(b'"record":{', b'"record":{"text":"twice",')
    yield good.replace(b'"did":', b'"did":"did:example:another","did":', 1)
    yield good.replace(did.encode(), b"not a did")
    yield good.replace(b'"a lie"', b"[" * 100_000 + b"]" * 100_000)
    yield good.replace(b'"a lie"', b'{"a":' * 100_000 + b"1" + b"}" * 100_000)
    yield good.replace(b'"a lie"', b"1" * 100_000)
    yield good.replace(b'"a lie"', b"-0")
    yield good.replace(b'"a lie"', b"1e400")
    yield good.replace(b"commit", b"unknown")


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    kinds = parser.add_subparsers(dest="kind", required=True)
    v1, v2, false = (kinds.add_parser(name) for name in ("v1", "v2", "lies"))
    for each in (v1, v2):
        each.add_argument("capture")
    v1.add_argument("--ties", type=float, default=0)
    v1.add_argument("--back", type=int, default=0)
    v1.add_argument("--seed", type=int, default=1)
    v1.add_argument("--cursor", action="store_true")
    v2.add_argument("--first", type=int, default=1)
    false.add_argument("version", choices=("v1", "v2"))
    false.add_argument("did")
    args = parser.parse_args()
    if args.kind == "lies":
        texts = lies(args.version, args.did)
    elif args.kind == "v1":
        texts = convert(args.capture, V1(Clock(args.ties, args.back, args.seed), args.cursor))
    else:
        texts = convert(args.capture, V2(args.first))
    for each in texts:
        sys.stdout.buffer.write(struct.pack(">I", len(each)) + each)


if __name__ == "__main__":
    main()
