#!/usr/bin/python3
"""Signed commits, true and forged, of accounts each of which is a case (V-05 to V-15, V-40 to V-44, V-47, V-48).

    full.py attacks > FILE             an honest commit, one that is wrong, and an honest one, of each account
    full.py attacks --expect           did, its key, case, what becomes of the wrong one, state at the end
    full.py rotations > FILE           accounts whose keys change, whose keys are not known, or that fork
    full.py rotations --keys           did, first key, second key
    full.py statuses > FILE            accounts that are not active, and sign commits
    full.py statuses --keys            name, did, key
    full.py deletions > FILE           accounts of which the stream says that they were deleted
    full.py deletions --keys           name, did, key
    full.py lies > FILE                accounts of which the stream says what is not so, one thing after the other
    full.py lies --keys                name, did, key
    full.py refused > FILE             two accounts, one of which is not known
    full.py again > FILE               accounts whose events are read or tried again, after their keys have changed
    full.py again --keys               name, did, first key, second key
    full.py behind > FILE              a forged commit of one of them, its #identity, and a commit that its second key has signed
    full.py ignored > FILE             two of the same accounts, which make a commit while they are not active
    full.py hosts > FILE               accounts of one server, and of others; their keys are those that rotations calls their first
    full.py outage > FILE              accounts that are known when the directory goes away, and such as come meanwhile and later
    full.py outage --keys              did, key
    full.py large N BYTES > FILE       N commits of the account that rotations calls unknown, each with a record of so many bytes
    full.py sizes BYTES... > FILE      likewise a commit of it and of other accounts each
    full.py order > FILE               an account's commits before it is deactivated, and after it is active again; one before a deletion
    full.py returns > FILE             an account's commits, its deletion, and the first commits of the account that comes after that
    full.py flood N M > FILE           N forged commits of one account, and one each of M others

The messages of all accounts come one after the other: first all first ones, and so on.
"""

import random
import sys

import sign
import synth

POST = "app.bsky.feed.post/"


def post(name):
    return ("create", POST + name, synth.post(name))


def rev(n):
    return synth.tid(n)


class Stream(synth.Stream):
    """Commits are signed by the keys of their accounts; how() gives another signature of a commit."""

    def __init__(self):
        super().__init__()
        self.keys = {}
        self.how = None

    def signed(self, who, rev, data, **changes):
        commit = {"did": who, "version": 3, "data": synth.link(data), "rev": rev, "prev": None, **changes}
        key = self.keys[who]
        sig = self.how(key, commit) if self.how else key.sign(synth.encode(commit))
        return synth.encode({**commit, "sig": sig})

    def beside(self, who, make):
        """A message that the account's next one does not follow."""
        head, records = self.heads.get(who), self.records.get(who)
        message = make()
        for known, value in ((self.heads, head), (self.records, records)):
            known.pop(who, None)
            if value is not None:
                known[who] = value
        return message


# --- attacks ---

OTHER = sign.Key("somebody else's")
OTHER_P256 = sign.Key("somebody else's", "p256")


# 50 years
FUTURE = 50 * 365 * 24 * 3600 * 10**6


def numbers(change):
    def how(key, commit):
        r, s = key.numbers(synth.encode(commit))
        return change(key, r, s)

    return how


def signed_as(**changes):
    """The signature of another commit."""
    return lambda key, commit: key.sign(synth.encode({**commit, **changes}))


def wrong(how=None, ops=None, curve="k256", stage="signature", kind="commit", at=None, **commit):
    """A case: how the wrong commit is made, and the stage of the dead letter that it becomes."""

    def make(s, who, n):
        s.how = how
        try:
            if kind == "sync":
                return s.sync(who, rev(at or n))
            return s.commit(who, rev(at or n), ops or [post("x")], **commit)
        finally:
            s.how = None

    return make, curve, stage


def by(key):
    return lambda _, commit: key.sign(synth.encode(commit))


def pad(n):
    return numbers(lambda key, r, s: (sign.pack(r, s) + b"\0\0")[:n])


def omit(parts):
    parts["ops"].pop()


