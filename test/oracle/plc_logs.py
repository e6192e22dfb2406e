#!/usr/bin/python3
"""Makes logs of did:plc accounts, and says of each entry how it must be judged (M-01 to M-09, M-50).

    plc_logs.py logs SEED N          N logs; a line each: {"name", "log", "expect"}
    plc_logs.py forged SEED N        N logs, each with one entry that must be refused

"expect" has for each entry [verdict, row of the entry that nullified it, reason].  Encoding, signatures and rules
share no code with the extension.  A log is valid because it is built by what the rules allow; a forged entry that is
refused changes nothing for the entries behind it.
"""

import base64
import hashlib
import json
import random
import sys

import curves

HOUR = 3600 * 1000
WINDOW = 72 * HOUR
BASE32 = "abcdefghijklmnopqrstuvwxyz234567"


def head(major, n):
    if n < 24:
        return bytes([major << 5 | n])
    for code, size in ((24, 1), (25, 2), (26, 4), (27, 8)):
        if n < 1 << 8 * size:
            return bytes([major << 5 | code]) + n.to_bytes(size, "big")
    raise ValueError(n)


def cbor(value):
    """DAG-CBOR of JSON: keys by length in UTF-8, then by bytes (M-03)."""
    if value is None:
        return b"\xf6"
    if value is True or value is False:
        return b"\xf5" if value else b"\xf4"
    if isinstance(value, int):
        return head(0, value) if value >= 0 else head(1, -1 - value)
    if isinstance(value, str):
        text = value.encode()
        return head(3, len(text)) + text
    if isinstance(value, list):
        return head(4, len(value)) + b"".join(map(cbor, value))
    keys = sorted(value, key=lambda key: (len(key.encode()), key.encode()))
    return head(5, len(value)) + b"".join(cbor(key) + cbor(value[key]) for key in keys)


def base32(data):
    number, count = int.from_bytes(data, "big"), (len(data) * 8 + 4) // 5
    number <<= count * 5 - len(data) * 8
    return "".join(BASE32[number >> 5 * i & 31] for i in reversed(range(count)))


def base58(data):
    number, out = int.from_bytes(data, "big"), ""
    while number:
        number, digit = divmod(number, 58)
        out = curves.BASE58[digit] + out
    return out


def cid(operation):
    return "b" + base32(b"\x01\x71\x12\x20" + hashlib.sha256(cbor(operation)).digest())


def did_of(genesis):
    return "did:plc:" + base32(hashlib.sha256(cbor(genesis)).digest())[:24]


def url64(data):
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


class Key:
    def __init__(self, name, curve):
        self.curve = curve
        self.secret = hashlib.sha256(name.encode()).digest()
        x, y = curve.affine(curve.sum((int.from_bytes(self.secret, "big") % curve.n, curve.base)))
        prefix = b"\xe7\x01" if curve is curves.K256 else b"\x80\x24"
        self.multikey = prefix + bytes([2 + y % 2]) + x.to_bytes(32, "big")
        self.did = "did:key:z" + base58(self.multikey)

    def sign(self, operation, high=False):
        message = cbor({k: v for k, v in operation.items() if k != "sig"})
        return curves.sign(self.curve, self.secret, message, high)

    def signed(self, operation):
        return dict(operation, sig=url64(self.sign(operation)))


KEYS = [Key("plc %d" % i, curves.K256 if i % 2 else curves.P256) for i in range(10)]
# keys of other kinds, and what is no key: allowed where no signature needs them
UNREADABLE = ["did:key:z6MkiTBz1ymuepAQ4HEHYSF1H8quG5GLVVQR3djdX3mDooWp", "did:web:example.com", KEYS[0].did[8:], "", "did:key:z"]


