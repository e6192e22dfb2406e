#!/usr/bin/python3
"""Makes a capture with values that programs may not be able to read.

    hostile.py records > FILE   frames of a relay: for each value a record that has the value in each of
                                its fields; events at times that few programs know
    hostile.py labels > FILE    labels with such times and texts

The records are of the collection com.example.every, with the fields that FIELDS names.
"""

import sys

import streams
import synth

FIELDS = ("text", "whole", "flag", "moment", "moments", "uri", "did", "dids", "handle", "nsid", "tid", "key", "cid", "link",
          "bytes", "blob", "any", "list", "texts", "wholes")

TIMES = ["0000-01-01T00:00:00Z", "0000-12-31T23:59:59-23:59", "0001-01-01T00:00:00Z", "0001-01-01T23:59:59.999999Z", "0001-01-02T00:00:00Z",
         "9999-12-30T23:59:59.999999Z", "9999-12-31T00:00:00Z", "9999-12-31T23:59:59.999Z", "9999-12-31T23:59:59.999-12:00", "1969-12-31T23:59:60Z"]

TEXTS = ["", " ", "infinity", "-infinity", "now", "NaN", "epoch", "null", "{}", "{NULL}", "t", "\\", "\\u0000", "\\x00", "\\N", "\\.", "\\ud800", "%s", "$1", "?", ":1",
         "\u0001\u001f\u007f\u0080\u009f", "\r\n\t", "\u2400\u2028\u2029\ufeff\ufffd\uffff", "\U0001f600\U000e0001\U0010ffff", "\u202e\u0301" * 50,
         "x" * 20_000, "9" * 5000, "1e400", "0x1p1024", "-0", "1.0", "9223372036854775808", "did:web:a.b", "did:plc:" + "a" * 2040, "at://did:web:a.b/a.b.c/self",
         "jzzzzzzzzzzzz", "zzzzzzzzzzzzz", "2222222222222", "a.b", "a.b.c", ".."]


def nested(depth, value):
    for _ in range(depth):
        value = [value]
    return value


VALUES = [*TIMES, *TEXTS, 0, -1, 2**31, 2**53 + 1, 2**63 - 1, -(2**63), 2**63, -(2**63) - 1, True, False, None, b"", b"\0\xff", "a\0b", [], [None], [[]], {}, {"": {"": []}},
          {"$link": "x"}, {"$bytes": "="}, {"$type": "blob"}, {"$type": 1}, nested(60, 1), nested(120, "deep"), TIMES, [1, "1", None, TIMES[0]], ["a\0b"],
          synth.link(synth.cid(b"")), ["did:web:a.b", "x"], {"key": TIMES[-1]}, {"__proto__": {"toString": 1}}, {"n": [2**63 - 1] * 1000}]


def records():
    s = synth.Stream()
    a, b, c = (synth.did(n) for n in (1, 2, 3))
    for n, value in enumerate(VALUES):
        record = {"$type": "com.example.every", **{field: value for field in FIELDS}}
        yield s.commit(a, synth.tid(n), [("create", f"com.example.every/{n}", record)], time=TIMES[n % len(TIMES)])
    # a text that is no UTF-8: half of a surrogate pair
    broken = synth.encode({"$type": "com.example.every", "text": "abc"}).replace(b"abc", b"\xed\xa0\x80")
    yield s.commit(a, synth.tid(1000), [("create", "com.example.every/broken", broken)])
    for n, key in enumerate(("jzzzzzzzzzzzz", "7zzzzzzzzzzzz", "2222222222222", "self")):
        yield s.commit(c, synth.tid(n), [("create", f"com.example.every/{key}", {"$type": "com.example.every", "text": key})])
    for n, time in enumerate(TIMES):
        who = synth.did(10 + n)
        yield s.commit(who, synth.tid(n), [("create", "com.example.every/x", {"$type": "com.example.every", "moment": time})], time=time)
        yield s.message("#identity", {"did": who, "time": time, "handle": f"n{n}.example.com"})
        yield s.message("#account", {"did": who, "active": n % 2 == 0, "time": time, **({} if n % 2 == 0 else {"status": "takendown\u202e\u0001"})})
    yield s.commit(b, synth.tid(2000), [("create", "com.example.every/last", {"$type": "com.example.every"})], time=TIMES[-2])


def labels():
    s = streams.Stream()
    # a label of the future is a dead letter, when the messages behind it show that the clock is right
    yield s.labels({**streams.label(streams.POST, "ahead", 1), "cts": TIMES[8]})
    for n, text in enumerate(TEXTS):
        # the first five times are past
        old, any_time = TIMES[n % 5], TIMES[n % len(TIMES)]
        yield s.labels({**streams.label(streams.POST, (text or "empty")[:40], 1), "cts": old}, {**streams.label(synth.did(n + 1), "x", 1, exp=any_time)})
    yield s.labels({**streams.label(streams.POST, "ver", 1), "ver": 2**31 - 1, "cts": TIMES[0]})


if __name__ == "__main__":
    synth.run({"records": records, "labels": labels}, __doc__)
