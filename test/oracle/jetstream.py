#!/usr/bin/python3
"""Turns a capture of subscribeRepos into the messages of a Jetstream: one text for each operation.

    jetstream.py v1 CAPTURE [--spread MICROSECONDS] [--ties PERCENT] [--back MICROSECONDS] [--seed N] [--cursor] > FILE
    jetstream.py v2 CAPTURE [--first SEQ] [--step N] [--bare] [--as-is] > FILE
    jetstream.py lies|broken v1|v2 DID [--first SEQ] > FILE

v1: as /subscribe sends them.  time_us is made from the time of the frame, and increases (--spread: by so much at least); with --ties so many
    percent have the time of the text before, with --back each is up to so much earlier.  An account's never
    go back.  With --cursor each has its position, as newer servers send.  No #sync.
v2: as network.bsky.jetstream.subscribeEvents sends them.  seq counts up, by N.  After #sync come the account's records
    as creates, of that revision; records that no message has named are unknown here.  A #sync that is not
    newer than the repository is left out, as it breaks nothing.  With --bare each #sync is as the server makes
    it when it has fetched the repository again by itself: without blocks.  With --as-is the capture has the records after a #sync.
lies, broken: texts that no server should send, each with a different fault, of an account without other events.

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

    def __init__(self, spread=1, ties=0, back=0, seed=1):
        self.spread = spread
        self.ties = ties
        self.back = back
        self.random = random.Random(seed)
        self.now = 0
        self.last = {}  # of each account

    def of(self, did, sent):
        if self.now == 0 or self.random.random() * 100 >= self.ties:
            self.now = max(self.now + self.spread, microseconds(sent))
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
    def __init__(self, first=1, step=1, bare=False, as_is=False):
        self.clock = Clock()
        self.step = step
        self.bare = bare
        self.as_is = as_is
        self.seq = first - step

    def message(self, did, sent, kind, body):
        self.seq += self.step
        head = {"$type": f"{NSID}#{kind}", "seq": self.seq, "did": did, "time": rfc3339(self.clock.of(did, sent))}
        return text({"$type": "message", "payload": {**head, **body}})

    def commit(self, did, sent, body):
        return self.message(did, sent, "commit", body)

    def wrapped(self, did, sent, kind, body):
        if self.bare and kind == "sync":
            body = {**body, "seq": 0, "blocks": b""}
        yield self.message(did, sent, kind, {kind: plain(body)})


def operations(rev, ops, blocks):
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


class Repository:
    """What a Jetstream knows of one."""

    def __init__(self):
        self.rev = ""
        self.active = True
        self.records = {}  # (collection, rkey) -> body of a create

    def moves(self, payload):
        if not self.active or payload["rev"] <= self.rev:
            return False
        self.rev = payload["rev"]
        return True

    def operation(self, body):
        path = body["collection"], body["rkey"]
        self.records.pop(path, None)
        if body["operation"] != "delete":
            self.records[path] = {**body, "operation": "create"}

    def account(self, payload):
        self.active = payload["active"]
        if payload.get("status") == "deleted":
            self.records.clear()


def well_formed(kind, payload, did):
    """The blocks of a #commit or #sync; wire.Malformed."""
    reader = state.State()
    blocks, root, _ = reader.signed(payload, did)
    if kind == "commit":
        if root != wire.cid(payload["commit"]):
            raise wire.Malformed("commit")
        reader.check_operations(payload["ops"], blocks)
    return blocks


def convert(capture, out):
    repositories = {}
    for message in wire.messages(capture):
        header, payload = wire.frame(message)
        if header.get("op") != 1 or header["t"] not in ("#commit", "#sync", "#account", "#identity"):
            continue
        kind = header["t"][1:]
        did = payload["repo"] if kind == "commit" else payload["did"]
        sent = payload["time"]
        repository = repositories.setdefault(did, Repository())
        try:
            blocks = well_formed(kind, payload, did) if kind in ("commit", "sync") else None
        except wire.Malformed:
            continue
        if kind == "commit":
            moved = repository.moves(payload)
            for body in operations(payload["rev"], payload["ops"], blocks):
                if moved:
                    repository.operation(body)
                yield out.commit(did, sent, body)
        elif kind == "sync":
            if isinstance(out, V2) and out.as_is:
                yield from out.wrapped(did, sent, kind, payload)
            elif isinstance(out, V2) and repository.moves(payload):
                yield from out.wrapped(did, sent, kind, payload)
                for body in repository.records.values():
                    yield out.commit(did, sent, {**body, "rev": payload["rev"]})
        else:
            yield from out.wrapped(did, sent, kind, payload)
            if kind == "account":
                repository.account(payload)


