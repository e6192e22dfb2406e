"""Forgeries of the did:plc directory's operations (plc_forge.py): form, encoding and CID of an operation, a log's beginning,
and what is odd, but valid."""

import plc_make
import plc_op
from plc_forge import kind
from plc_make import OTHER_KEYS, seal


# --- form ---

MEMBERS = ("rotationKeys", "verificationMethods", "alsoKnownAs", "services", "prev", "sig", "type")
WRONG_TYPES = {
    "rotationKeys": [None, "did:key:z", {}, [1], [None], [["did:key:z"]], {"0": "did:key:z"}],
    "verificationMethods": [None, [], "x", {"atproto": None}, {"atproto": 1}, {"atproto": ["x"]}],
    "alsoKnownAs": [None, "at://a.example.com", {}, [None], [1], [{}]],
    "services": [None, [], {"a": "https://x.example.com"}, {"a": {}}, {"a": {"type": "x"}}, {"a": {"endpoint": "x"}},
                 {"a": {"type": None, "endpoint": "x"}}, {"a": {"type": "x", "endpoint": 1}}, {"a": None}, {"a": []}],
    "prev": [1, False, {"$link": "bafyreigcxay6ucqlwowfpu35alyxqtv3c4vsj7gmdtmnidsnqs6nblyarq"}, []],
    "sig": [None, 1, {"$bytes": "AAAA"}, []],
    "type": [None, 1, "", "plc_operations", "PLC_OPERATION", "tombstone", "create ", ["plc_operation"]],
}  # fmt: skip


def without(f, member):
    """Signed as it is: without the member; sig is only left out."""
    if member == "sig":
        operation = f.next()
        return operation and f.entry({k: v for k, v in operation.items() if k != "sig"})
    operation = f.next(**{member: ...})
    return operation and f.entry(operation)


def mistyped(f, member):
    value = f.rng.choice(WRONG_TYPES[member])
    if member == "sig":
        operation = f.next()
        return operation and f.entry({**operation, "sig": value})
    operation = f.next(**{member: value})
    return operation and f.entry(operation)


for name in MEMBERS:
    kind(f"without_{name}", "form", member=name)(without)
    kind(f"type_of_{name}", "form", member=name)(mistyped)


@kind("no_object", "form")
def no_object(f):
    return f.entry(f.rng.choice([None, [], "plc_operation", 1, True]))


@kind("tombstone_without_prev", "form")
def tombstone_without_prev(f):
    _, signer = f.revive()
    return signer and f.entry(seal({"type": "plc_tombstone", **f.rng.choice([{}, {"prev": None}])}, signer))


@kind("create_with_prev", "form")
def create_with_prev(f):
    _, signer = f.revive()
    members = {"handle": "a.example.com", "service": "https://pds.example.com"}
    keys = {"signingKey": signer and signer.text, "recoveryKey": signer and signer.text}
    return signer and f.entry(seal({"type": "create", **keys, **members, "prev": f.head.cid}, signer))


@kind("too_large", "form")
def too_large(f):
    operation = f.next(alsoKnownAs=["at://" + "a" * 1000] * 66)
    return operation and f.entry(operation)


@kind("too_many_keys", "form")
def too_many_keys(f):
    _, signer = f.revive()
    return signer and f.entry(f.next(rotationKeys=[signer.text] * 65))


def sized(f, size):
    """An operation of so many bytes of DAG-CBOR."""
    _, signer = f.revive()
    if signer is None:
        return None
    operation = f.unsigned(alsoKnownAs=["x" * 60000])
    room = size - len(plc_op.encode({**operation, "sig": "x" * 86}))
    return f.entry(seal({**operation, "alsoKnownAs": ["x" * (60000 + room)]}, signer))


kind("a_byte_too_large", "form", size=65_537)(sized)
kind("as_large_as_may_be", None, size=65_536)(sized)


@kind("no_time", "form")
def no_time(f):
    times = ["", "yesterday", "2024-13-01T00:00:00.000Z", "2024-02-30T00:00:00.000Z", None, 0]
    operation = f.next()
    return operation and f.entry(operation, createdAt=f.rng.choice(times))


# --- encoding ---


def resigned(f, change):
    """With another text as sig, and the CID of that."""
    operation = f.next()
    sig = operation and change(operation["sig"])
    return sig and f.entry({**operation, "sig": sig})


