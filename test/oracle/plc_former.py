#!/usr/bin/python3
"""Commits that a former key has signed: which are the account's, which are a thief's (M-40).

    plc_former.py NOW DIR     NOW: milliseconds since 1970; writes into DIR:

    log         the entries of the directory
    names       name, did, first key, present key, records at the end, sync, dead letters
    counts      entries before the rotations, all entries, messages before the rotations, all messages
    stream      the commits
    exports     commits of accounts that are fetched: one that nothing confirms; after a fetch, one by a second key
    NAME.car    the export of such an account
    labels      labels of an account, by its second label key and by its first

Each account is a case of the law: a commit by a former key counts if its revision is of the key's time, and if what
follows the commit, tree by tree, ends at a commit that the present key has signed, or at the stored one.  "theft" commits are
signed by the thief of the first key.  The key changes 5 days before NOW.  Signed by no code of the extension.
"""

import json
import sys

import full
import full_labels
import plc_full
import sign
import synth
import wire

MINUTE = 60_000
DAY = 24 * 60
GENESIS, ROTATION, SECOND = 10 * DAY, 5 * DAY, 3 * DAY
NOBODY = sign.Key("nobody's")


class Case:
    """before: commits that come while the first key is the present one; after: the others.

    A commit is (minutes before NOW, key, name of its record, how): how is "" (the account's), "theft" (nothing follows it),
    "lost" (made, but not sent), "#sync" (to the tree of the commit before).
    """

    def __init__(self, records, sync, letters, after, before=(), chain="12"):
        self.records, self.sync, self.letters = records, sync, letters
        self.before, self.after, self.chain = before, after, chain


CASES = {
    # in flight while the rotation became known
    "flight": Case("1,2,3", "synchronized", 0, [(8 * DAY, 1, "1", ""), (7 * DAY, 1, "2", ""), (DAY, 2, "3", "")]),
    "two": Case("1,2,3", "synchronized", 0, [(8 * DAY, 1, "1", ""), (4 * DAY, 2, "2", ""), (DAY, 3, "3", "")], chain="123"),
    "synced": Case("1,2", "synchronized", 0, [(8 * DAY, 1, "1", ""), (7 * DAY, 1, "", "#sync"), (DAY, 2, "2", "")]),
    "tolerated": Case("1,2", "synchronized", 0, [(ROTATION - 9, 1, "1", ""), (DAY, 2, "2", "")]),
    # nothing newer confirms it
    "alone": Case("", None, 1, [(8 * DAY, 1, "1", "")]),
    "lost": Case("3", "partial", 1, [(8 * DAY, 1, "1", ""), (7 * DAY, 1, "2", "lost"), (DAY, 2, "3", "")]),
    # not of the key's time
    "over": Case("2", "partial", 1, [(ROTATION - 11, 1, "1", ""), (DAY, 2, "2", "")]),
    "early": Case("2", "partial", 1, [(20 * DAY, 1, "1", ""), (DAY, 2, "2", "")]),
    "swapped": Case("2", "partial", 1, [(4 * DAY, 1, "1", ""), (DAY, 3, "2", "")], chain="123"),
    # a recovery took the second key back
    "nullified": Case("3", "partial", 1, [(4 * DAY + 600, 2, "2", ""), (DAY, 3, "3", "")], chain="1x3"),
    "recovered": Case("1,3", "synchronized", 0, [(8 * DAY, 1, "1", ""), (DAY, 3, "3", "")], chain="1x3"),
    # a thief of the first key
    "backdated": Case("1", "synchronized", 1, [(6 * DAY, 1, "x", "theft")], [(8 * DAY, 1, "1", "")]),
    "late": Case("1", "synchronized", 1, [(2 * DAY, 1, "x", "theft")], [(8 * DAY, 1, "1", "")]),
    "inserted": Case("1,3", "synchronized", 1, [(6 * DAY, 1, "x", "theft"), (DAY, 2, "3", "")], [(8 * DAY, 1, "1", "")]),
    "between": Case("1,2,3", "synchronized", 1, [(8 * DAY, 1, "1", ""), (7 * DAY + 60, 1, "x", "theft"), (7 * DAY, 1, "2", ""), (DAY, 2, "3", "")]),
    "stranger": Case("3", "partial", 2, [(8 * DAY, 1, "1", ""), (7 * DAY, 0, "2", ""), (DAY, 2, "3", "")]),
    # read again
    "refilled": Case("1,2,3", "synchronized", 0, [(7 * DAY + 60, 1, "x", "theft")], [(n * DAY, 1, str(10 - n), "") for n in (9, 8, 7)]),
    "continued": Case("1,2,3", "synchronized", 0, [(DAY, 2, "3", "")], [(9 * DAY, 1, "1", ""), (8 * DAY, 1, "2", "")]),
}
# Whose exports are fetched: only one commit, of records 1 and 2.
EXPORTS = {
    "moved": Case("1,2", "synchronized", 0, [(8 * DAY, 1)]),
    "misdated": Case("", None, 0, [(2 * DAY, 1)]),
    "retaken": Case("", None, 0, [(4 * DAY + 600, 2)], chain="1x3"),
    "waiting": Case("1,2", "synchronized", 0, [(8 * DAY, 1)]),
    "labeler": Case("", None, 0, []),
}
for name, case in {**CASES, **EXPORTS}.items():
    case.name = name


