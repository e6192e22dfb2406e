#!/usr/bin/python3
"""Makes the vectors of this directory: examples of the requirements of the drafts (doc/develop/drafts.md).

    make.py             writes the files
    make.py --check     says which files differ from what would be written

Bytes, hashes, trees and signatures are made by the oracle (test/oracle), which shares no code with the extension;
what a text is worth stands here.  test/t/types/015_draft_vectors.pl runs each vector.
"""

import base64
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../../../oracle"))
import cbor2  # noqa: E402
import curves  # noqa: E402
import synth  # noqa: E402
import wire  # noqa: E402

PLC = "did:plc:44ybard66vv44zksje25o7dz"
RECORD = "/com.example.record/3mwp2ezf3fh22"
REPOSITORY = "draft-holmgren-at-repository-03"
URI = "draft-newbold-atp-aturi (September 2026)"


def text(binary):
    return wire.cid_text(binary)


def b64(data):
    return base64.b64encode(data).decode()


def link(binary):
    return {"$link": text(binary)}


# --- AT URIs ---

# The text, the highest level that it reaches (None: invalid), its normal form if another one, and why.
ATURIS = [
    (f"at://{PLC}", "strict", None, "an account"),
    (f"at://{PLC}/com.example.record", "strict", None, "a collection"),
    (f"at://{PLC}{RECORD}", "strict", None, "a record"),
    ("at://did:web:example.com/com.example.record/self", "strict", None, "another method"),
    ("at://alice.example/com.example.record/~home", "strict", None, "a handle"),
    (f"at://{PLC}/com.example.record/...", "strict", None, "three dots are a record key"),
    (f"at://{PLC}/com.example.otherRecordV2/1", "strict", None, "the name of an NSID keeps its case"),
    (f"at://{PLC}/com.example.record/a:b", "lexicon", None, "a colon in the record key"),
    ("at://did:key:z6Mk/com.example.record/1", "lexicon", None, "a method that is not supported"),
    ("at://Alice.Example/com.example.record/1", "lexicon", "at://alice.example/com.example.record/1", "a handle in upper case"),
    (f"at://{PLC}/com.EXAMPLE.record/1", "lexicon", f"at://{PLC}/com.example.record/1", "an NSID's authority in upper case"),
    ("at://computer", "general", None, "one label"),
    ("at://example.com:3000", "general", None, "a port stays part of the authority"),
    (f"at://{PLC}/example/1", "general", None, "no NSID"),
    (f"at://{PLC}/com.example/1", "general", None, "an NSID has three segments"),
    (f"at://{PLC}/123.example.record/1", "general", None, "a digit begins the first segment"),
    (f"at://{PLC}/com.example.bad-record/1", "general", None, "a hyphen in the name"),
    (f"at://{PLC}/com.example.record/..", "general", f"at://{PLC}", "dot segments"),
    (f"at://{PLC}/com.example.record/.", "general", f"at://{PLC}/com.example.record", "dot segments"),
    (f"at://{PLC}/com.example.record/one@two", "general", None, "an @ in the record key"),
    (f"at://{PLC}/com.example.record/%31", "general", f"at://{PLC}/com.example.record/1", "a needless escape"),
    (f"at://{PLC}{RECORD}/more", "general", None, "a third segment"),
    (f"at://{PLC}{RECORD}?key=value", "general", None, "a query"),
    (f"at://{PLC}{RECORD}#/text", "general", None, "a fragment"),
    ("at://did%3Aplc%3A44ybard66vv44zksje25o7dz", "general", f"at://{PLC}", "escaped colons"),
    (f"at://{PLC}/space/com.example.forum/self", "general", None, "a space (proposal 0016)"),
    (f"at://{PLC}/space/com.EXAMPLE.forum/Self/did:web:EXAMPLE.com/com.EXAMPLE.record/1", "general",
     f"at://{PLC}/space/com.example.forum/Self/did:web:example.com/com.example.record/1", "a record in a space (proposal 0016)"),
    (f"at://{PLC}/", None, f"at://{PLC}", "a slash at the end"),
    (f"at://{PLC}{RECORD}/", None, f"at://{PLC}{RECORD}", "a slash at the end"),
    (f"at://{PLC}//com.example.record", None, f"at://{PLC}/com.example.record", "an empty segment"),
    (f"AT://{PLC}", None, f"at://{PLC}", "the scheme in upper case"),
    (f"at://user:pass@{PLC}", None, False, "user information"),
    ("at://", None, False, "no authority"),
    ("at://did:plc:", None, False, "no identifier"),
    ("at://did:plc:abc:", None, False, "a colon at the end"),
    (f"at:///{PLC}", None, False, "a candidate form"),
    (f"at:{PLC}", None, False, "a candidate form"),
    (f"at://{PLC}/a b", None, False, "a space"),
    (f"at://{PLC}/%", None, False, "a broken escape"),
    (f"at://{PLC}#text", None, False, "a fragment that is no JSON Pointer"),
    ("at://" + "a" * 8188, None, False, "more than 8192 bytes"),
    ("at://" + "a" * 8187, "general", None, "8192 bytes"),
]

