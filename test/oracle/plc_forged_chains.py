"""Forgeries of the did:plc directory's operations (plc_forge.py): the place in a log, signatures, keys and times."""

import json

import plc_make
import plc_op
from plc_chain import WINDOW
from plc_forge import kind
from plc_make import HOUR, OTHER_KEYS, seal, sig_text


# --- the place ---


@kind("prev_unknown", "prev")
def prev_unknown(f):
    operation = f.next(prev=plc_op.cid_of(f.rng.randbytes(8)))
    return operation and f.entry(operation)


@kind("prev_of_another_account", "prev")
def prev_of_another_account(f):
    other = plc_make.Account(f.rng, f.keys, 999, f.account.newest())
    operation = f.next(prev=other.steps[0].cid)
    return operation and f.entry(operation)


@kind("genesis_of_another_account", "genesis")
def genesis_of_another_account(f):
    return f.entry(plc_make.Account(f.rng, f.keys, 999, f.account.newest()).steps[0].operation)


@kind("genesis_again", "genesis")
def genesis_again(f):
    operation = f.next(prev=None)
    return operation and f.entry(operation)


@kind("create_again", "genesis")
def create_again(f):
    _, signer = f.revive()
    members = {"handle": "a.example.com", "service": "https://pds.example.com", "prev": None}
    return signer and f.entry(seal({"type": "create", "signingKey": signer.text, "recoveryKey": signer.text, **members}, signer))


def branch(f, n=2, p256=False, length=1):
    """Leads the log on to an operation with n fresh keys, and a chain behind it whose first is signed by the last key.
    (signers, the operation, the chain); None: nobody can lead it on."""
    signers = f.fresh(n, p256)
    before = f.lead([signer.text for signer in signers])
    if before is None:
        return None
    chain = [before]
    for at in range(length):
        operation = f.account.next_operation(chain[-1], signers[-1], rotationKeys=[signer.text for signer in signers])
        chain.append(f.account.add(operation, f.account.newest() + f.rng.randrange(1, HOUR), chain[-1], n - 1))
    return signers, before, chain[1:]


def recovered(f, n=2):
    """A branch, recovered by the key before its signer's: (signers, operation, the nullified ones, the recovery)."""
    found = branch(f, n, f.rng.random() < 0.5, f.rng.randrange(1, 4))
    if found is None:
        return None
    signers, before, chain = found
    operation = f.account.next_operation(before, signers[n - 2], rotationKeys=[signer.text for signer in signers])
    recovery = f.account.add(operation, f.account.newest() + f.rng.randrange(1, HOUR), before, n - 2)
    return signers, before, chain, recovery


@kind("prev_nullified", "nullified")
def prev_nullified(f):
    found = recovered(f)
    if found is None:
        return None
    signers, _, chain, _ = found
    last = f.rng.choice(chain)
    return f.entry(seal(f.unsigned(last), f.rng.choice(signers)))


@kind("recovery_behind_nullified", "nullified")
def recovery_behind_nullified(f):
    """By the first key, and in time: but its prev is of no chain that holds."""
    found = recovered(f, 3)
    return found and f.entry(seal(f.unsigned(found[2][0]), found[0][0]), f.account.newest() + 1)


def bury(f, n=2):
    """Leads the log on to a tombstone: (signers, the operation before, the tombstone)."""
    signers = f.fresh(n)
    before = f.lead([signer.text for signer in signers])
    if before is None:
        return None
    created = f.account.newest() + f.rng.randrange(1, HOUR)
    return signers, before, f.account.add(f.account.next_operation(before, signers[-1], True), created, before, n - 1)


@kind("behind_tombstone", "tombstone")
def behind_tombstone(f):
    found = bury(f)
    return found and f.entry(seal({**f.unsigned(found[1]), "prev": found[2].cid}, f.rng.choice(found[0])))


@kind("tombstone_behind_tombstone", "tombstone")
def tombstone_behind_tombstone(f):
    found = bury(f)
    return found and f.entry(seal({"type": "plc_tombstone", "prev": found[2].cid}, f.rng.choice(found[0])))


# --- signature ---

