#!/usr/bin/python3
"""Makes captures of streams other than subscribeRepos.

    streams.py labels > FILE      the rules of F-30 to F-33, one by one
    streams.py ahead > FILE       labels of 2999, and their negations with true times
    streams.py events N > FILE    N messages of an unknown lexicon, with seq 2, 4, 6, ...
    streams.py plain N > FILE     N messages without a seq
    streams.py types > FILE       three messages, the second with a type of 10,000 characters
    streams.py paths > FILE       of subscribeRepos: a record whose key is too long for an index,
                                  between others, and at last its deletion

The same arguments give the same bytes.
"""

import random
import sys

import synth

SRC, OTHER_SRC = synth.did(1), synth.did(2)
POST = f"at://{synth.did(3)}/app.bsky.feed.post/3aaaaaaaaaa2a"
CID = "bafyreidfayvfuwqa7qlnopdjiqrxzs6blmoeu4rujcjtnci5beludirz2a"


def time(second, zone="Z"):
    return f"2026-01-01T00:00:{second:02}{zone}"


def label(uri, val, second, **more):
    return {"ver": 1, "src": SRC, "uri": uri, "val": val, "cts": time(second), "sig": b"\1\2", **more}


def without(value, key):
    return {k: v for k, v in value.items() if k != key}


GOOD = label(POST, "good", 1)

# Each is invalid, and alone so.
BAD = [
    *(without(GOOD, key) for key in ("src", "uri", "val", "cts")),
    {**GOOD, "src": "a.test"},
    {**GOOD, "src": 7},
    {**GOOD, "src": None},
    {**GOOD, "uri": "https://example.org/"},
    {**GOOD, "uri": "did:plc"},
    {**GOOD, "uri": ""},
    {**GOOD, "val": ""},
    {**GOOD, "val": "x" * 129},
    {**GOOD, "val": "é" * 65},
    {**GOOD, "val": "a\0b"},
    {**GOOD, "val": ["x"]},
    {**GOOD, "cts": "yesterday"},
    {**GOOD, "cts": "2026-02-30T00:00:00Z"},
    {**GOOD, "cts": 1767225600},
    {**GOOD, "exp": "never"},
    {**GOOD, "neg": "true"},
    {**GOOD, "neg": None},
    {**GOOD, "cid": "Qm"},
    {**GOOD, "cid": synth.link(synth.cid(b""))},
    {**GOOD, "ver": "1"},
    {**GOOD, "sig": "x"},
    "label",
    [GOOD],
    {},
]


class Stream:
    def __init__(self, step=1):
        self.seq = 0
        self.step = step

    def message(self, kind, payload):
        self.seq += self.step
        return synth.encode({"op": 1, "t": kind}) + synth.encode({"seq": self.seq, **payload})

    def labels(self, *labels):
        return self.message("#labels", {"labels": list(labels)})