PASTED = [
    (f"at:///{PLC}{RECORD}", f"at://{PLC}{RECORD}"),
    (f"at:{PLC}{RECORD}", f"at://{PLC}{RECORD}"),
    (f"at://did%3Aplc%3A44ybard66vv44zksje25o7dz{RECORD}", f"at://{PLC}{RECORD}"),
    ("at://did%3aweb%3aexample.com", "at://did:web:example.com"),
    (" AT://Alice.Example/\n", "at://alice.example"),
    (f"at://{PLC}{RECORD}", f"at://{PLC}{RECORD}"),
    ("at:///alice.example", None),
    ("at:alice.example", None),
    ("at://did%253Aplc%253Aabc", None),
    ("at://did%3Aplc%253Aabc", None),
    ("at://did%3Aweb%3Alocalhost%3A3000", None),
    ("at://did:web:localhost%253A3000", None),
    ("at://computer", None),
    (PLC, None),
    ("alice.example", None),
    ("https://bsky.app/profile/alice.example", None),
    ("", None),
]


def aturis():
    for uri, level, normal, why in ATURIS:
        yield {"text": uri, "level": level, "normal": None if normal is False else normal or uri, "why": why}


def pasted():
    return [{"text": given, "uri": uri} for given, uri in PASTED]


# --- identifiers ---

LABEL = "a" * 63
IDENTIFIERS = {
    "did": (
        [PLC, "did:web:example.com", "did:web:localhost%3A3000", "did:key:z6Mk", "did:m:A._:-%20z", "did:m:" + "a" * 2042],
        ["", "did", "did:", "did:plc", "did:plc:", "did:plc:abc:", "DID:plc:abc", "did:PLC:abc", "did:m1:abc", "did::abc", "did:m:a b", "did:m:a%2", "did:m:a/b",
         "did:m:ä", "did:m:" + "a" * 2043],
    ),
    "handle": (
        ["alice.example", "a.b", "1.example", "xn--a-0ia.example", "Alice.Example", "a-b.example", f"{LABEL}.{LABEL}.{LABEL}.{'b' * 61}"],
        ["", "alice", "alice.", ".example", "alice..example", "-a.example", "a-.example", "a.1", "a.1b", "a_b.example", "alice.example.", "ä.example", "@alice.example",
         f"{'a' * 64}.example", f"{LABEL}.{LABEL}.{LABEL}.{'b' * 62}"],
    ),
    "nsid": (
        ["com.example.record", "a.b.c", "com.example.otherRecordV2", "com.ex-ample.record", "com.1.record", "COM.Example.record", f"a.{LABEL}.{LABEL}",
         f"{LABEL}.{LABEL}.{LABEL}.{'b' * 61}.{LABEL}"],
        ["", "com", "com.example", "com.example.", ".com.example", "com..record", "com.example.bad-record", "com.example.1record", "1com.example.record", "-com.example.record",
         "com.example-.record", "com.example.*", "com.example.record#main", "com.example.rëcord", f"a.{'b' * 64}.c", f"a.b.{'c' * 64}"],
    ),
    "recordkey": (
        ["self", "3mwp2ezf3fh22", "...", "~1.2-3_", "a:b", ":", "_", "A", "a" * 512],
        ["", ".", "..", "a/b", "a b", "a@b", "a%20", "a+b", "ä", "a#b", "a" * 513],
    ),
}
TIDS = [0, 1, 31, 32, 1023, 1024, (synth.EPOCH << 10) | 5, 1234567890123456 << 10, (2**53 - 1) << 10, 2**63 - 1]
NO_TIDS = ["", "222222222222", "22222222222222", "2222222222221", "222222222222A", "k222222222222", "zzzzzzzzzzzzz", "2222-222-2222", " 222222222222"]