OF_SIG = {
    "sig_flipped_r": lambda raw, n: bytes([raw[0] ^ 1]) + raw[1:],
    "sig_flipped_s": lambda raw, n: raw[:63] + bytes([raw[63] ^ 1]),
    "sig_swapped": lambda raw, n: raw[32:] + raw[:32],
    "sig_short": lambda raw, n: raw[:63],
    "sig_long": lambda raw, n: raw + b"\0",
    "sig_recovery_byte": lambda raw, n: raw + b"\x1b",
    "sig_half": lambda raw, n: raw[:32],
    "sig_empty": lambda raw, n: b"",
    "sig_zero": lambda raw, n: bytes(64),
    "sig_zero_s": lambda raw, n: raw[:32] + bytes(32),
    "sig_zero_r": lambda raw, n: bytes(32) + raw[32:],
    "sig_order_s": lambda raw, n: raw[:32] + n.to_bytes(32, "big"),
    "sig_order_r": lambda raw, n: n.to_bytes(32, "big") + raw[32:],
    "sig_ones": lambda raw, n: b"\xff" * 64,
    "sig_der": lambda raw, n: der(raw),
}


def der(raw):
    def integer(part):
        body = part.lstrip(b"\0")
        body = b"\0" * (body[0] >> 7) + body
        return bytes([2, len(body)]) + body

    body = integer(raw[:32]) + integer(raw[32:])
    return bytes([0x30, len(body)]) + body


def other_bytes(f, change):
    _, signer = f.revive()
    if signer is None:
        return None
    operation = f.unsigned()
    raw = change(signer.sign(plc_op.encode(operation)), signer.curve.n)
    return f.entry({**operation, "sig": sig_text(raw)})


for name, change in OF_SIG.items():
    kind(name, "signature", change=change)(other_bytes)


def high_s(f, p256):
    signers = f.fresh(2, p256)
    before = f.lead([signer.text for signer in signers])
    return before and f.entry(seal(f.unsigned(before), f.rng.choice(signers), high=True))


kind("high_s_k256", "signature", p256=False)(high_s)
kind("high_s_p256", "signature", p256=True)(high_s)


@kind("by_stranger", "signature")
def by_stranger(f):
    return f.revive()[1] and f.entry(seal(f.unsigned(), f.keys.stranger(f.rng.random() < 0.5)))


@kind("by_its_own_new_key", "signature")
def by_its_own_new_key(f):
    """The operation sets its signer as rotation key, as every operation after it would need."""
    signer = f.keys.stranger(f.rng.random() < 0.5)
    return f.revive()[1] and f.entry(seal(f.unsigned(rotationKeys=[signer.text]), signer))


@kind("by_verification_method", "signature")
def by_verification_method(f):
    signers, methods = f.fresh(2), f.fresh(1, True)
    before = f.lead([signer.text for signer in signers], verificationMethods={"atproto": methods[0].text})
    return before and f.entry(seal(f.unsigned(before), methods[0]))


@kind("by_former_key", "signature")
def by_former_key(f):
    old, new = f.fresh(1), f.fresh(1, True)
    first = f.lead([old[0].text])
    if first is None:
        return None
    account = f.account
    second = account.add(account.next_operation(first, old[0], rotationKeys=[new[0].text]), account.newest() + 7, first)
    return f.entry(seal(f.unsigned(second), old[0]))


@kind("by_the_key_before_a_recovery", "signature")
def by_the_key_before_a_recovery(f):
    """The thief's own keys, of an operation that was nullified, sign behind the recovery."""
    signers, thief = f.fresh(2), f.keys.stranger()
    before = f.lead([signer.text for signer in signers])
    if before is None:
        return None
    account = f.account
    account.add(account.next_operation(before, signers[1], rotationKeys=[thief.text]), account.newest() + 9, before, 1)
    keys = [signer.text for signer in signers]
    recovery = account.add(account.next_operation(before, signers[0], rotationKeys=keys), account.newest() + 9, before)
    return f.entry(seal(f.unsigned(recovery), thief))


@kind("nobody_may", "signature")
def nobody_may(f):
    signer = f.fresh(1)[0]
    before = f.lead([])
    return before and f.entry(seal(f.unsigned(before), signer))


SIGNED = {
    "signed_with_empty_sig": lambda operation: {**operation, "sig": ""},
    "signed_with_null_sig": lambda operation: {**operation, "sig": None},
    "signed_without_prev": lambda operation: {k: v for k, v in operation.items() if k != "prev"},
    "signed_without_type": lambda operation: {k: v for k, v in operation.items() if k != "type"},
    "signed_sorted_keys": lambda operation: {**operation, "rotationKeys": operation["rotationKeys"][::-1] + ["x"]},
}


def signs_other(f, change):
    _, signer = f.revive()
    if signer is None:
        return None
    operation = f.unsigned()
    return f.entry({**operation, "sig": seal(change(operation), signer)["sig"]} if "sig" not in change(operation)
                   else {**operation, "sig": sig_text(signer.sign(plc_op.encode(change(operation))))})  # fmt: skip