def time_text(ms):
    seconds, ms = divmod(ms, 1000)
    days, seconds = divmod(seconds, 86400)
    # days since 1 March 0000
    days += 719468
    era, day = divmod(days, 146097)
    year = (day - day // 1460 + day // 36524 - day // 146096) // 365
    day -= 365 * year + year // 4 - year // 100
    month = (5 * day + 2) // 153
    day -= (153 * month + 2) // 5 - 1
    year += era * 400 + (month >= 10)
    month = month + 3 if month < 10 else month - 9
    return "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ" % (year, month, day, seconds // 3600, seconds // 60 % 60, seconds % 60, ms)


class Op:
    """An operation of a log that holds."""

    def __init__(self, operation, signer, keys, at):
        self.operation, self.signer, self.keys, self.at = operation, signer, keys, at
        self.cid = cid(operation)
        self.nullified_by = None

    @property
    def is_tombstone(self):
        return self.operation["type"] == "plc_tombstone"


class Log:
    def __init__(self, rng):
        self.rng = rng
        self.at = 1_670_000_000_000 + rng.randrange(10**11)
        self.ops = []
        self.chain = []         # the present chain
        self.begin()

    def keys(self):
        """Rotation keys in the order of their authority."""
        out = self.rng.sample(KEYS, self.rng.randrange(1, 5))
        if self.rng.random() < 0.15:
            out.append(out[0])
        return out

    def listed(self, keys, signers):
        """The texts: a key behind the last possible signer may be anything."""
        out = [key.did for key in keys]
        if signers and self.rng.random() < 0.2:
            out.append(self.rng.choice(UNREADABLE))
        return out

    def content(self, prev):
        rng = self.rng
        keys = self.keys()
        methods = {"atproto": rng.choice(KEYS).did}
        if rng.random() < 0.3:
            methods[rng.choice(["atproto_label", "\U0001f600", "\ue000 a", "", "$link"])] = rng.choice([*UNREADABLE, KEYS[1].did])
        services = {"atproto_pds": {"type": "AtprotoPersonalDataServer", "endpoint": "https://pds%d.example.com" % rng.randrange(5)}}
        if rng.random() < 0.2:
            services = {}
        elif rng.random() < 0.2:
            services["$bytes"] = {"type": "x" * rng.choice([0, 23, 24, 255, 256]), "endpoint": "ä\"\\\n\u2028", "more": None}
        aliases = ["at://h%d.example.com" % rng.randrange(10**6)][: rng.choice([0, 1, 1, 1])]
        operation = {"type": "plc_operation", "rotationKeys": self.listed(keys, True), "verificationMethods": methods,
                     "alsoKnownAs": aliases, "services": services, "prev": prev}
        if rng.random() < 0.05:
            operation["unknown"] = rng.choice([None, True, 0, -1, 2**53, [1, {"b": [], "aa": {}}], "x"])
        return operation, keys

    def begin(self):
        rng = self.rng
        if rng.random() < 0.3:
            recovery, signing = rng.sample(KEYS, 2)
            operation = {"type": "create", "signingKey": signing.did, "recoveryKey": recovery.did, "handle": "h.example.com",
                         "service": "https://pds.example.com", "prev": None}
            keys = [recovery, signing]
        else:
            operation, keys = self.content(None)
        signer = rng.choice(keys)
        operation = signer.signed(operation)
        self.did = did_of(operation)
        self.add(Op(operation, keys.index(signer), keys, self.at), 0)

    def add(self, op, length):
        """After the first operations of the present chain, as many as length says."""
        for nullified in self.chain[length:]:
            nullified.nullified_by = op
        self.chain = [*self.chain[:length], op]
        self.ops.append(op)
        self.at = op.at

    def recoveries(self):
        """Lengths of the chain to which a recovery could go back, and the keys that may sign it."""
        out = []
        for i in range(1, len(self.chain)):
            before, replaced = self.chain[i - 1], self.chain[i]
            signers = [key for n, key in enumerate(before.keys) if before.keys.index(key) == n and n < replaced.signer]
            if signers and self.at + 1 <= replaced.at + WINDOW:
                out.append((i, signers))
        return out

    def step(self):
        rng = self.rng
        recoveries = self.recoveries()
        if self.chain[-1].is_tombstone or (recoveries and rng.random() < 0.4):
            if not recoveries:
                return
            length, signers = rng.choice(recoveries)
            latest = self.chain[length].at + WINDOW
            at = rng.choice([latest, self.at + 1, rng.randrange(self.at + 1, latest + 1)])
        else:
            length, signers = len(self.chain), self.chain[-1].keys
            at = self.at + rng.choice([1, 1000, HOUR, 20 * HOUR, 100 * HOUR])
        before = self.chain[length - 1]
        signer = rng.choice(signers)
        if rng.random() < 0.15:
            operation, keys = {"type": "plc_tombstone", "prev": before.cid}, []
        else:
            operation, keys = self.content(before.cid)
        self.add(Op(signer.signed(operation), before.keys.index(signer), keys, at), length)

    def entry(self, op):
        return {"did": self.did, "operation": op.operation, "cid": op.cid, "nullified": op.nullified_by is not None,
                "createdAt": time_text(op.at)}


def random_log(rng):
    log = Log(rng)
    for _ in range(rng.choice([0, 1, 2, 4, 8])):
        log.step()
    return log


def expected(log, extra=None):
    """Verdicts of the entries, where a forged one stands before the row extra."""
    row = {op: i + 1 + (extra is not None and i >= extra) for i, op in enumerate(log.ops)}
    out = [["valid", None, None] if op.nullified_by is None else ["nullified", row[op.nullified_by], None] for op in log.ops]
    return out


# --- forged entries ---


def without(name):
    def forge(log, op, entry):
        entry["operation"] = {k: v for k, v in op.items() if k != name}
    return forge


def member(name, value):
    def forge(log, op, entry):
        entry["operation"] = dict(op, **{name: value})
    return forge


def of_entry(name, value):
    def forge(log, op, entry):
        entry[name] = value
    return forge


def sig_text(change):
    def forge(log, op, entry):
        entry["operation"] = dict(op, sig=change(op["sig"]))
    return forge


def spare_bits(sig):
    digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    return sig[:-1] + digits[digits.index(sig[-1]) | 1]


FORMS = [without(name) for name in ("type", "rotationKeys", "verificationMethods", "alsoKnownAs", "services", "prev", "sig")] + [
    member("type", value) for value in (None, 1, "create", "plc_tombstone ", "PLC_OPERATION", ["plc_operation"])] + [
    member("rotationKeys", value) for value in (None, {}, "x", [1], [None], [[]], ["x"] * 65)] + [
    member("verificationMethods", value) for value in (None, [], {"a": 1}, {"a": None}, {"a": ["x"]}, "x")] + [
    member("alsoKnownAs", value) for value in (None, {}, [0], ["x", {}], "x")] + [
    member("services", value) for value in (None, [], {"a": "x"}, {"a": {}}, {"a": {"type": "x"}}, {"a": {"endpoint": "x"}},
                                            {"a": {"type": "x", "endpoint": 1}}, {"a": {"type": None, "endpoint": "x"}})] + [
    member("prev", value) for value in (1, {}, ["x"], True)] + [
    member("sig", value) for value in (None, 1, ["x"])] + [
    member("unknown", "x" * 65536)] + [
    of_entry("did", value) for value in (None, 1, "", "did:web:example.com", "did:plc:short", "did:plc:" + "1" * 24, "did:plc:" + "A" * 24)] + [
    of_entry("cid", value) for value in (None, 1, [])] + [
    of_entry("createdAt", value) for value in (None, 1, "", "2026-01-31", "2026-02-30T00:00:00.000Z", "now")] + [
    of_entry("operation", value) for value in (None, "x", [], 1)] + [
    of_entry("nullified", value) for value in (None, 0, "false", [])]

ENCODINGS = [sig_text(lambda sig: sig + "=="), sig_text(lambda sig: sig + "\n"), sig_text(lambda sig: "\n" + sig), sig_text(spare_bits),
             sig_text(lambda sig: "+" + sig[1:]), sig_text(lambda sig: "/" + sig[1:]), sig_text(lambda sig: sig + "AAA"), sig_text(lambda sig: " " + sig)] + [
    member("prev", value) for value in ("", "x", "zdpuAsVeaqGFVbYVgMvzfUQpGcKuCdLNw9SAxf5HBFNP4Wyzc", "b" + base32(b"\x01\x55\x12\x20" + bytes(32)),
                                        "b" + base32(b"\x01\x71\x13\x20" + bytes(32)), "b" + base32(b"\x01\x71\x12\x20" + bytes(32)).upper())] + [
    member("unknown", value) for value in (0.5, 1e300, 2**64)]


def other_cid(log, op, entry):
    own = cid(op)
    entry["cid"] = log.rng.choice([log.ops[0].cid, own.upper(), own[:-1], own + "a", "", "b" + base32(b"\x01\x71\x12\x20" + bytes(32))])


def changed_after(log, op, entry):
    name, value = log.rng.choice([("alsoKnownAs", ["at://other.example.com"]), ("rotationKeys", ["x"]), ("other", {}), ("services", {"": {"type": "", "endpoint": ""}})])
    entry["operation"] = dict(op, **{name: value})


def sign_again(change):
    """The successor with another content or signature, whose CID fits."""
    def forge(log, op, entry):
        entry["operation"] = change(log, {k: v for k, v in op.items() if k != "sig"})
    return forge


def by_stranger(log, op):
    return Key("stranger", log.rng.choice([curves.K256, curves.P256])).signed(op)


def signer_of(log):
    return log.chain[-1].keys[0]


def high_s(log, op):
    return dict(op, sig=url64(signer_of(log).sign(op, high=True)))


def short_sig(log, op):
    return dict(op, sig=url64(signer_of(log).sign(op)[:log.rng.choice([0, 1, 63])]))


def long_sig(log, op):
    return dict(op, sig=url64(signer_of(log).sign(op) + b"\0"))


def der(log, op):
    sig = signer_of(log).sign(op)
    numbers = [number.lstrip(b"\0") for number in (sig[:32], sig[32:])]
    numbers = [b"\0" + number if number[0] > 127 else number for number in numbers]
    body = b"".join(b"\x02" + bytes([len(number)]) + number for number in numbers)
    return dict(op, sig=url64(b"\x30" + bytes([len(body)]) + body))


def zero_sig(log, op):
    return dict(op, sig=url64(log.rng.choice([bytes(64), bytes(32) + b"\1" * 32, b"\1" * 32 + bytes(32), b"\xff" * 64])))


SIGNATURES = [changed_after] + [sign_again(change) for change in (by_stranger, high_s, short_sig, long_sig, der, zero_sig)]


def unknown_prev(log, op):
    return signer_of(log).signed(dict(op, prev="b" + base32(b"\x01\x71\x12\x20" + hashlib.sha256(b"x").digest())))


def genesis_again(log, op):
    return signer_of(log).signed(dict(op, prev=None))


def on_nullified(log, op):
    before = log.rng.choice([o for o in log.ops if o.nullified_by and o.keys])
    return before.keys[0].signed(dict(op, prev=before.cid))


def on_tombstone(log, op):
    return log.rng.choice(KEYS).signed(dict(op, prev=log.chain[-1].cid))


def of_another(log, op, entry):
    entry["did"] = "did:plc:" + "a" * 24


def recovery_by(log, op, entry):
    """A recovery by a key that has no more authority than the key before; a key that stands twice counts by its first place."""
    length = log.rng.randrange(1, len(log.chain))
    before, replaced = log.chain[length - 1], log.chain[length]
    entry["operation"] = log.rng.choice(before.keys[replaced.signer:]).signed(dict(op, prev=before.cid))


def not_later(log, op, entry):
    entry["createdAt"] = time_text(log.at - log.rng.choice([0, 1, HOUR]))


def old_recovery(log, op, entry):
    length, signers = log.rng.choice(log.recoveries())
    entry["operation"] = signers[0].signed(dict(op, prev=log.chain[length - 1].cid))
    not_later(log, op, entry)


def late_recovery(log, op, entry):
    length, signers = log.rng.choice(log.recoveries())
    entry["operation"] = signers[0].signed(dict(op, prev=log.chain[length - 1].cid))
    entry["createdAt"] = time_text(log.chain[length].at + WINDOW + log.rng.choice([1, HOUR]))


def forged(rng, reason, forge, wanted):
    """A log with one forged entry behind its first operations."""
    while True:
        log = Log(rng)
        for _ in range(rng.choice([0, 1, 2, 4])):
            log.step()
        if wanted(log):
            break
    place = len(log.ops)
    if log.chain[-1].is_tombstone:
        before = [o for o in log.chain if o.keys][-1]
    else:
        before = log.chain[-1]
    operation, _ = log.content(before.cid)
    operation = before.keys[0].signed(operation)
    entry = {"did": log.did, "operation": operation, "nullified": False, "createdAt": time_text(log.at + 1)}
    forge(log, operation, entry)
    # what comes after the forged entry goes on from the state before it
    for _ in range(rng.choice([0, 0, 1, 2])):
        log.step()
    entry.setdefault("cid", cid_or_none(entry["operation"]))
    entries = [log.entry(op) for op in log.ops]
    expect = expected(log, place)
    entries.insert(place, entry)
    expect.insert(place, ["refused", None, reason])
    return entries, expect


def cid_or_none(operation):
    """The CID; any text where the operation has no DAG-CBOR."""
    try:
        return cid(operation)
    except (TypeError, ValueError):
        return "b"


def forges():
    """Reasons, what forges an entry for each, and the logs that it needs."""
    def alive(log):
        return not log.chain[-1].is_tombstone

    def anything(log):
        return True

    for forge in FORMS:
        yield "form", forge, anything
    for forge in ENCODINGS:
        yield "encoding", forge, anything
    for forge in SIGNATURES:
        yield "signature", forge, alive
    yield "cid", other_cid, alive
    yield "prev", sign_again(unknown_prev), alive
    yield "genesis", sign_again(genesis_again), alive
    yield "nullified", sign_again(on_nullified), lambda log: any(o.nullified_by and o.keys for o in log.ops) and alive(log)
    yield "tombstone", sign_again(on_tombstone), lambda log: log.chain[-1].is_tombstone
    yield "did", of_another, alive
    yield "key", recovery_by, lambda log: len(log.chain) > 1 and lower_keys(log)
    yield "order", not_later, alive
    yield "order", old_recovery, lambda log: log.recoveries()
    yield "late", late_recovery, lambda log: log.recoveries()


def lower_keys(log):
    """Do the keys from the signer's on stand nowhere before it?"""
    return all(before.keys.index(key) >= replaced.signer
               for before, replaced in zip(log.chain, log.chain[1:]) for key in before.keys[replaced.signer:])


def make_logs(rng, n):
    for i in range(n):
        log = random_log(rng)
        yield "log %d" % i, [log.entry(op) for op in log.ops], expected(log)


def make_forged(rng, n):
    kinds = list(forges())
    # each reason as often as the others
    by_reason = {}
    for kind in kinds:
        by_reason.setdefault(kind[0], []).append(kind)
    for i in range(n):
        kind = kinds[i] if i < len(kinds) else rng.choice(by_reason[rng.choice(sorted(by_reason))])
        log, expect = forged(rng, *kind)
        yield "%s %d" % (kind[0], i), log, expect


def main():
    if len(sys.argv) != 4 or sys.argv[1] not in ("logs", "forged"):
        sys.exit(__doc__)
    rng = random.Random(int(sys.argv[2]))
    make = make_logs if sys.argv[1] == "logs" else make_forged
    for name, log, expect in make(rng, int(sys.argv[3])):
        print(json.dumps({"name": name, "log": log, "expect": expect}))


if __name__ == "__main__":
    main()