def identifiers():
    for kind, (valid, invalid) in IDENTIFIERS.items():
        yield from ({"type": kind, "text": given, "valid": given in valid} for given in valid + invalid)


def tid_text(number):
    return "".join(synth.ALPHABET[number >> shift & 31] for shift in range(60, -1, -5))


def tids():
    yield from ({"text": tid_text(n), "valid": True, "integer": str(n), "microseconds": str(n >> 10), "clock": n & 1023} for n in TIDS)
    for given in NO_TIDS:
        yield {"text": given, "valid": False}


# --- content identifiers, deterministic CBOR ---

SOME = synth.cid(b"\xa0")
RAW = synth.cid(b"", 0x55)

# Values in JSON, as appendix A.3 writes them.
VALUES = [
    None, False, True, 0, 23, 24, 255, 256, 65535, 65536, 2**32 - 1, 2**32, 2**53, 2**63 - 1, -1, -24, -25, -(2**63),
    "", "a", "ä€\U0001f600", "a" * 24, "a" * 256, {"$bytes": ""}, {"$bytes": "AAEC/w"}, link(SOME), link(RAW), [], [1, [2, [3]]], {},
    {"a": 1, "b": 2, "aa": 3}, {"z": 1, "aa": 2, "ä": 3}, {"$type": "com.example.record", "text": "hello", "to": link(SOME)},
    {"$type": "blob", "ref": link(RAW), "mimeType": "image/png", "size": 1},
]

# Bytes that are no deterministic CBOR of the data model, or that no record may have.
NO_VALUES = [
    ("", "no value"), ("1800", "an integer that is too long"), ("190017", "an integer that is too long"), ("1a0000ffff", "an integer that is too long"),
    ("1b00000000ffffffff", "an integer that is too long"), ("3817", "a negative integer that is too long"), ("780161", "a length that is too long"),
    ("5f4100ff", "bytes of no stated length"), ("7f6161ff", "a text of no stated length"), ("9f00ff", "an array of no stated length"), ("bf616100ff", "a map of no stated length"),
    ("f97e00", "NaN, half"), ("f93c00", "a half float"), ("fa3f800000", "a single float"), ("fb7ff8000000000000", "NaN"), ("fb7ff0000000000000", "infinity"),
    ("f7", "undefined"), ("f0", "a simple value"), ("f820", "a simple value"), ("c100", "another tag"), ("d82a4101", "a tag 42 around no CID"),
    ("d82a58250001711220" + "00" * 31, "a link that is cut short"), ("a2616100616101", "a key twice"), ("a2616200616101", "keys in another order"),
    ("a26261610061620a", "a longer key before a shorter one"), ("a10000", "a key that is no text"), ("61ff", "a text that is no UTF-8"), ("63eda080", "half a surrogate pair"),
    ("0000", "two values"), ("8100" * 1 + "00", "bytes after the value"), ("82", "an array that is cut short"), ("6261", "a text that is cut short"), ("ff", "a break"),
]