for name, change in SIGNED.items():
    kind(name, "signature", change=change)(signs_other)


@kind("signed_its_json", "signature")
def signed_its_json(f):
    _, signer = f.revive()
    if signer is None:
        return None
    operation = f.unsigned()
    text = json.dumps(operation, separators=(",", ":")).encode()
    return f.entry({**operation, "sig": sig_text(signer.sign(text))})


@kind("sig_of_the_operation_before", "signature")
def sig_of_the_operation_before(f):
    return f.revive()[1] and f.entry({**f.unsigned(), "sig": f.head.operation["sig"]})


@kind("recovery_by_stranger", "signature")
def recovery_by_stranger(f):
    found = branch(f)
    return found and f.entry(seal(f.unsigned(found[1]), f.keys.stranger()), f.account.newest() + 1)


# --- keys ---


def unreadable(f, which, before):
    """A text that is no did:key of k256 or p256 stands before or behind the keys that may sign."""
    signers = f.fresh(2, f.rng.random() < 0.5)
    keys = [signer.text for signer in signers]
    keys.insert(0 if before else 2, [*OTHER_KEYS, *odd_keys(signers[0])][which])
    operation = f.lead(keys)
    return operation and f.entry(seal(f.unsigned(operation), f.rng.choice(signers)))


def odd_keys(signer):
    """Texts that are nearly the key's."""
    raw = plc_op.key_of_text(signer.text).bytes
    return [
        signer.text[:-1],
        signer.text.removeprefix("did:key:"),
        "DID:KEY:" + signer.text[8:],
        signer.text + " ",
        "did:key:f" + raw.hex(),
        plc_op.text_of_key(raw[:2] + b"\x04" + raw[3:]),
        plc_op.text_of_key(b"\xe7\x02" + raw[2:]),
        plc_op.text_of_key(raw[:2] + b"\x02" + b"\xff" * 32),
        plc_op.text_of_key(raw[:34]),
        plc_op.text_of_key(raw + b"\0"),
        plc_op.text_of_key(raw[:2] + b"\x04" + raw[3:] + raw[3:]),
        plc_op.text_of_key(off_the_curve(raw)),
        "did:key:z1" + signer.text[9:],
        signer.text + "#" + signer.text[8:],
    ]


def off_the_curve(raw):
    for x in range(2, 99):
        if plc_op.curves.CURVES[raw[:2]].root(x, 0) is None:
            return raw[:3] + x.to_bytes(32, "big")
    raise AssertionError


@kind("other_parity_before", None)
def other_parity_before(f):
    """A key that can be read, and is another than its neighbour, stands before the signer."""
    signer = f.fresh(1, f.rng.random() < 0.5)[0]
    raw = plc_op.key_of_text(signer.text).bytes
    before = f.lead([plc_op.text_of_key(raw[:2] + bytes([raw[2] ^ 1]) + raw[3:]), signer.text])
    return before and f.entry(seal(f.unsigned(before), signer))


@kind("last_of_64_keys", None)
def last_of_64_keys(f):
    signers = f.fresh(2)
    before = f.lead([signers[0].text] * 63 + [signers[1].text])
    return before and f.entry(seal(f.unsigned(before), signers[1]))


for which in range(len(OTHER_KEYS) + 14):
    kind(f"unreadable_key_{which}_before", "signature", which=which, before=True)(unreadable)
    kind(f"unreadable_key_{which}_behind", None, which=which, before=False)(unreadable)


def created_by_two(f, late, early):
    """A log that begins with the former genesis; the second operation is signed by one of its keys, a recovery by the other."""
    recovery, signing = f.fresh(2, f.rng.random() < 0.5)
    keys = {"recoveryKey": recovery.text, "signingKey": signing.text}
    members = {"handle": "a.example.com", "service": "https://pds.example.com", "prev": None}
    account = f.account
    account.steps, account.chain, account.did = [], [], None
    first = account.add(seal({"type": "create", **keys, **members}, signing), plc_make.START)
    by = {"recovery": recovery, "signing": signing}
    account.add(account.next_operation(first, by[late]), plc_make.START + 5, first)
    return f.entry(seal(f.unsigned(first), by[early]), plc_make.START + HOUR)


kind("create_recovered_by_recovery_key", None, late="signing", early="recovery")(created_by_two)
kind("create_recovered_by_signing_key", "key", late="recovery", early="signing")(created_by_two)


@kind("recovery_by_the_same_key", "key")
def recovery_by_the_same_key(f):
    found = branch(f, length=f.rng.randrange(1, 4))
    return found and f.entry(seal(f.unsigned(found[1]), found[0][-1]), f.account.newest() + 1)


