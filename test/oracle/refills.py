#!/usr/bin/python3
"""Accounts whose records are deleted again, for a source that lacks some of their commits.

    refills.py whole > FILE     a complete capture
    refills.py lossy > FILE     the same without some commits
    refills.py --expect         did, case, state after a refill from the lossy source, the account's records

Of an account whose deletions are lacking, a repeated record cannot be judged: it may have been deleted.
"""

import sys

import synth

POST = "app.bsky.feed.post/"


def create(*keys):
    return [("create", POST + key, synth.post(key)) for key in keys]


def delete(*keys):
    return [("delete", POST + key, None) for key in keys]


# Each commit's operations; the numbers of those that the lossy source lacks; the state after a refill, at level chain.
CASES = [
    ("nothing lacks", [create("a", "b"), delete("a"), create("c"), delete("b")], [], "synchronized"),
    ("a deletion lacks", [create("a", "b"), delete("a"), create("c"), delete("b")], [1], "desynchronized"),
    ("two deletions lack", [create("a", "b"), delete("a"), create("c"), delete("b"), create("d")], [1, 3], "desynchronized"),
    ("a creation lacks", [create("a"), create("b"), create("c")], [1], "desynchronized"),
    ("the first commit lacks", [create("a", "b"), delete("a"), create("c")], [0], "synchronized"),
    ("the last one lacks", [create("a", "b"), create("c"), delete("a")], [2], "unproven"),
    ("all but the last one lack", [create("a", "b"), create("c"), delete("a")], [0, 1], "synchronized"),
    ("all of it lacks", [create("a", "b"), delete("a")], [0, 1], "synchronized"),
    ("a deletion lacks, and the record comes again", [create("a"), delete("a"), create("a", "c"), delete("c")], [1], "desynchronized"),
]


def messages(lossy):
    s = synth.Stream()
    for i, (_, commits, lacking, _) in enumerate(CASES):
        for n, ops in enumerate(commits):
            message = s.commit(synth.did(i + 1), synth.tid(10 * (n + 1)), ops)
            if not (lossy and n in lacking):
                yield message
    yield s.commit(synth.did(99), synth.tid(10), create("end"))


def expected():
    for i, (name, commits, _, state) in enumerate(CASES):
        records = set()
        for ops in commits:
            for action, path, _ in ops:
                key = path.removeprefix(POST)
                records = records | {key} if action == "create" else records - {key}
        yield synth.did(i + 1), name, state, " ".join(sorted(records))


def main():
    if sys.argv[1:] == ["--expect"]:
        for row in expected():
            print("\t".join(row))
    elif sys.argv[1:] in (["whole"], ["lossy"]):
        synth.write(messages(sys.argv[1] == "lossy"), sys.stdout.buffer)
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