SIG_TEXTS = {
    "sig_padded": lambda sig: sig + "==",
    "sig_padded_once": lambda sig: sig + "=",
    "sig_newline": lambda sig: sig + "\n",
    "sig_newline_within": lambda sig: sig[:40] + "\r\n" + sig[40:],
    "sig_space": lambda sig: " " + sig,
    "sig_unused_bits": lambda sig: sig[:-1] + {"A": "B", "Q": "R", "g": "h", "w": "x"}[sig[-1]],
    "sig_plain_base64": lambda sig: sig.replace("-", "+").replace("_", "/") if "-" in sig or "_" in sig else None,
    "sig_cut": lambda sig: sig[:-1],
    "sig_digit": lambda sig: sig[:9] + "ä" + sig[10:],
    "sig_multibase": lambda sig: "u:" + sig,
}
for name, change in SIG_TEXTS.items():
    kind(name, "encoding", change=change)(resigned)


def base58(raw):
    return plc_op.text_of_key(raw).removeprefix("did:key:")


PREV_TEXTS = {
    "prev_base58": lambda raw, text: base58(raw),
    "prev_upper": lambda raw, text: text.upper(),
    "prev_raw": lambda raw, text: "b" + plc_op.base32(b"\x01\x55" + raw[2:]),
    "prev_v0": lambda raw, text: base58(raw[2:])[1:],
    "prev_padded": lambda raw, text: text + "=",
    "prev_cut": lambda raw, text: text[:-1],
    "prev_empty": lambda raw, text: "",
    "prev_path": lambda raw, text: "/ipfs/" + text,
    "prev_unused_bits": lambda raw, text: text[:-1] + "abcdefghijklmnopqrstuvwxyz234567"["abcdefghijklmnopqrstuvwxyz234567".index(text[-1]) | 1],
}


def reworded(f, change):
    if f.revive()[1] is None:
        return None
    raw = b"\x01\x71\x12\x20" + plc_op.base64.b32decode(f.head.cid[1:].upper() + "=" * (-len(f.head.cid[1:]) % 8))[4:]
    return f.entry(f.next(prev=change(raw, f.head.cid)))


for name, change in PREV_TEXTS.items():
    kind(name, "encoding", change=change)(reworded)


# --- the entry's CID ---

CIDS = {
    "cid_of_prev": lambda f, operation, cid: f.head.cid,
    "cid_changed": lambda f, operation, cid: cid[:20] + ("a" if cid[20] != "a" else "b") + cid[21:],
    "cid_of_unsigned": lambda f, operation, cid: plc_op.cid_of(plc_op.unsigned(operation)),
    "cid_raw": lambda f, operation, cid: "bafkrei" + cid[7:],
}


def with_cid(f, change):
    operation = f.next()
    return operation and f.entry(operation, cid=change(f, operation, plc_op.cid_of(plc_op.encode(operation))))


for name, change in CIDS.items():
    kind(name, "cid", change=change)(with_cid)


def altered(f, change, member, keep_cid):
    """One member is another than was signed; with the CID as it was, or with a new one."""
    operation = f.next()
    if operation is None:
        return None
    entry = f.entry(operation)
    entry["operation"] = {**operation, **change(f, operation)}
    if not keep_cid:
        entry["cid"] = plc_op.cid_of(plc_op.encode(entry["operation"]))
    return entry


CHANGES = {
    "alsoKnownAs": lambda f, operation: {"alsoKnownAs": operation["alsoKnownAs"] + ["at://evil.example.com"]},
    "rotationKeys": lambda f, operation: {"rotationKeys": [f.fresh(1)[0].text] + operation["rotationKeys"]},
    "verificationMethods": lambda f, operation: {"verificationMethods": {"atproto": f.fresh(1)[0].text}},
    "services": lambda f, operation: {
        "services": {"atproto_pds": {"type": "AtprotoPersonalDataServer", "endpoint": "https://evil.example.com"}}
    },
    "unknown": lambda f, operation: {f.rng.choice(["note", "", "did", "$link"]): f.rng.choice(["x", None, 1, {}, [[]]])},
}
for name, change in CHANGES.items():
    kind(f"changed_{name}", "cid", change=change, member=name, keep_cid=True)(altered)
    kind(f"sealed_again_{name}", "signature", change=change, member=name, keep_cid=False)(altered)


def with_text(f, text):
    operation = f.next()
    return operation and f.entry({**operation, "alsoKnownAs": ["at://a.example.com", "x" + text]})