def to_cbor(value):
    if isinstance(value, dict) and set(value) == {"$link"}:
        return synth.link(cid_bytes(value["$link"]))
    if isinstance(value, dict) and set(value) == {"$bytes"}:
        return base64.b64decode(value["$bytes"] + "=" * (-len(value["$bytes"]) % 4))
    if isinstance(value, dict):
        return {key: to_cbor(member) for key, member in value.items()}
    if isinstance(value, list):
        return [to_cbor(member) for member in value]
    return value


def cid_bytes(cid):
    return base64.b32decode(cid[1:].upper() + "=" * (-len(cid[1:]) % 8))


def values():
    for value in VALUES:
        block = synth.encode(to_cbor(value))
        yield {"valid": True, "bytes": block.hex(), "json": value, "cid": text(synth.cid(block))}
    for block, why in NO_VALUES:
        yield {"valid": False, "bytes": block, "why": why}


def cids():
    for block in (b"", b"\xa0", b"\xf6", b"hello", b"\0" * 100):
        for codec in (0x71, 0x55):
            binary = synth.cid(block, codec)
            yield {"text": text(binary), "valid": True, "binary": binary.hex(), "codec": {0x71: "dag-cbor", 0x55: "raw"}[codec], "data": block.hex()}
    good = text(SOME)
    for given, why in [
        ("", "empty"), (good[:-1], "a character too few"), (good + "a", "a character too many"), (good.upper(), "upper case"), ("z" + good[1:], "another base"),
        (good[1:], "no base"), (good[:-1] + chr(ord(good[-1]) + 1), "unused bits are set"), (good[:10] + "1" + good[11:], "no digit of base32"),
        ("QmYwAPJzv5CZsnA625s3Xf2nemtYgPpHdWEz79ojWp7Ab2", "version 0"), (good + "=", "padding"), (" " + good, "a space"),
    ]:
        yield {"text": given, "valid": False, "why": why}


# --- trees, commits, archives ---


def layers():
    for key in ["key1", "key7", "key515", "com.example.record/self", *(f"com.example.record/{synth.tid(n)}" for n in range(0, 4000, 100))]:
        yield {"key": key, "layer": synth.layer(key.encode())}


def paths(n):
    return {f"com.example.record/{synth.tid(i)}": synth.cid(b"record %d" % i) for i in range(n)}


ODD = {f"{collection}/{key}": synth.cid(f"{collection}/{key}".encode())
       for collection in ("com.ex.a", "com.ex.a.b", "com.ex.a-b.c", "com.ex.a0.b", "com.ex.aB") for key in ("self", "~", ":", "_", "A", "a")}


def trees():
    for records, why in [({}, "empty"), (paths(1), "one record"), (paths(2), "two"), (paths(50), "fifty"), (paths(300), "three hundred"), (ODD, "names whose order differs from that of their parts")]:
        root, nodes = synth.tree(records)
        yield {"why": why, "records": {path: text(value) for path, value in records.items()}, "root": text(root), "nodes": len({key for key, _ in nodes})}


SECRETS = {name: (curve, (name.encode() * 32)[:32], prefix) for name, curve, prefix in (("k256", curves.K256, b"\xe7\x01"), ("p256", curves.P256, b"\x80\x24"))}


def did_key(name):
    curve, secret, prefix = SECRETS[name]
    x, y = curve.affine(curve.sum((int.from_bytes(secret, "big"), curve.base)))
    number = int.from_bytes(prefix + bytes([2 + y % 2]) + x.to_bytes(32, "big"), "big")
    digits = ""
    while number:
        number, digit = divmod(number, 58)
        digits = curves.BASE58[digit] + digits
    return "did:key:z" + digits


