#!/usr/bin/python3
"""A capture of accounts that are deactivated, reactivated and deleted, one with very many records.

    accounts.py FILE      writes the capture, and prints its landmarks: name and seq
"""

import sys

import synth

TIME = "2026-01-01T00:00:00.000Z"
POST = "app.bsky.feed.post/"
MANY = 23_000
COMES, SYNCS, MANY_DID, OTHER = map(synth.did, (1, 2, 3, 4))


class Stream(synth.Stream):
    def put(self, who, n, *names):
        ops = [("create", POST + name, synth.post(name)) for name in names]
        return self.commit(who, synth.tid(n), ops)

    def account(self, who, active, status=None):
        """Each at a time of its own."""
        extra = {} if status is None else {"status": status}
        if status == "deleted":
            self.heads.pop(who, None)
        time = f"2026-01-01T00:{self.seq // 60:02}:{self.seq % 60:02}Z"
        return self.message("#account", {"did": who, "active": active, "time": time, **extra})


def root_of(*names):
    """The tree of put()."""
    return synth.tree({POST + name: synth.cid(synth.encode(synth.post(name))) for name in names})[0]


def messages(mark):
    s = Stream()
    yield s.put(COMES, 1, "before")
    yield s.account(COMES, False, "deactivated")
    yield s.put(COMES, 2, "not-active")
    yield s.sync(COMES, synth.tid(3))
    mark("deactivated", s.seq)
    yield s.account(COMES, True)
    yield s.put(COMES, 4, "after")

    yield s.sync(SYNCS, synth.tid(1))  # the first event of a repository: nothing to compare with
    mark("first sync", s.seq)
    yield s.put(SYNCS, 2, "a", "b")
    yield s.sync(SYNCS, synth.tid(3), root_of("a", "b"))
    yield s.sync(SYNCS, synth.tid(2), root_of("c"))  # old
    mark("same data", s.seq)
    yield s.sync(SYNCS, synth.tid(4), root_of("c"))
    mark("other data", s.seq)

    for i in range(0, MANY, 200):
        yield s.put(MANY_DID, 10 + i, *(f"{n:06}" for n in range(i, i + 200)))
    yield s.put(OTHER, 1, "other")
    mark("many", s.seq)
    yield s.account(MANY_DID, False, "deleted")
    mark("deleted", s.seq)
    yield s.put(OTHER, 2, "goes-on")
    yield s.put(MANY_DID, 100_000, "ignored")
    mark("goes on", s.seq)
    yield s.account(MANY_DID, True)
    yield s.put(MANY_DID, 100_001, "new")
    mark("new", s.seq)


def main():
    def mark(name, seq):
        print(f"{name}\t{seq}")

    with open(sys.argv[1], "wb") as f:
        synth.write(messages(mark), f)


if __name__ == "__main__":
    main()