ATTACKS = {
    "by another key": wrong(by(OTHER)),
    "by a key of the other curve": wrong(by(OTHER_P256)),
    "by another key, P-256": wrong(by(OTHER_P256), curve="p256"),
    "high S": wrong(numbers(lambda key, r, s: sign.pack(r, key.order - s))),
    "high S, P-256": wrong(numbers(lambda key, r, s: sign.pack(r, key.order - s)), curve="p256"),
    "r is 0": wrong(numbers(lambda key, r, s: sign.pack(0, s))),
    "s is 0": wrong(numbers(lambda key, r, s: sign.pack(r, 0))),
    "r is n": wrong(numbers(lambda key, r, s: sign.pack(key.order, s))),
    "s is n": wrong(numbers(lambda key, r, s: sign.pack(r, key.order))),
    "r is 0, P-256": wrong(numbers(lambda key, r, s: sign.pack(0, s)), curve="p256"),
    "s is n, P-256": wrong(numbers(lambda key, r, s: sign.pack(r, key.order)), curve="p256"),
    "r and s changed places": wrong(numbers(lambda key, r, s: sign.pack(s, r))),
    "of another revision": wrong(signed_as(rev=synth.tid(19))),
    "of another account": wrong(signed_as(did=synth.did(1))),
    "with sig null": wrong(signed_as(sig=None)),
    "a field added afterwards": wrong(lambda key, commit: key.sign(synth.encode({k: v for k, v in commit.items() if k != "more"})), more=1),
    "zeros": wrong(lambda *_: bytes(64)),
    "forged, with an operation left out": wrong(by(OTHER), ops=[post("x"), post("y")], breaks=omit),
    "forged, with a record that is none": wrong(by(OTHER), ops=[("create", POST + "x", {"no": "type"})]),
    "forged, with a delete of a record": wrong(by(OTHER), ops=[("delete", POST + "a", None)]),
    "a forged #sync": wrong(by(OTHER), kind="sync"),
    "forged, of a future revision": wrong(by(OTHER), at=FUTURE),
    "a forged #sync of a future revision": wrong(by(OTHER), at=FUTURE, kind="sync"),
    "honest, but of a future revision": wrong(stage="commit", at=FUTURE),
    "DER": wrong(numbers(lambda key, r, s: sign.der(r, s)), stage="commit"),
    "63 bytes": wrong(pad(63), stage="commit"),
    "65 bytes": wrong(pad(65), stage="commit"),
    "no bytes": wrong(lambda *_: b"", stage="commit"),
    "null": wrong(lambda *_: None, stage="commit"),
    "version 2": wrong(stage="commit", version=2),
    "a field that nobody knows": wrong(stage="", more={"a": [1, 2]}),
    "P-256": wrong(stage="", curve="p256"),
    "honest, with an operation left out": wrong(ops=[post("x"), post("y")], breaks=omit, stage="commit"),
}


def attacks(s):
    accounts = []
    for i, (make, curve, stage) in enumerate(ATTACKS.values()):
        who = synth.did(i + 1)
        s.keys[who] = sign.Key(who, curve)
        accounts.append((who, make, stage))
    for who, _, _ in accounts:
        yield s.commit(who, rev(10), [post("a")])
    for who, make, stage in accounts:
        yield make(s, who, 20) if stage == "" else s.beside(who, lambda: make(s, who, 20))
    for who, _, _ in accounts:
        yield s.commit(who, rev(30), [post("b")])


def expect_attacks():
    for i, (name, (_, curve, stage)) in enumerate(ATTACKS.items()):
        who = synth.did(i + 1)
        # one that the account has signed says that there is more than is known
        state = "desynchronized" if name.startswith("honest, with") else "synchronized"
        yield who, sign.Key(who, curve).multikey.hex(), name, stage, state


# --- keys that change ---

NAMES = ("unknown", "rotated", "announced", "former", "gone", "forked", "old", "deleted", "elsewhere")
WHO = {name: synth.did(100 + i) for i, name in enumerate(NAMES)}
FIRST = {name: sign.Key(name + " 1") for name in NAMES}
SECOND = {name: sign.Key(name + " 2", "p256") for name in NAMES}