def signed(name, high=False, **changes):
    curve, secret, _ = SECRETS[name]
    commit = {"did": PLC, "version": 3, "data": synth.link(synth.tree({})[0]), "rev": synth.tid(1), "prev": None, **changes}
    commit = {key: value for key, value in commit.items() if value != "absent"}
    return {**commit, "sig": curves.sign(curve, secret, synth.encode(commit), high)}


def archive(commit):
    block = synth.encode(commit)
    return synth.car(synth.cid(block), [(synth.cid(block), block)])


def commits():
    """result: true, false, or "invalid" for a commit that is none."""
    for name in SECRETS:
        other = "p256" if name == "k256" else "k256"
        good = signed(name)
        cases = [
            (good, name, True, "signed"), (good, other, False, "the key of the other curve"), (signed(name, high=True), name, False, "a high s"),
            ({**good, "rev": synth.tid(2)}, name, False, "another revision than the signed one"),
            ({**good, "sig": bytes(64)}, name, False, "zeros"), ({**good, "sig": good["sig"][:63]}, name, "invalid", "63 bytes"),
            ({**good, "sig": good["sig"] + b"\0"}, name, "invalid", "65 bytes"), (signed(name, version=2), name, "invalid", "version 2"),
            (signed(name, rev="2022"), name, "invalid", "a revision that is no TID"), (signed(name, data="absent"), name, "invalid", "no tree"),
            (signed(name, did="alice.example"), name, "invalid", "no DID"), (signed(name, data=synth.link(RAW)), name, "invalid", "a tree of raw bytes"),
            (signed(name, more=1), name, True, "a further field, which is signed, too"),
        ]
        for commit, key, result, why in cases:
            yield {"why": f"{name}: {why}", "car": b64(archive(commit)), "key": did_key(key), "result": result}


def records(n):
    return {f"com.example.record/{synth.tid(i)}": synth.encode({"$type": "com.example.record", "n": i}) for i in range(n)}


# The header, with the number of its roots.
CAR_HEADERS = [
    ({"version": 2, "roots": 1}, "version 2"), ({"version": 0, "roots": 1}, "version 0"), ({"version": "1", "roots": 1}, "a version that is a text"),
    ({"roots": 1}, "no version"), ({"version": 1}, "no roots"), ({"version": 1, "roots": 0}, "roots without a root"),
]


def archives():
    """valid: every record is there; "blocks": the blocks alone are right."""
    for n in (0, 1, 20):
        blocks = records(n)
        root, nodes = synth.tree({path: synth.cid(block) for path, block in blocks.items()})
        commit = synth.encode(signed("k256", data=synth.link(root)))
        head = (synth.cid(commit), commit)
        leaves = [(synth.cid(block), block) for block in blocks.values()]
        found = {path: text(synth.cid(block)) for path, block in blocks.items()}

        def case(why, parts, valid=True):
            return {"why": f"{n} records: {why}", "car": b64(synth.car(head[0], parts)), "valid": valid, "records": found if valid is True else None}

        top = list(reversed(nodes))
        yield case("nodes before records", [head, *top, *leaves])
        yield case("another order", [*leaves, *nodes, head])
        yield case("each block twice", [head, *top, *leaves] * 2)
        yield case("an unrelated block", [head, *top, *leaves, (RAW, b"")])
        yield case("no commit", [*top, *leaves], False)
        for header, why in CAR_HEADERS if n == 1 else []:
            head_bytes = synth.encode({**header, **({"roots": [synth.link(head[0])] * header["roots"]} if "roots" in header else {})})
            whole = synth.car(head[0], [head, *top, *leaves])
            yield {**case(why, [], False), "car": b64(synth.varint(len(head_bytes)) + head_bytes + whole[1 + whole[0]:])}
        if n == 20:
            yield case("a node is missing", [head, *top[:-1], *leaves], False)
            yield case("a record is missing", [head, *top, *leaves[1:]], False)
            yield case("a block has another hash", [head, *top, *leaves[1:], (leaves[0][0], leaves[1][1])], False)
            yield {**case("cut short", [head, *top, *leaves], False), "car": b64(synth.car(head[0], [head, *top, *leaves])[:-1])}


