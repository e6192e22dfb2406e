#!/usr/bin/python3
"""Makes logs of did:plc accounts at the boundary of each statement of doc/use/data.md, and says how each entry must be judged.

    plc_edges.py        a line for each log: {"name", "log", "expect"}, as plc_logs.py writes them

Each case is written by hand: a name, the entries, and for each entry "valid", "nullified N" (by the entry N, from 1), or the reason.
"""

import json
import sys

import curves
from plc_logs import KEYS, Key, base32, base58, cbor, cid, cid_or_none, did_of, time_text, url64

A, B, C, D = KEYS[1], KEYS[2], KEYS[3], KEYS[4]  # k256, p256, k256, p256
ABC = [A.did, B.did, C.did]
START = 1_700_000_000_000_000  # microseconds
HOUR = 3_600_000_000
WINDOW = 72 * HOUR


def time_of(us):
    return time_text(us // 1000)[:-1] + "%03dZ" % (us % 1000)


def plain(keys, prev=None, **more):
    return {"type": "plc_operation", "rotationKeys": keys, "verificationMethods": {}, "alsoKnownAs": [], "services": {}, "prev": prev, **more}


def create(recovery, signing, **more):
    return {"type": "create", "signingKey": signing, "recoveryKey": recovery, "handle": "a.example", "service": "https://a.example", "prev": None, **more}


def tombstone(prev):
    return {"type": "plc_tombstone", "prev": prev}


def sealed(operation, sig):
    return dict(operation, sig=url64(sig))


class Case:
    """A log that is written entry by entry."""

    def __init__(self, name, did=None):
        self.name, self.did, self.entries, self.expect = name, did, [], []

    def add(self, operation, expect, /, at=None, **entry):
        """The entry of an operation, which comes an hour after the entry before, if there is no other time (microseconds, or a text)."""
        at = START + HOUR * len(self.entries) if at is None else at
        self.did = self.did or did_of(operation)
        entry = {"did": self.did, "operation": operation, "cid": cid_or_none(operation),
                 "createdAt": at if isinstance(at, str) else time_of(at), **entry}
        self.entries.append({name: value for name, value in entry.items() if value is not ...})
        words = expect.split()
        if words[0] in ("valid", "nullified") and len(words) <= 2 and expect != "nullified":
            self.expect.append([words[0], int(words[1]) if len(words) > 1 else None, None])
        else:  # "nullified" alone is the reason; "mark 3": the mark is wrong, and the entry 3 has nullified the operation
            self.expect.append(["refused", int(words[1]) if len(words) > 1 else None, "nullified" if words[0] == "mark" else expect])
        return cid_or_none(operation)


def members():
    """Members of an entry, and the times."""
    genesis = A.signed(plain(ABC))
    good = [
        ("only the members that must be there", {}), ("a mark", {"nullified": False}), ("members that no entry has", {"seq": "x", "type": [], "more": {}}),
        *((f"createdAt {text}", {"at": text}) for text in (
            "0001-01-02T00:00:00Z", "2026-01-31T12:00:00Z", "2026-01-31T12:00:00.0Z", "2026-01-31T12:00:00.123456789Z", "2026-01-31T12:00:60Z",
            "2026-01-31T12:00:00+23:59", "2026-01-31T12:00:00-00:01", "2024-02-29T00:00:00.000Z", "9999-12-30T23:59:59.9999999Z",
            "2026-01-31T12:00:00." + "0" * 43 + "Z")),
    ]
    bad = [
        *((f"without {name}", {name: ...}) for name in ("did", "cid", "operation", "createdAt")),
        *((f"{name} null", {name: None}) for name in ("did", "cid", "operation", "createdAt", "nullified")),
        ("a DID of another method", {"did": "did:web:a.example"}), ("upper case", {"did": "did:plc:" + "A" * 24}), ("a digit", {"did": "did:plc:" + "1" * 24}),
        ("25 characters", {"did": "did:plc:" + "a" * 25}), ("a mark that is a text", {"nullified": "false"}), ("a mark that is a number", {"nullified": 0}),
        *((f"createdAt {text}", {"at": text}) for text in (
            "", "2026-01-31", "2026-01-31T12:00Z", "2026-01-31 12:00:00Z", "2026-01-31t12:00:00Z", "2026-01-31T12:00:00z", "2026-01-31T12:00:00",
            "2026-01-31T12:00:00.Z", "2026-01-31T12:00:00-00:00", "2026-01-31T12:00:00+0100", "2026-01-31T12:00:00+24:00", "2026-01-31T12:00:61Z",
            "2026-01-31T24:00:00Z", "2025-02-29T00:00:00Z", "+2026-01-31T12:00:00Z", "10000-01-01T00:00:00Z", "0001-01-01T23:59:59.999999Z",
            "0001-01-02T00:00:00+00:01", "9999-12-30T23:59:60Z", "9999-12-30T23:59:59-00:01", "2026-01-31T12:00:00." + "0" * 44 + "Z")),
    ]
    for expect, cases in (("valid", good), ("form", bad)):
        for name, change in cases:
            case = Case(name)
            case.add(genesis, expect, **change)
            yield case


def forms():
    """Forms of an operation as a genesis: (name, operation, expect)."""
    deep = 0
    for _ in range(126):
        deep = [deep]
    fill = {"alsoKnownAs": ["a" * 60000]}
    size = len(cbor(A.signed(plain(ABC, **fill))))
    for name, operation, expect in (
        ("a create operation", create(A.did, B.did), "valid"), ("without prev", {k: v for k, v in create(A.did, B.did).items() if k != "prev"}, "form"),
        ("a create operation with a prev", create(A.did, B.did, prev=cid(plain(ABC))), "form"), ("a handle that is null", create(A.did, B.did, handle=None), "form"),
        ("rotation keys of a create operation", create(B.did, A.did, rotationKeys=[]), "valid"),
        ("a tombstone that begins a log", tombstone(cid(plain(ABC))), "prev"), ("prev of a tombstone is null", tombstone(None), "form"),
        ("64 rotation keys", plain(ABC + [""] * 61), "valid"), ("65 rotation keys", plain(ABC + [""] * 62), "form"),
        ("no rotation key", plain([]), "signature"),
        ("members that no operation has", plain(ABC, more=[{"$link": 1}, None, True, {}], handle=1), "valid"),
        ("members that no service has", plain(ABC, services={"": {"type": "", "endpoint": "", "more": [1]}}), "valid"),
        ("a service without type", plain(ABC, services={"a": {"endpoint": ""}}), "form"),
        ("the largest integers", plain(ABC, more=[2**63 - 1, -(2**63)]), "valid"), ("2^63", plain(ABC, more=2**63), "encoding"), ("-2^63-1", plain(ABC, more=-(2**63) - 1), "encoding"),
        ("a fraction", plain(ABC, more=0.5), "encoding"), ("a fraction in place of a text", plain(ABC, prev=0.5), "form"),
        ("128 levels", plain(ABC, more=[deep]), "valid"), ("129 levels", plain(ABC, more=[[deep]]), "encoding"), ("129 levels and no form", {"more": [[deep]]}, "encoding"),
        ("65,536 bytes", plain(ABC, alsoKnownAs=["a" * (60000 + 65536 - size)]), "valid"), ("65,537 bytes", plain(ABC, alsoKnownAs=["a" * (60000 + 65537 - size)]), "form"),
        ("65,537 bytes and a fraction", plain(ABC, alsoKnownAs=["a" * 65536], more=0.5), "form"),
    ):
        case = Case(name, None if expect in ("valid", "signature") else "did:plc:" + "a" * 24)
        has_cbor = cid_or_none(operation) != "b"
        case.add(A.signed(operation) if has_cbor else dict(operation, sig=""), expect)
        yield case
    # jsonb has one number for each of these
    for text, number in (("1e3", 1000), ("-0", 0), ("1.0", 1), ("10e-1", 1)):
        case = Case(f"{text} in jsonb")
        case.add(A.signed(plain(ABC, more=number)), "valid")
        yield case, lambda line, number=number, text=text: line.replace(f'"more": {number}', f'"more": {text}')


def signatures():
    """What stands in sig, and the keys before and behind the signer."""
    operation = plain(ABC)
    good = A.sign(operation)
    for name, sig, expect in (("63 bytes", good[:63], "signature"), ("65 bytes", good + b"\0", "signature"), ("no byte", b"", "signature"),
                              ("the curve's order", b"\xff" * 32 + good[32:], "signature"), ("r is 0", bytes(32) + good[32:], "signature"),
                              ("s is 0", good[:32] + bytes(32), "signature"), ("s in the upper half", A.sign(operation, high=True), "signature"), ("64 bytes", good, "valid")):
        case = Case(f"a signature of {name}")
        case.add(sealed(operation, sig), expect)
        yield case
    for name, text in (("one character", "A"), ("padding", url64(good) + "=="), ("a space", url64(good) + " ")):
        case = Case(f"a signature of {name}")
        case.add(dict(operation, sig=text), "encoding")
        yield case

    x, y = curves.K256.affine(curves.K256.sum((int.from_bytes(A.secret, "big") % curves.K256.n, curves.K256.base)))
    x, y = x.to_bytes(32, "big"), y.to_bytes(32, "big")
    for name, text in (
        ("a key of ed25519", "did:key:z6MkiTBz1ymuepAQ4HEHYSF1H8quG5GLVVQR3djdX3mDooWp"), ("no DID", A.did[8:]), ("another case of the scheme", A.did.replace("did", "DID")),
        ("a fragment", A.did + "#" + A.did[8:]), ("an uncompressed point", "did:key:z" + base58(b"\xe7\x01\x04" + x + y)),
        ("no point of k256", "did:key:z" + base58(b"\xe7\x01\x02" + (5).to_bytes(32, "big"))), ("no point of p256", "did:key:z" + base58(b"\x80\x24\x02" + (1).to_bytes(32, "big"))),
        ("a zero byte before the key", "did:key:z1" + A.did[9:]), ("a space", A.did + " "), ("an empty text", ""),
    ):
        for before in (True, False):
            case = Case(f"{name} {'before' if before else 'behind'} the signer")
            case.add(A.signed(plain([text, A.did] if before else [A.did, text])), "signature" if before else "valid")
            yield case


def accounts():
    """Whose log it is."""
    one, two = A.signed(plain(ABC)), B.signed(plain(ABC))
    case = Case("the first entry names the account, also if its operation is refused", did_of(one))
    case.add(two, "did")
    case.add(two, "did", did=did_of(two))
    case.add(one, "valid")
    case.add(two, "genesis", did=did_of(two))
    case.add(A.signed(plain(ABC, cid(one))), "did", did=did_of(two))
    case.add(A.signed(plain(ABC, cid(two))), "prev", did=did_of(two))
    yield case
    case = Case("an entry without the form of one names no account", did_of(one))
    case.add(two, "form", at="yesterday", did=did_of(two))
    case.add(two, "form", nullified=1, did=did_of(two))
    case.add(one, "valid")
    yield case
    case = Case("a genesis after a refused genesis", did_of(one))
    case.add(one, "cid", cid=cid(two))
    case.add(one, "valid")
    yield case


def places():
    """Recoveries, the same operation again, and the marks."""
    case = Case("the same operation again, before and after it was nullified")
    genesis = A.signed(plain(ABC))
    one = C.signed(plain(ABC, cid(genesis)))
    two = C.signed(plain(ABC, cid(one)))
    recovery = B.signed(plain(ABC, cid(genesis)))
    case.add(genesis, "valid")
    case.add(one, "nullified 6")
    case.add(two, "nullified 6")
    case.add(genesis, "genesis")
    case.add(one, "key")
    case.add(recovery, "valid")
    case.add(one, "key")
    case.add(two, "nullified")
    case.add(recovery, "key")
    yield case

    case = Case("wrong marks change nothing for other entries")
    case.add(genesis, "mark", nullified=True)
    case.add(one, "mark 4", nullified=False)
    case.add(two, "nullified 4", nullified=True)
    case.add(recovery, "mark", nullified=True)
    case.add(one, "key", nullified=True)
    case.add(A.signed(plain(ABC, cid(recovery))), "valid")
    yield case

    case = Case("a refused operation is no prev, and can come again")
    case.add(genesis, "valid")
    case.add(one, "order", at=START)
    case.add(two, "prev")
    case.add(one, "valid", at=START + 1)
    case.add(two, "valid")
    yield case

    case = Case("a tombstone is replaced by a recovery only")
    end = C.signed(tombstone(cid(genesis)))
    case.add(genesis, "valid")
    case.add(end, "nullified 4")
    case.add(C.signed(plain(ABC, cid(end))), "tombstone")
    case.add(B.signed(plain(ABC, cid(genesis))), "valid")
    case.add(C.signed(plain(ABC, cid(end))), "nullified")
    yield case

    twice = [B.did, A.did, B.did]
    first = A.signed(plain(twice))
    for name, signer, other, expect in (("a key that stands twice counts by its first place", A, B, "valid"), ("... also as the key that is replaced", B, A, "key")):
        case = Case(name)
        case.add(first, "valid")
        case.add(signer.signed(plain([], cid(first))), "nullified 3" if expect == "valid" else "valid")
        case.add(other.signed(plain([], cid(first))), expect)
        yield case
    case = Case("nothing follows an operation without rotation keys")
    case.add(first, "valid")
    case.add(A.signed(plain([], cid(first))), "valid")
    case.add(A.signed(tombstone(cid(A.signed(plain([], cid(first)))))), "signature")
    yield case


def times():
    genesis = A.signed(plain(ABC))
    one = C.signed(plain(ABC, cid(genesis)))
    for name, at, expect in (("exactly 72 hours", START + 1 + WINDOW, "valid"), ("72 hours and a microsecond", START + 2 + WINDOW, "late"),
                             ("72 hours and nanoseconds", time_of(START + 1 + WINDOW)[:-1] + "999Z", "valid"), ("the time of the newest", START + 1, "order")):
        case = Case(name)
        case.add(genesis, "valid", at=START)
        case.add(one, "nullified 3" if expect == "valid" else "valid", at=START + 1)
        case.add(B.signed(plain(ABC, cid(genesis))), expect, at=at)
        yield case
    case = Case("a recovery of a recovery: key and hours begin anew")
    case.add(genesis, "valid", at=START)
    case.add(one, "nullified 3", at=START + 1)
    recovery = B.signed(plain(ABC, cid(genesis)))
    case.add(recovery, "nullified 5", at=START + 1 + WINDOW)
    case.add(B.signed(plain(ABC, cid(genesis), more=1)), "key", at=START + 2 + WINDOW)
    case.add(A.signed(plain(ABC, cid(genesis))), "valid", at=START + 1 + 2 * WINDOW)
    yield case


def ladder():
    """One entry that breaks one rule more each time: the first in the order of reasons counts."""
    genesis = A.signed(plain(ABC))
    one = B.signed(plain(ABC, cid(genesis)))
    two = B.signed(plain(ABC, cid(one)))

    def begun(name):
        case = Case(name)
        case.add(genesis, "valid", at=START)
        case.add(one, "valid", at=START + HOUR)
        case.add(two, "valid", at=START + 100 * HOUR)
        return case

    deep = 0
    for _ in range(129):
        deep = [deep]
    late, stranger = {"at": START + 101 * HOUR}, Key("stranger", curves.K256)
    order = {"at": START + 90 * HOUR}
    did = {**order, "did": "did:plc:" + "a" * 24}
    unknown = "b" + base32(b"\x01\x71\x12\x20" + bytes(32))
    bad_cid = {**did, "cid": "x"}
    for expect, operation, entry in (
        ("late", A.signed(plain(ABC, cid(genesis))), late),
        ("order", A.signed(plain(ABC, cid(genesis))), order),
        ("key", C.signed(plain(ABC, cid(genesis))), order),
        ("signature", stranger.signed(plain(ABC, cid(genesis))), order),
        ("did", stranger.signed(plain(ABC, cid(genesis))), did),
        ("prev", stranger.signed(plain(ABC, unknown)), did),
        ("genesis", stranger.signed(plain(ABC)), did),
        ("cid", stranger.signed(plain(ABC, unknown)), bad_cid),
        ("encoding", dict(plain(ABC, unknown), sig="="), bad_cid),
        ("form", dict(plain([1], unknown), sig="="), bad_cid),
        ("encoding", dict(plain([1], unknown, more=deep), sig="="), bad_cid),
        ("form", dict(plain([1], unknown, more=deep), sig="="), {**bad_cid, "createdAt": ""}),
    ):
        case = begun(f"the first reason: {expect}")
        case.add(operation, expect, **entry)
        yield case


def main():
    if len(sys.argv) != 1:
        sys.exit(__doc__)
    for part in (members, forms, signatures, accounts, places, times, ladder):
        for case in part():
            case, change = case if isinstance(case, tuple) else (case, str)
            print(change(json.dumps({"name": f"{part.__name__}: {case.name}", "log": case.entries, "expect": case.expect})))


if __name__ == "__main__":
    main()