def rotations(s):
    def commit(name, n, key):
        s.keys[WHO[name]] = key[name]
        return s.commit(WHO[name], rev(n), [post(str(n))])

    # to 9: all begin
    for name in NAMES:
        yield commit(name, 10, FIRST)
    # to 14
    yield commit("unknown", 20, FIRST)
    yield commit("rotated", 20, SECOND)
    yield s.identity(WHO["announced"], "announced.example.com")
    yield commit("announced", 20, SECOND)
    yield s.identity(WHO["former"])
    # to 19: some of whom one waits
    yield commit("former", 20, FIRST)
    yield commit("unknown", 30, FIRST)
    yield commit("rotated", 30, SECOND)
    yield commit("gone", 20, FIRST)
    s.keys[WHO["forked"]] = FIRST["forked"]
    yield s.beside(WHO["forked"], lambda: s.commit(WHO["forked"], rev(10), [post("other")]))
    # to 24
    s.keys[WHO["old"]] = SECOND["old"]
    yield s.beside(WHO["old"], lambda: s.commit(WHO["old"], rev(5), [post("forged")]))
    yield commit("former", 30, SECOND)
    yield commit("deleted", 20, SECOND)
    yield s.account(WHO["deleted"], False, "deleted")
    yield commit("elsewhere", 20, FIRST)


def refused(s):
    """The test refuses the third one's record; the second one waits."""
    for name, n in (("rotated", 10), ("unknown", 10), ("rotated", 20)):
        s.keys[WHO[name]] = FIRST[name]
        yield s.commit(WHO[name], rev(n), [post(str(n))])
    yield s.account(WHO["unknown"], True)
    yield s.commit(WHO["unknown"], rev(30), [post("30")])


def keys():
    for name in NAMES:
        yield name, WHO[name], FIRST[name].multikey.hex(), SECOND[name].multikey.hex()


# --- a server's accounts, and others' (V-44) ---

HERE, MOVED, ELSEWHERE, UNKNOWN = "announced", "former", "elsewhere", "unknown"


def hosts(s):
    def commit(name, n):
        s.keys[WHO[name]] = FIRST[name]
        return s.commit(WHO[name], rev(n), [post(str(n))])

    # to 4
    for name in (HERE, MOVED, ELSEWHERE, UNKNOWN):
        yield commit(name, 10)
    # to 10: one has moved away by now
    yield s.account(WHO[MOVED], False, "deleted")
    yield commit(MOVED, 20)
    yield s.account(WHO[HERE], False, "deactivated")
    yield s.account(WHO[ELSEWHERE], False, "takendown")
    yield s.sync(WHO[ELSEWHERE], rev(15))
    yield commit(UNKNOWN, 20)
    # to 13: one has come
    yield commit(ELSEWHERE, 20)
    yield s.account(WHO[ELSEWHERE], False, "suspended")
    yield commit(MOVED, 30)


# --- the directory goes away ---

MANY = [sign.Key(f"outage {i}", "p256" if i % 3 == 0 else "k256") for i in range(10)]


def outage(s):
    def commit(i, n):
        s.keys[synth.did(400 + i)] = MANY[i]
        return s.commit(synth.did(400 + i), rev(n), [post(str(n))])

    # to 3: these are known
    for i in range(3):
        yield commit(i, 10)
    # to 13: others come
    yield commit(0, 20)
    yield commit(3, 10)
    yield commit(4, 10)
    yield s.identity(synth.did(401))
    yield commit(1, 20)
    yield commit(3, 20)
    yield commit(5, 10)
    yield commit(2, 20)
    yield commit(4, 20)
    yield commit(3, 30)
    # to 17, 20, 23: one, one, and one more
    for i in (6, 7, 8):
        yield commit(i, 10)
        yield commit(0, 10 * i - 30)
        if i == 6:
            yield commit(1, 30)
        yield commit(i, 20)
    # to 26
    for i in (3, 6, 7):
        yield commit(i, 40)


def outage_keys():
    for i, key in enumerate(MANY[:9]):
        yield synth.did(400 + i), key.multikey.hex()


# --- what is read, or tried, again ---

AGAIN = ("same", "turned", "late")
OF = {name: synth.did(150 + i) for i, name in enumerate(AGAIN)}
KEYS = {name: (sign.Key(name + " 1"), sign.Key(name + " 2")) for name in AGAIN}