def json_op(op):
    return {"action": op["action"], "path": op["path"], "cid": op["cid"] and link(op["cid"].value[1:]), **({"prev": link(op["prev"].value[1:])} if "prev" in op else {})}


def inversions():
    """before: the root before the operations; None: a node that is needed is missing; "other": another root than prevData."""
    stream = synth.Stream()
    written = [(synth.encode({"$type": "com.example.record", "n": i}), f"com.example.record/{synth.tid(i)}") for i in range(30)]
    steps = [
        ([("create", path, block) for block, path in written[:20]], "the first commit of a repository"),
        ([("create", written[20][1], written[20][0])], "a record more"),
        ([("update", written[3][1], written[21][0])], "a record changed"),
        ([("delete", written[7][1], None)], "a record less"),
        ([("create", written[22][1], written[22][0]), ("update", written[4][1], written[23][0]), ("delete", written[5][1], None)], "one of each"),
        ([], "no operation"),
    ]
    rev = 0
    for ops, why in steps:
        rev += 1
        before = stream.records.get(PLC, {})
        root_before = synth.tree(before)[0]
        message = stream.commit(PLC, synth.tid(10**6 * rev), ops)
        payload = wire.frame(message)[1]
        good = {"why": why, "car": b64(payload["blocks"]), "ops": [json_op(op) for op in payload["ops"]], "prevData": text(root_before), "before": text(root_before)}
        yield good
        if ops:
            yield {**good, "why": why + ", of which the list leaves one out", "ops": good["ops"][1:], "before": "other"}


# --- frames of event streams ---

ACCOUNT = {"seq": 7, "did": PLC, "time": "2026-09-23T00:00:00.000Z", "active": False, "status": "deactivated"}
FRAMES = [
    ({"op": 1, "t": "#account"}, ACCOUNT, "a message"),
    ({"op": 1, "t": "#identity"}, {"seq": 2**53 - 1, "did": PLC, "time": "2026-09-23T00:00:00Z"}, "the greatest number"),
    ({"op": 1, "t": "#later", "more": [1]}, {}, "an unknown type, an unknown field of the header, no field of the payload"),
    ({"op": 1, "t": "#account"}, {**ACCOUNT, "status": "later", "more": {"to": synth.link(SOME), "is": b"\0"}}, "an unknown status, an unknown field"),
    ({"op": -1}, {"error": "FutureCursor", "message": "the cursor is in the future"}, "an error"),
    ({"op": -1}, {"error": "ConsumerTooSlow"}, "an error without a message"),
]
HEADER, PAYLOAD = synth.encode({"op": 1, "t": "#account"}).hex(), synth.encode(ACCOUNT).hex()
ERROR, TYPE = synth.encode({"op": -1}).hex(), synth.encode("#account").hex()
NO_FRAMES = [
    ("", "no bytes"), (HEADER, "no payload"), (HEADER + PAYLOAD + "a0", "three objects"), (HEADER + PAYLOAD[:-2], "a payload that is cut short"),
    (HEADER + "80", "a payload that is an array"), (HEADER + "f6", "a payload that is null"), ("8201" + TYPE + PAYLOAD, "a header that is an array"),
    (synth.encode({"t": "#account"}).hex() + PAYLOAD, "no op"), (synth.encode({"op": "1", "t": "#account"}).hex() + PAYLOAD, "an op that is a text"),
    (synth.encode({"op": 1}).hex() + PAYLOAD, "a message without t"), (synth.encode({"op": 1, "t": 1}).hex() + PAYLOAD, "a t that is no text"),
    ("a2626f70016174" + TYPE + PAYLOAD, "a header whose keys have another order"), ("a26174" + TYPE + "626f701801" + PAYLOAD, "an op that is longer than needed"),
    (HEADER + "bfff", "a payload of no stated length"), (HEADER + "a263646964006364696401", "a key twice in the payload"), (HEADER + "a10000", "a key of the payload that is no text"),
    (ERROR + "a0", "an error without a name"), (ERROR + synth.encode({"error": 1}).hex(), "an error whose name is no text"),
    (ERROR + synth.encode({"error": "a", "message": 1}).hex(), "an error whose message is no text"),
]