@kind("recovery_by_a_later_key", "key")
def recovery_by_a_later_key(f):
    signers = f.fresh(3)
    before = f.lead([signer.text for signer in signers])
    if before is None:
        return None
    f.account.add(f.account.next_operation(before, signers[1]), f.account.newest() + 5, before, 1)
    return f.entry(seal(f.unsigned(before), signers[2]), f.account.newest() + 1)


@kind("recovery_by_a_key_twice", "key")
def recovery_by_a_key_twice(f):
    """The list is [a, b, a]; b signed, and is recovered from by a: valid.  Then a signed, and b recovers: not."""
    one, two = f.fresh(2)
    before = f.lead([one.text, two.text, one.text])
    if before is None:
        return None
    f.account.add(f.account.next_operation(before, one), f.account.newest() + 5, before, 0)
    return f.entry(seal(f.unsigned(before), two), f.account.newest() + 1)


@kind("recovery_by_a_key_twice_before", None)
def recovery_by_a_key_twice_before(f):
    one, two = f.fresh(2)
    before = f.lead([one.text, two.text, one.text])
    if before is None:
        return None
    f.account.add(f.account.next_operation(before, two), f.account.newest() + 5, before, 1)
    return f.entry(seal(f.unsigned(before), one), f.account.newest() + 1)


def recovery_again(f, index):
    found = recovered(f, 3)
    return found and f.entry(seal(f.unsigned(found[1]), found[0][index]), f.account.newest() + 1)


kind("recovery_of_a_recovery_by_the_same_key", "key", index=1)(recovery_again)
kind("recovery_of_a_recovery_by_the_lost_key", "key", index=2)(recovery_again)
kind("recovery_of_a_recovery", None, index=0)(recovery_again)


@kind("tombstone_recovered_by_the_same_key", "key")
def tombstone_recovered_by_the_same_key(f):
    found = bury(f)
    return found and f.entry(seal(f.unsigned(found[1]), found[0][-1]), f.account.newest() + 1)


@kind("tombstone_recovered", None)
def tombstone_recovered(f):
    found = bury(f)
    return found and f.entry(seal(f.unsigned(found[1]), found[0][0]), f.account.newest() + 1)


# --- times ---


@kind("same_time", "order")
def same_time(f):
    operation = f.next()
    return operation and f.entry(operation, f.account.newest())


@kind("earlier", "order")
def earlier(f):
    operation = f.next()
    return operation and f.entry(operation, max(0, f.account.newest() - f.account.pause()))


@kind("recovery_at_the_same_time", "order")
def recovery_at_the_same_time(f):
    found = branch(f, length=2)
    return found and f.entry(seal(f.unsigned(found[1]), found[0][0]), f.account.newest())


@kind("recovery_before_the_newest", "order")
def recovery_before_the_newest(f):
    """Later than the operation that it nullifies first, but not than the last."""
    found = branch(f, length=3)
    return found and f.entry(seal(f.unsigned(found[1]), found[0][0]), found[2][0].created + 1 if found[2][0].created + 1 < f.account.newest() else f.account.newest())  # fmt: skip


@kind("before_a_nullified_one", "order")
def before_a_nullified_one(f):
    """Behind the recovery in the chain, but not later than the recovery."""
    found = recovered(f)
    return found and f.entry(seal(f.unsigned(found[3]), found[0][0]), found[3].created - f.rng.randrange(3))


def recovery_after(f, late, of=0, length=3):
    """So many milliseconds after the window of an operation of the branch."""
    found = branch(f, p256=f.rng.random() < 0.5, length=length)
    return found and f.entry(seal(f.unsigned(found[1]), found[0][0]), found[2][of].created + WINDOW + late)


kind("recovery_a_millisecond_late", "late", late=1)(recovery_after)
kind("recovery_months_late", "late", late=99 * 24 * HOUR)(recovery_after)
kind("recovery_in_time_for_the_last_only", "late", late=0, of=-1)(recovery_after)
kind("recovery_at_the_bound", None, late=0)(recovery_after)
kind("recovery_a_millisecond_early", None, late=-1)(recovery_after)


def again_after(f, late):
    """Of a recovery: its window begins anew with it."""
    found = recovered(f, 3)
    return found and f.entry(seal(f.unsigned(found[1]), found[0][0]), found[3].created + WINDOW + late)


kind("recovery_of_a_recovery_late", "late", late=1)(again_after)
kind("recovery_of_a_recovery_at_the_bound", None, late=0)(again_after)