def again(s):
    def commit(name, n, key=0):
        s.keys[OF[name]] = KEYS[name][key]
        return s.commit(OF[name], rev(n), [post(str(n))])

    # to 4
    yield commit("same", 10)
    yield commit("turned", 10)
    yield commit("same", 20)
    yield commit("turned", 20, 1)
    # to 7: the last two come in the wrong order
    yield commit("late", 10)
    s.seq += 1
    older = commit("late", 20)
    s.seq -= 2
    yield commit("late", 30)
    s.seq += 1
    yield older
    # to 9, 10
    yield commit("same", 30)
    yield commit("turned", 30, 1)
    yield commit("turned", 40, 1)


def again_keys():
    for name in AGAIN:
        yield name, OF[name], *(key.multikey.hex() for key in KEYS[name])


def behind(s):
    s.keys[OF["late"]] = KEYS["late"][0]
    s.how = by(OTHER)
    yield s.commit(OF["late"], rev(10), [post("10")])
    s.how = None
    s.keys[OF["late"]] = KEYS["late"][1]
    yield s.identity(OF["late"])
    yield s.commit(OF["late"], rev(20), [post("20")])


def ignored(s):
    """One of the two is active again."""
    def commit(name, n):
        s.keys[OF[name]] = KEYS[name][0]
        return s.commit(OF[name], rev(n), [post(str(n))])

    # to 4
    yield commit("late", 10)
    yield commit("turned", 10)
    for name in ("late", "turned"):
        yield s.account(OF[name], False, "deactivated")
    # to 7
    yield commit("late", 20)
    yield commit("turned", 20)
    yield s.account(OF["late"], True)


# --- accounts that are not active, and sign commits (V-39) ---

STATUSES = ("active", "takendown", "refused", "not-found", "forged", "raced", "back", "silent", "parked")
HAS = {name: synth.did(200 + i) for i, name in enumerate(STATUSES)}


def statuses(s):
    """All begin; none is active; all sign a commit; one is active again; another commit each; once more."""
    for name in STATUSES:
        s.keys[HAS[name]] = sign.Key(name)
        yield s.commit(HAS[name], rev(10), [post("10")])
    for name in STATUSES:
        yield s.account(HAS[name], False, "deactivated")
    for name in STATUSES:
        s.how = by(OTHER) if name == "forged" else None
        yield s.commit(HAS[name], rev(20), [post("20")])
    yield s.account(HAS["raced"], False, "suspended")
    for n in (30, 40):
        for name in STATUSES:
            s.how = by(OTHER) if name == "forged" else None
            yield s.commit(HAS[name], rev(n), [post(str(n))])


def status_keys():
    for name in STATUSES:
        yield name, HAS[name], sign.Key(name).multikey.hex()


# --- accounts that are deleted, by the stream (V-47) ---

DELETIONS = ("deleted", "refused", "unknown", "tombstoned", "alive", "takendown", "silent", "back", "again")
GOES = {name: synth.did(300 + i) for i, name in enumerate(DELETIONS)}


def deletions(s):
    """All begin, with a record that the test refuses; all are deleted, and one that is not known; two are active again,
    one of them until it is deleted once more; commits of one that was not, and of one that is not active for another reason."""

    def account(who, active):
        # what the account has stays what it was: the stream may be wrong
        status = {} if active else {"status": "deleted"}
        return s.message("#account", {"did": who, "active": active, "time": "2026-01-01T12:00:00.000Z", **status})

    for name in DELETIONS:
        s.keys[GOES[name]] = sign.Key(name)
        yield s.commit(GOES[name], rev(10), [post("10"), post("bad")])
    for name in DELETIONS:
        yield s.commit(GOES[name], rev(20), [post("20")])
    for name in DELETIONS:
        yield account(GOES[name], False)
    yield account(synth.did(399), False)
    for name in ("back", "again"):
        yield account(GOES[name], True)
        yield s.commit(GOES[name], rev(30), [post("30")])
    yield account(GOES["again"], False)
    for name in ("alive", "takendown"):
        yield s.commit(GOES[name], rev(30), [post("30")])


def deletion_keys():
    for name in DELETIONS:
        yield name, GOES[name], sign.Key(name).multikey.hex()


# --- what a stream says of accounts, and is not so ---

LIES = ("asked", "fetched", "former", "refused", "copied", "giant", "large")
LIED = {name: synth.did(500 + i) for i, name in enumerate(LIES)}