def from_cbor(value):
    if isinstance(value, cbor2.CBORTag):
        return link(value.value[1:])
    if isinstance(value, bytes):
        return {"$bytes": b64(value).rstrip("=")}
    if isinstance(value, dict):
        return {key: from_cbor(member) for key, member in value.items()}
    return value


def frames():
    for header, payload, why in FRAMES:
        yield {"valid": True, "bytes": (synth.encode(header) + synth.encode(payload)).hex(), "op": header["op"], "t": header.get("t"), "payload": from_cbor(payload), "why": why}
    for data, why in NO_FRAMES:
        yield {"valid": False, "bytes": data, "why": why}


FILES = {
    "aturi": (URI, aturis, "level: strict (normal form, a supported DID method), lexicon (a DID or handle, a collection, a record key), general (the URI syntax), or null. "
                           "normal: the normal form of the text, read liberally; null if there is none."),
    "aturi_from": (URI, pasted, "What a text that people paste names; null for a text that is not known. The candidate forms are those of the working group."),
    "identifiers": (f"{REPOSITORY}, 3.1 and D; {URI}, 3", identifiers, "type: did, handle, nsid or recordkey."),
    "tid": (f"{REPOSITORY}, C", tids, "integer: the 64 bits; microseconds since 1970; clock: the clock identifier."),
    "cid": (f"{REPOSITORY}, A.1 (DASL: CID)", cids, "data: the bytes that are identified; binary: the 36 bytes of the CID."),
    "dagcbor": (f"{REPOSITORY}, A.2 and A.3 (DRISL, DAG-CBOR)", values, "bytes: the encoding; json: the value; cid: of the bytes."),
    "mst_layer": (f"{REPOSITORY}, 4.2", layers, "The layer of a key."),
    "mst": (f"{REPOSITORY}, 4", trees, "records: paths and CIDs; root: of their tree; nodes: how many different nodes the tree has."),
    "commit": (f"{REPOSITORY}, 3.2 and B", commits, "car: a repository of a commit alone, in base64; result: whether the key has signed it; \"invalid\": not a commit."),
    "car": (f"{REPOSITORY}, 5 (DASL: CAR)", archives, "car: in base64; valid: whether it holds a whole repository; records: its paths and CIDs."),
    "frame": (f"{REPOSITORY}, 8.2.1 and 8.2.2", frames, "bytes: a message of the WebSocket; op and t: of the header; payload: the value."),
    "inversion": (f"{REPOSITORY}, 8.1.2", inversions, "car: the diff, in base64; before: the root of the tree when the operations are undone; \"other\": any root but prevData, or none."),
}


def content(name):
    draft, make, about = FILES[name]
    head = {"draft": draft, "about": about, "license": "CC0-1.0"}
    lines = ",\n".join(json.dumps(vector, ensure_ascii=True) for vector in make())
    return json.dumps(head, ensure_ascii=True)[:-1] + ', "vectors": [\n' + lines + "\n]}\n"


def main():
    wrong = []
    for name in FILES:
        path = os.path.join(HERE, name + ".json")
        made = content(name)
        if "--check" not in sys.argv:
            with open(path, "w", encoding="ascii") as f:
                f.write(made)
        elif not os.path.exists(path) or open(path, encoding="ascii").read() != made:
            wrong.append(name)
    print("\n".join(wrong), end="")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
