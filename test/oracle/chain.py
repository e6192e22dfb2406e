#!/usr/bin/python3
"""Commits whose operations contradict their trees, each of a separate account (V-17, V-26 to V-38).

    chain.py > FILE          a capture
    chain.py --last          the seq of the last message; some earlier messages are lost
    chain.py --expect        did, case, state at the end, effect of the case: applied, refused or nothing

Each account begins with its first two commits; then comes the case, and
then a commit that continues the account's tree.
"""

import sys

import synth

POST = "app.bsky.feed.post/"


def create(*keys):
    return [("create", POST + key, synth.post(key)) for key in keys]


def drop_op(parts):
    parts["ops"].pop()


def drop_ops(parts):
    parts["ops"].clear()


def invent_create(parts):
    """A record that was there before."""
    parts["ops"].append({"action": "create", "path": POST + "a", "cid": synth.link(synth.cid(synth.encode(synth.post("a"))))})
    body = synth.encode(synth.post("a"))
    parts["blocks"].append((synth.cid(body), body))


def invent_delete(parts):
    """A record that never was."""
    parts["ops"].append({"action": "delete", "path": POST + "never", "cid": None, "prev": synth.link(synth.cid(b"never"))})


def alter_prev(parts):
    parts["ops"][-1]["prev"] = synth.link(synth.cid(b"other"))


def alter_cid(parts):
    """A block that is there, but not what the tree has."""
    body = synth.encode(synth.post("other"))
    parts["blocks"].append((synth.cid(body), body))
    parts["ops"][0]["cid"] = synth.link(synth.cid(body))


def other_tree(stream, who, rev, ops):
    """prevData is right, but the tree has a record that no operation names."""
    secret = synth.cid(synth.encode(synth.post("secret")))
    stream.records[who] = {**stream.records[who], POST + "secret": secret}
    honest = stream.heads[who]
    data = synth.tree(stream.records[who])[0]
    stream.heads[who] = honest[0], data
    message = stream.commit(who, rev, ops)
    return message.replace(data, honest[1])


def case(ops=None, **how):
    return lambda s, who, rev: [s.commit(who, rev, ops or create("x"), **how)]


def lost(s, who, rev):
    s.commit(who, rev - 1, create("gone"))
    return [s.commit(who, rev, create("x"))]


def nothing_lost(s, who, rev):
    """What two commits did and undid."""
    s.commit(who, rev - 2, create("gone"))
    s.commit(who, rev - 1, [("delete", POST + "gone", None)])
    return [s.commit(who, rev, create("x"))]


def stripped(s, who, rev):
    s.heads[who] = s.heads[who][0], b""
    return [s.commit(who, rev, create("x"))]


def stripped_after_a_loss(s, who, rev):
    s.commit(who, rev - 1, create("gone"))
    return stripped(s, who, rev)


def inactive(s, who, rev):
    return [s.account(who, False, "deactivated"), s.commit(who, rev, create("x")), s.account(who, True)]


def anew(s, who, rev):
    return [s.account(who, False, "deleted"), s.account(who, True), s.commit(who, rev, create("x"))]


def spoilt_anew(s, who, rev):
    return [s.account(who, False, "deleted"), s.account(who, True), s.commit(who, rev, create("x"), breaks=drop_ops)]


def same_sync(s, who, rev):
    return [s.sync(who, rev, s.heads[who][1])]


def old(breaks):
    def make(s, who, rev):
        del rev
        return [s.commit(who, 15, create("x"), breaks=breaks)]

    return make