def lies(s):
    def commit(name, n):
        return s.commit(LIED[name], rev(n), [post(str(n))])

    def account(name, status=None):
        fields = {"did": LIED[name], "active": status is None, "time": "2026-01-01T12:00:00.000Z"}
        return s.message("#account", fields | ({"status": status} if status else {}))

    # to 6: all begin but one
    for name in LIES:
        s.keys[LIED[name]] = sign.Key(name)
        if name != "fetched":
            yield commit(name, 10)
    # to 14
    yield account("asked", "deactivated")
    yield commit("asked", 20)
    yield account("former", "deactivated")
    for name in ("fetched", "refused", "copied", "giant", "large"):
        yield account(name, "deleted")
    # to 17: what was asked about is of another time
    yield account("asked")
    yield account("asked", "takendown")
    yield commit("asked", 30)


def lie_keys():
    for name in LIES:
        yield name, LIED[name], sign.Key(name).multikey.hex()


# --- what waits while the account's status changes ---


def order(s):
    """The keys are those that rotations calls the first of unknown and gone."""
    def commit(name, n):
        s.keys[WHO[name]] = FIRST[name]
        return s.commit(WHO[name], rev(n), [post(str(n))])

    # to 4
    for n in (10, 20, 30):
        yield commit("unknown", n)
    yield commit("gone", 10)
    # to 6
    yield s.account(WHO["unknown"], False, "deactivated")
    yield s.account(WHO["gone"], False, "deleted")
    # to 8
    yield s.account(WHO["unknown"], True)
    yield commit("unknown", 40)


def returns(s):
    """The key is the one that rotations calls the first of unknown."""
    who = WHO["unknown"]
    s.keys[who] = FIRST["unknown"]
    # to 3
    for n in (10, 20, 30):
        yield s.commit(who, rev(n), [post(str(n))])
    # to 5
    yield s.message("#account", {"did": who, "active": False, "status": "deleted", "time": "2026-01-01T12:00:00.000Z"})
    s.heads.pop(who)
    s.records.pop(who)
    yield s.message("#account", {"did": who, "active": True, "time": "2026-01-01T12:00:01.000Z"})
    # to 7
    for n in (40, 50):
        yield s.commit(who, rev(n), [post(str(n))])


# --- floods ---


def flood(s, n, m):
    """No signature at all is made of these: only random bytes."""
    seed = random.Random(1)
    s.how = lambda key, commit: seed.randbytes(64)
    for i in range(m + 1):
        s.keys[synth.did(1000 + i)] = OTHER
    for i in range(max(n, m)):
        if i < n:
            yield s.commit(synth.did(1000), rev(10 + i), [post(str(i))])
        if i < m:
            yield s.commit(synth.did(1001 + i), rev(10), [post("x")])


# --- what does not fit ---


def sized(name, size):
    return "create", f"{POST}{name}", synth.post("x" * size)


def large(s, n, size):
    s.keys[WHO["unknown"]] = FIRST["unknown"]
    for i in range(n):
        yield s.commit(WHO["unknown"], rev(10 * i + 10), [sized(i, size)])


def sizes(s, *sizes):
    for i, size in enumerate(sizes):
        who = synth.did(1000 + i) if i > 0 else WHO["unknown"]
        s.keys[who] = FIRST["unknown"]
        yield s.commit(who, rev(10), [sized(i, size)])


def main():
    what, *more = sys.argv[1:]
    if more in (["--expect"], ["--keys"]):
        for row in {"attacks": expect_attacks, "rotations": keys, "statuses": status_keys, "deletions": deletion_keys, "lies": lie_keys, "outage": outage_keys, "again": again_keys}[what]():
            print("\t".join(row))
        return
    s = Stream()
    make = {
        "attacks": attacks,
        "rotations": rotations,
        "statuses": statuses,
        "deletions": deletions,
        "lies": lies,
        "refused": refused,
        "again": again,
        "behind": behind,
        "ignored": ignored,
        "hosts": hosts,
        "outage": outage,
        "order": order,
        "returns": returns,
        "flood": flood,
        "large": large,
        "sizes": sizes,
    }[what]
    synth.write(make(s, *map(int, more)), sys.stdout.buffer)


if __name__ == "__main__":
    main()
