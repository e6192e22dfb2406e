#!/usr/bin/python3
"""Accounts of a did:plc directory whose keys change while their commits come (M-30, M-31, D-5 of the rules).

    plc_full.py log NOW > FILE       the entries of the directory; NOW: milliseconds since 1970
    plc_full.py stream NOW > FILE    the commits
    plc_full.py names NOW            name, did, first key, second key, handle

Operations are signed and encoded by plc_op.py and plc_make.py, commits by sign.py: no code of the extension.
"""

import json
import sys

import full
import plc_make
import plc_op
import sign
import synth
from plc_chain import text_of_time

MINUTE = 60_000
NAMES = ("steady", "rotated", "early", "announced", "misused", "dead", "back", "new", "later", "moved")
OWNER, SERVER = plc_make.Signer("owner", plc_make.curves.K256), plc_make.Signer("server", plc_make.curves.K256)
FIRST = {name: sign.Key(f"plc {name} 1", "p256" if name in ("back", "new") else "k256") for name in NAMES}
SECOND = {name: sign.Key(f"plc {name} 2") for name in NAMES}


def handle_of(name, n=1):
    return f"{name}{n}.example.com"


class Log:
    """The operations of one account, each behind the one before unless prev says otherwise."""

    def __init__(self, name, created, keys=FIRST, label=None):
        self.name, self.entries = name, []
        self.did = None
        self.add(created, keys, SERVER, None, label=label)

    def add(self, created, keys, signer, prev, tombstone=False, server="pds.example.com", handle=1, label=None):
        labels = {"atproto_label": plc_op.text_of_key(label.multikey)} if label else {}
        if tombstone:
            operation = {"type": "plc_tombstone", "prev": prev}
        else:
            operation = {
                "type": "plc_operation",
                "rotationKeys": [OWNER.text, SERVER.text],
                "verificationMethods": {"atproto": plc_op.text_of_key(keys[self.name].multikey), **labels},
                "alsoKnownAs": ["at://" + handle_of(self.name, handle).title()],
                "services": {"atproto_pds": {"type": "AtprotoPersonalDataServer", "endpoint": "https://" + server}},
                "prev": prev,
            }
        operation = plc_make.seal(operation, signer)
        encoded = plc_op.encode(operation)
        self.did = self.did or plc_op.did_of(encoded)
        cid = plc_op.cid_of(encoded)
        self.entries.append({"type": "sequenced_op", "did": self.did, "operation": operation, "cid": cid, "createdAt": text_of_time(created)})
        return cid


def make(now):
    """The logs, and the entries in the order of their numbers."""
    logs = {name: Log(name, now - 50 * MINUTE + n) for n, name in enumerate(NAMES)}
    genesis = {name: logs[name].entries[0]["cid"] for name in NAMES}

    def rotate(name, minute, signer=SERVER, **more):
        return logs[name].add(now - minute * MINUTE, more.pop("keys", SECOND), signer, more.pop("prev", genesis[name]), **more)

    for n, name in enumerate(("rotated", "misused", "back", "early")):
        rotate(name, 40 - n)
    # a recovery by the key with more authority nullifies the rotation
    rotate("back", 30, OWNER, keys=FIRST)
    rotate("dead", 29, tombstone=True)
    rotate("later", 28)
    rotate("moved", 27, server="other.example.com", handle=2)
    first = [logs[name].entries[0] for name in NAMES if name != "new"]
    rest = [logs[name].entries[1] for name in ("rotated", "misused", "back")]
    rest += [logs["early"].entries[1], logs["new"].entries[0], logs["back"].entries[2], logs["dead"].entries[1]]
    rest += [logs["later"].entries[1], logs["moved"].entries[1]]
    return logs, [{"seq": 10 * n + 10, **entry} for n, entry in enumerate(first + rest)]


def stream(s, logs):
    def commit(name, n, keys):
        who = logs[name].did
        s.keys[who] = keys[name]
        return s.commit(who, full.rev(n), [full.post(str(n))])

    # to 7
    for name in ("steady", "rotated", "early", "announced", "misused", "dead", "back"):
        yield commit(name, 10, FIRST)
    # to 13: rotated and back have the second key, and so has early, which the log does not know yet
    yield commit("rotated", 20, SECOND)
    yield commit("early", 20, SECOND)
    yield s.identity(logs["announced"].did)
    yield commit("announced", 20, FIRST)
    yield commit("new", 10, FIRST)
    yield commit("back", 20, SECOND)
    # to 17: the second key of back was nullified, the first key of misused was revoked
    yield commit("back", 30, FIRST)
    yield commit("dead", 20, FIRST)
    yield commit("steady", 20, FIRST)
    yield commit("misused", 20, FIRST)


def main():
    what, now = sys.argv[1], int(sys.argv[2])
    logs, entries = make(now)
    if what == "log":
        for entry in entries:
            print(json.dumps(entry))
    elif what == "names":
        for name in NAMES:
            print(name, logs[name].did, FIRST[name].multikey.hex(), SECOND[name].multikey.hex(), sep="\t")
    else:
        synth.write(stream(full.Stream(), logs), sys.stdout.buffer)


if __name__ == "__main__":
    main()