class Keys(dict):
    """The nth keys of accounts, made when they are needed: that takes a while."""

    def __init__(self, n):
        super().__init__()
        self.n = n

    def __missing__(self, name):
        self[name] = sign.Key(f"former {name} {self.n}", "p256" if (len(name) + self.n) % 3 == 0 else "k256")
        return self[name]


KEYS = [None, Keys(1), Keys(2), Keys(3)]
LABELS = [None, Keys(1), Keys(2)]


def logs_of(now):
    """The logs: the geneses, and what follows."""
    logs, rest = {}, []
    for i, (name, case) in enumerate({**CASES, **EXPORTS}.items()):
        log = logs[name] = plc_full.Log(name, now - GENESIS * MINUTE + i, KEYS[1], LABELS[1]["label"] if name == "labeler" else None)
        genesis = log.entries[0]["cid"]
        prev = log.add(now - ROTATION * MINUTE, KEYS[2], plc_full.SERVER, genesis, server="new.example.com" if name in EXPORTS else "pds.example.com",
                       label=LABELS[2]["label"] if name == "labeler" else None)
        if case.chain == "1x3":
            log.add(now - 4 * DAY * MINUTE, KEYS[3], plc_full.OWNER, genesis)
        elif case.chain == "123":
            log.add(now - SECOND * MINUTE, KEYS[3], plc_full.SERVER, prev)
        rest += log.entries[1:]
    return logs, [log.entries[0] for log in logs.values()], rest


def messages(s, now, logs):
    """Those before the rotations, and those after."""

    def make(case, minutes, key, record, how):
        who = logs[case.name].did
        rev = synth.tid((now - minutes * MINUTE) * 1000 - synth.EPOCH)
        s.keys[who] = KEYS[key][case.name] if key else NOBODY
        if how == "#sync":
            return s.sync(who, rev, s.heads[who][1])
        if how == "theft":
            return s.beside(who, lambda: s.commit(who, rev, [full.post(record)]))
        if how == "lost":
            s.seq -= 1
            s.commit(who, rev, [full.post(record)])
            return None
        return s.commit(who, rev, [full.post(record)])

    for which in ("before", "after"):
        yield [m for case in CASES.values() for m in [make(case, *one) for one in getattr(case, which)] if m]


def exported(s, now, logs, name):
    """The commit of the export as a message, which the account's next commit follows."""
    (minutes, key), = EXPORTS[name].after
    s.keys[logs[name].did] = KEYS[key][name]
    return s.commit(logs[name].did, synth.tid((now - minutes * MINUTE) * 1000 - synth.EPOCH), [full.post("1"), full.post("2")])


def export(now, logs, name):
    """A first commit has all blocks of the repository."""
    return wire.frame(exported(full.Stream(), now, logs, name))[1]["blocks"]


def messages_beside(s, now, logs):
    yield exported(s, now, logs, "waiting")
    exported(s, now, logs, "moved")
    s.seq -= 1
    s.keys[logs["moved"].did] = KEYS[2]["moved"]
    yield s.commit(logs["moved"].did, synth.tid((now - DAY * MINUTE) * 1000 - synth.EPOCH), [full.post("3")])


def labels(s, logs):
    yield s.labels(full_labels.label(logs["labeler"].did, "present", LABELS[2]["label"]))
    yield s.labels(full_labels.label(logs["labeler"].did, "former", LABELS[1]["label"]))


def write(path, data):
    with open(path, "wb") as f:
        f.write(data if isinstance(data, bytes) else "".join(line + "\n" for line in data).encode())


def capture(path, made):
    with open(path, "wb") as f:
        synth.write(made, f)


def main():
    now, where = int(sys.argv[1]), sys.argv[2]
    logs, geneses, rest = logs_of(now)
    before, after = messages(full.Stream(), now, logs)
    every = {**CASES, **EXPORTS}
    write(f"{where}/log", (json.dumps({"seq": 10 * n + 10, **entry}) for n, entry in enumerate(geneses + rest)))
    write(f"{where}/names", (
        "\t".join((name, logs[name].did, *(KEYS[int(n)][name].multikey.hex() for n in ("1", case.chain[-1])), case.records, case.sync or "", str(case.letters)))
        for name, case in every.items()))
    write(f"{where}/counts", ["\t".join(map(str, (10 * len(geneses), 10 * len(geneses + rest), len(before), len(before + after))))])
    capture(f"{where}/stream", before + after)
    capture(f"{where}/exports", messages_beside(full.Stream(), now, logs))
    capture(f"{where}/labels", labels(full_labels.Stream(), logs))
    for name in EXPORTS:
        if EXPORTS[name].after:
            write(f"{where}/{name}.car", export(now, logs, name))


if __name__ == "__main__":
    main()