SENT = "2024-01-01T00:00:00.000Z"  # when the simulator's captures begin
LIE = {"$type": "org.example.lie", "text": "a lie"}


class Liar:
    """Texts of one account, which is nobody else's; each is of a newer revision."""

    def __init__(self, version, did, first):
        self.out = V1(Clock()) if version == "v1" else V2(first)
        self.did = did
        self.n = 0

    def commit(self, record=LIE, cid=True, **changes):
        self.n += 1
        body = {
            "rev": synth.tid(self.n),
            "operation": "create",
            "collection": "org.example.lie",
            "rkey": f"lie{self.n}",
            "cid": wire.cid_text(synth.cid(cbor2.dumps(record, canonical=True))) if cid is True else cid,
            "record": plain(record),
            **changes,
        }
        body = {key: value for key, value in body.items() if value is not None}
        return self.out.commit(self.did, SENT, body)


def lies(liar):
    """Texts, but what they say cannot be: each must become a letter, and no more than that: whoever has an account
    can write such records.  No record is stored.
    """
    commit = liar.commit
    lie = b'"a lie"'
    yield commit(cid=wire.cid_text(synth.cid(b"another")))
    yield commit(cid="bafy")
    yield commit(cid=7)
    yield commit(cid=None)
    yield commit(record="a text")
    yield commit(record=[LIE])
    yield commit(record={"text": "no type"})
    yield commit(record={**LIE, "n": 1.5})
    yield commit(record={**LIE, "$type": ""})
    yield commit(record={**LIE, "blob": {"$type": "blob", "size": -1}})
    yield commit(operation="replace")
    yield commit(operation=None)
    yield commit(operation=7)
    yield commit(rev="not a tid")
    yield commit(rev=None)
    yield commit(collection="no nsid")
    yield commit(collection=None)
    yield commit(rkey="..")
    yield commit(rkey="a/b")
    yield commit(rkey=None)
    yield commit().replace(b"a lie", b"a \\ud800 lie")
    for value in (b"1e400", b"18446744073709551616", b"1" * 100_000, b'{"$link":"no cid"}', b'{"$bytes":"***"}'):
        yield commit().replace(lie, value)
    yield commit().replace(lie, b"[" * 100_000 + b"]" * 100_000)
    yield commit().replace(lie, b'{"a":' * 100_000 + b"1" + b"}" * 100_000)
    # no JSON, in the record alone
    for value in (b'"a \\x lie"', b'"a \n lie"', b"01"):
        yield commit().replace(lie, value)
    yield commit().replace(b'"record":{', b'"record":{"text":"twice",')
    yield commit().replace(b'"did":', b'"did":"did:example:another","did":', 1)


def broken(liar):
    """No JSON, or no object: the connection is dropped, and the text kept."""
    good = liar.commit()
    yield good[:-1]
    yield good + b"}"
    yield good + good
    yield b""
    yield b"{"
    yield b"null"
    yield b"[]"
    yield b'"text"'
    yield b"not JSON"
    yield b"\xef\xbb\xbf" + good


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    kinds = parser.add_subparsers(dest="kind", required=True)
    v1, v2 = (kinds.add_parser(name) for name in ("v1", "v2"))
    for each in (v1, v2):
        each.add_argument("capture")
    v1.add_argument("--spread", type=int, default=1)
    v1.add_argument("--ties", type=float, default=0)
    v1.add_argument("--back", type=int, default=0)
    v1.add_argument("--seed", type=int, default=1)
    v1.add_argument("--cursor", action="store_true")
    v2.add_argument("--first", type=int, default=1)
    v2.add_argument("--step", type=int, default=1)
    v2.add_argument("--bare", action="store_true")
    v2.add_argument("--as-is", action="store_true")
    for name in ("lies", "broken"):
        false = kinds.add_parser(name)
        false.add_argument("version", choices=("v1", "v2"))
        false.add_argument("did")
        false.add_argument("--first", type=int, default=1)
    args = parser.parse_args()
    if args.kind in ("lies", "broken"):
        liar = Liar(args.version, args.did, args.first)
        texts = (lies if args.kind == "lies" else broken)(liar)
    elif args.kind == "v1":
        texts = convert(args.capture, V1(Clock(args.spread, args.ties, args.back, args.seed), args.cursor))
    else:
        texts = convert(args.capture, V2(args.first, args.step, args.bare, args.as_is))
    for each in texts:
        sys.stdout.buffer.write(struct.pack(">I", len(each)) + each)


if __name__ == "__main__":
    main()