SYNCED, UNPROVEN, BROKEN = "synchronized", "unproven", "desynchronized"
CASES = [
    ("honest", case(), SYNCED, "applied"),
    ("honest in other order", case(create("z", "x")), SYNCED, "applied"),
    ("honest update and delete", case([("update", POST + "a", synth.post("a 2")), ("delete", POST + "b", None), *create("x")]), SYNCED, "applied"),
    ("an operation omitted", case(create("x", "y"), breaks=drop_op), BROKEN, "refused"),
    ("all operations omitted", case(breaks=drop_ops), BROKEN, "refused"),
    ("a create invented", case(breaks=invent_create), BROKEN, "refused"),
    ("a delete invented", case(breaks=invent_delete), BROKEN, "refused"),
    ("prev altered", case([*create("x"), ("update", POST + "a", synth.post("a 2"))], breaks=alter_prev), BROKEN, "refused"),
    ("another record than the tree's", case(breaks=alter_cid), BROKEN, "refused"),
    ("prevData right, the tree another", lambda s, who, rev: [other_tree(s, who, rev, create("x"))], BROKEN, "refused"),
    ("prevData missing", stripped, UNPROVEN, "applied"),
    ("prevData missing after a loss", stripped_after_a_loss, BROKEN, "applied"),
    ("a commit lost", lost, BROKEN, "applied"),
    ("commits lost that come to nothing", nothing_lost, SYNCED, "applied"),
    ("a record that is none", case([("create", POST + "x", {"no": "type"})]), UNPROVEN, "nothing"),
    ("inactive meanwhile", inactive, BROKEN, "nothing"),
    ("deleted, and begun anew", anew, SYNCED, "applied"),
    ("deleted, and begun anew with what nobody can tell", spoilt_anew, UNPROVEN, "nothing"),
    ("#sync to the same tree", same_sync, SYNCED, "nothing"),
    ("#sync to another tree", lambda s, who, rev: [s.sync(who, rev)], BROKEN, "nothing"),
    ("an old commit with an omission", old(drop_ops), SYNCED, "refused"),
    ("an old commit", old(None), SYNCED, "nothing"),
]


def rev_of(n):
    return synth.tid(n)


def capture(s):
    for i, (_, make, _, _) in enumerate(CASES):
        who = synth.did(i + 1)
        yield s.commit(who, rev_of(10), create("a", "b"))
        yield s.commit(who, rev_of(20), create("c", "d", "e", "f", "g", "h"))
        yield from make(Revs(s), who, 30)
        yield s.commit(who, rev_of(40), create("last"))
    # what is not seen from its beginning
    unseen = synth.did(len(CASES) + 1)
    s.commit(unseen, rev_of(10), create("a"))
    yield s.commit(unseen, rev_of(20), create("b"))
    yield s.commit(unseen, rev_of(30), create("c"))
    named = synth.did(len(CASES) + 2)
    s.commit(named, rev_of(10), create("a"))
    yield s.sync(named, rev_of(20), s.heads[named][1])
    yield s.commit(named, rev_of(30), create("c"))
    spoilt = synth.did(len(CASES) + 3)
    yield s.commit(spoilt, rev_of(10), create("a"), breaks=drop_ops)
    # nothing comes after it that would tell
    for i, breaks in enumerate((alter_cid, drop_op)):
        ended = synth.did(len(CASES) + 4 + i)
        yield s.commit(ended, rev_of(10), create("a"))
        yield s.commit(ended, rev_of(20), create("x", "y"), breaks=breaks)


class Revs:
    """The stream, with revisions as numbers."""

    def __init__(self, stream):
        self.stream = stream

    def __getattr__(self, name):
        return getattr(self.stream, name)

    def commit(self, who, rev, *args, **kwargs):
        return self.stream.commit(who, rev_of(rev), *args, **kwargs)

    def sync(self, who, rev, *args):
        return self.stream.sync(who, rev_of(rev), *args)


def expected():
    for i, (name, _, state, what) in enumerate(CASES):
        yield synth.did(i + 1), name, state, what
    yield synth.did(len(CASES) + 1), "its first commit not seen", "partial", "nothing"
    yield synth.did(len(CASES) + 2), "a #sync is the first of it", BROKEN, "nothing"
    yield synth.did(len(CASES) + 3), "its first commit without its operations", "partial", "nothing"
    yield synth.did(len(CASES) + 4), "at its end, another record than the tree's", BROKEN, "refused"
    yield synth.did(len(CASES) + 5), "at its end, an operation omitted", BROKEN, "refused"


def main():
    if sys.argv[1:] == ["--expect"]:
        for row in expected():
            print("\t".join(row))
    elif sys.argv[1:] == ["--last"]:
        s = synth.Stream()
        for _ in capture(s):
            pass
        print(s.seq)
    else:
        synth.write(capture(synth.Stream()), sys.stdout.buffer)


if __name__ == "__main__":
    main()