kind("nul", "encoding", text="\0")(with_text)
kind("half_a_surrogate_pair", "encoding", text="\ud83d")(with_text)


# --- odd, but valid ---


@kind("other_order_of_members", None)
def other_order_of_members(f):
    operation = f.next()
    return operation and f.entry(dict(f.rng.sample(sorted(operation.items()), len(operation))))


@kind("unknown_member", None)
def unknown_member(f):
    value = f.rng.choice(["x", None, 0, -1, 2**40, True, {"b": 1, "aa": [{}]}, [[], {}], {"$link": "x"}, ""])
    operation = f.next(**{f.rng.choice(["note", "", "$type", "a" * 200, "ü", "rotationkeys"]): value})
    return operation and f.entry(operation)


@kind("odd_texts", None)
def odd_texts(f):
    names = ["at://" + "a" * 300 + ".example.com", "", "at://", "\ufffe\u2028\x01", "http://a.example.com", "AT://B.example.com"]
    operation = f.next(
        alsoKnownAs=f.rng.sample(names, 4),
        verificationMethods={"\ue000a": "x", "\U0001f600": "", "atproto": f.rng.choice(OTHER_KEYS)},
        services={"\ue000a": {"type": "", "endpoint": "\U0001f600"}, "\U0001f600": {"endpoint": "", "type": "", "more": 1}},
    )
    return operation and f.entry(operation)


@kind("nothing_set", None)
def nothing_set(f):
    operation = f.next(rotationKeys=[], alsoKnownAs=[], verificationMethods={}, services={})
    return operation and f.entry(operation)


# --- whole logs ---


def genesis(f, change, other=False):
    """A log that begins with a genesis operation that is not as it should be."""
    rng, account = f.rng, f.account
    operation = account.genesis()
    signer = account.choose(plc_op.meaning(operation)["rotationKeys"])[1]
    account.steps.clear()
    account.chain.clear()
    operation = change(f, operation, signer)
    account.did = plc_op.did_of(plc_op.encode(operation))
    if other:
        account.did = rng.choice(["did:plc:" + "a" * 24, "did:plc:" + plc_op.base32(rng.randbytes(15))])
    return f.entry(operation, plc_make.START)


kind("genesis_of_another_did", "did", change=lambda f, operation, signer: operation, other=True)(genesis)
kind("genesis_by_stranger", "signature",
     change=lambda f, operation, signer: seal(operation, f.keys.stranger()))(genesis)  # fmt: skip
kind("genesis_by_signing_key_only", "signature",
     change=lambda f, operation, signer: seal(
         {"type": "plc_operation", "rotationKeys": [signer.text], "alsoKnownAs": [], "services": {},
          "verificationMethods": {"atproto": f.keys.stranger().text}, "prev": None}, f.keys.stranger()))(genesis)  # fmt: skip
kind("genesis_without_keys", "signature",
     change=lambda f, operation, signer: seal(
         {"type": "plc_operation", "rotationKeys": [], "alsoKnownAs": [], "services": {},
          "verificationMethods": {}, "prev": None}, signer))(genesis)  # fmt: skip
kind("genesis_high_s", "signature", change=lambda f, operation, signer: seal(operation, signer, high=True))(genesis)
kind("create_in_the_new_form", "signature",
     change=lambda f, operation, signer: {
         "type": "plc_operation", **plc_op.meaning(create(f, signer)), "prev": None, "sig": create(f, signer)["sig"]})(genesis)  # fmt: skip
kind("tombstone_first", "prev",
     change=lambda f, operation, signer: seal(
         {"type": "plc_tombstone", "prev": plc_op.cid_of(plc_op.encode(operation))}, signer))(genesis)  # fmt: skip
kind("update_first", "prev",
     change=lambda f, operation, signer: seal(
         {"type": "plc_operation", **plc_op.meaning(operation), "prev": plc_op.cid_of(plc_op.encode(operation))}, signer))(genesis)  # fmt: skip


def create(f, signer):
    members = {"handle": "a.example.com", "service": "https://pds.example.com", "prev": None}
    return seal({"type": "create", "signingKey": signer.text, "recoveryKey": signer.text, **members}, signer)


@kind("did_of_another_account", "did")
def did_of_another_account(f):
    """An operation that may follow, in the log under the DID of another account."""
    operation = f.next()
    return operation and f.entry(operation, did="did:plc:" + plc_op.base32(f.rng.randbytes(15)))