def labels():
    s = Stream()
    # the latest cts wins, in one message, in one batch, later
    yield s.labels(label(POST, "in-one", 2, cid=CID), label(POST, "in-one", 1))
    yield s.labels(label(POST, "old-last", 5))
    yield s.labels(label(POST, "old-last", 4, neg=True, sig=b"\3"))
    yield s.labels(label(POST, "new-last", 4, exp=time(9)))
    yield s.labels(label(POST, "new-last", 5, sig=b"\3"))
    # of equal ones the last
    yield s.labels(label(POST, "equal", 4), label(synth.did(3), "equal", 4))
    yield s.labels(label(POST, "equal", 4, cid=CID))
    # the same moment in another zone, and a moment that only its fraction tells apart
    yield s.labels({**label(POST, "zone", 0), "cts": "2026-01-01T05:30:07+05:30"})
    yield s.labels(label(POST, "zone", 6, neg=True))
    yield s.labels({**label(POST, "fraction", 0), "cts": "2026-01-01T00:00:01.000002Z"})
    yield s.labels({**label(POST, "fraction", 0), "cts": "2026-01-01T00:00:01.0000010Z", "neg": True})
    # taken back, and put again
    yield s.labels(label(POST, "taken-back", 1))
    yield s.labels(label(POST, "taken-back", 2, neg=True))
    yield s.labels(label(POST, "put-again", 1), label(POST, "put-again", 2, neg=True))
    yield s.labels(label(POST, "put-again", 3, neg=False))
    # a negation that is too old takes nothing back
    yield s.labels(label(POST, "late-negation", 3))
    yield s.labels(label(POST, "late-negation", 2, neg=True))
    # another labeler, another version, another subject: others
    yield s.labels(*({**label(POST, "put-again", 1, neg=True), "src": src} for src in (OTHER_SRC,)))
    yield s.labels(label(synth.did(3), "put-again", 1, neg=True))
    # expired, and not
    yield s.labels(label(POST, "expired", 1, exp="2026-01-01T00:00:02Z"))
    yield s.labels(label(POST, "not-expired", 1, exp="2999-01-01T00:00:00.000Z"))
    yield s.labels(label(POST, "expired-twice", 1, exp="2999-01-01T00:00:00Z"))
    yield s.labels(label(POST, "expired-twice", 2, exp="2026-01-01T00:00:03Z"))
    # times before and after those that all drivers can read: the nearest of these
    yield s.labels(label(POST, "never-expires", 1, exp="9999-12-31T23:59:59Z"), label(POST, "expired-long-ago", 1, exp="0000-01-01T00:00:00Z"))
    yield s.labels({**label(POST, "from-year-0", 1), "cts": "0000-02-29T12:00:00Z"})
    # no more than is required; the longest value
    yield s.labels({"src": SRC, "uri": POST, "val": "bare", "cts": time(1)})
    yield s.labels(label(POST, "é" * 64, 1), {**label(POST, "unknown-field", 1), "x": {"y": [1]}})
    yield s.labels()
    for i, bad in enumerate(BAD):
        yield s.labels(label(POST, f"before-{i}", 1), bad, label(POST, f"after-{i}", 1))
    yield s.message("#labels", {})
    yield s.message("#labels", {"labels": {}})
    yield s.message("#unknown", {"labels": [GOOD]})
    yield s.labels(label(POST, "last", 1))


def ahead():
    s = Stream()
    yield s.labels(label(POST, "true", 1))
    yield s.labels({**label(POST, "poison", 1), "cts": "2999-01-01T00:00:00Z"})
    yield s.labels(label(POST, "poison", 2, neg=True), label(POST, "beside", 2))
    yield s.labels({**label(POST, "poison", 3), "cts": "2999-01-01T00:00:00Z"}, label(POST, "beside", 3, neg=True))
    yield s.labels(label(POST, "true", 4, neg=True))


def payload(i):
    """Something of everything; every 50th does not fit into jsonb."""
    value = {"n": i, "text": "x" * (i % 300), "link": synth.link(synth.cid(b"%d" % i)), "list": [None, True, {"": -i}]}
    if i % 50 == 0:
        value["nul"] = "a\0b"
    if i % 70 == 0:
        value["time"] = time(i % 60)
    return value


def events(n):
    s = Stream(2)
    for i in range(1, n + 1):
        yield s.message("#odd" if i % 2 else "#even", payload(i))


def plain(n):
    for i in range(1, n + 1):
        yield synth.encode({"op": 1, "t": "#plain"}) + synth.encode(payload(i))


def random_text(n):
    """Text that does not compress."""
    return "".join(random.Random(n).choices(synth.ALPHABET, k=n))


def types():
    s = Stream()
    for kind in ("#a", "#" + random_text(10_000), "#c"):
        yield s.message(kind, {"n": 1})


def paths():
    s = synth.Stream()
    long_did = "did:example:" + random_text(2000)
    path = "com." + ("a" * 60 + ".") * 4 + "b/" + random_text(512)
    yield s.commit(synth.did(1), synth.tid(1), [("create", "app.bsky.feed.post/1", synth.post("one"))])
    yield s.commit(long_did, synth.tid(1), [("create", path, synth.post("too long"))])
    yield s.commit(synth.did(1), synth.tid(2), [("create", "app.bsky.feed.post/2", synth.post("two"))])
    yield s.commit(long_did, synth.tid(2), [("delete", path, None)])


def main():
    makers = {"types": types, "paths": paths, "labels": labels, "ahead": ahead, "events": lambda: events(int(sys.argv[2])), "plain": lambda: plain(int(sys.argv[2]))}
    synth.run(makers, __doc__)


if __name__ == "__main__":
    main()
