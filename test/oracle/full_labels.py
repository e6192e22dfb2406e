#!/usr/bin/python3
"""Signed labels, true and forged, of labelers each of which is a case (V-49).

    full_labels.py cases > FILE        labelers whose keys are known, not known, other ones, or none
    full_labels.py cases --keys        name, did, first key, second key
    full_labels.py many N > FILE       a message that names N labelers
    full_labels.py flood N [V] > FILE  N labels of one labeler, whose values begin with V (x)
    full_labels.py of DID > FILE       one label of this labeler, by the key that full.py calls unknown's first
    full_labels.py new > FILE          labels of keyless, known, other and unknown: the first one's has a key for labels by the second
                                       message, the others' documents name nothing else; unknown's rotates before the third
"""

import sys

import sign
import synth

NAMES = ("known", "unknown", "forged", "rotated", "keyless", "gone", "other")
WHO = {name: synth.did(300 + i) for i, name in enumerate(NAMES)}
FIRST = {name: sign.Key(name + " 1", "p256" if name == "other" else "k256") for name in NAMES}
SECOND = {name: sign.Key(name + " 2", "p256") for name in NAMES}
SOMEBODY = sign.Key("somebody else's")
SUBJECT = "at://did:plc:222222222222222222222222/app.bsky.feed.post/a"


def label(src, val, key, second=0, **more):
    fields = {"ver": 1, "src": src, "uri": SUBJECT, "val": val, "cts": f"2026-01-01T00:00:{second:02}.000Z", **more}
    if key is None:
        return fields
    # V-49: without sig and $type
    return {**fields, "sig": key.sign(synth.encode({k: v for k, v in fields.items() if k != "$type"}))}


class Stream(synth.Stream):
    def labels(self, *labels):
        return self.message("#labels", {"labels": list(labels)})


def cases(s):
    def of(name, val, keys=FIRST, **more):
        return label(WHO[name], val, keys[name], **more)

    yield s.labels(of("known", "a1"))
    yield s.labels(of("unknown", "b1"))
    yield s.labels(label(WHO["forged"], "c1", SOMEBODY))
    yield s.labels(of("rotated", "d1", SECOND))
    yield s.labels(of("keyless", "e1"))
    yield s.labels(of("gone", "f1"))
    # 7: several in one, one of which is none
    yield s.labels(of("known", "a2"), of("unknown", "b2"), {"src": WHO["unknown"], "val": "no uri"}, of("other", "g1"))
    # 8: not signed; true, behind one that is not
    yield s.labels(label(WHO["known"], "a3", None), of("forged", "c2"))
    # 9: nearly signed; with $type
    yield s.labels({**of("known", "a4"), "sig": b"\1" * 63}, of("known", "a5", **{"$type": "com.atproto.label.defs#label"}))
    yield s.labels(of("rotated", "d2", SECOND), of("rotated", "d1", SECOND, second=1, neg=True))
    # 11: what is signed is another label
    yield s.labels({**of("forged", "c3"), "val": "c4"})
    yield s.labels(of("known", "a6"))


def new(s):
    for n in (1, 2, 3):
        keys = SECOND if n == 3 else FIRST
        yield s.labels(*(label(WHO[name], f"{name}{n}", (keys if name == "unknown" else FIRST)[name]) for name in ("keyless", "known", "other", "unknown")))


def main():
    what, *more = sys.argv[1:]
    if more == ["--keys"]:
        for name in NAMES:
            print("\t".join((name, WHO[name], FIRST[name].multikey.hex(), SECOND[name].multikey.hex())))
        return
    s = Stream()
    if what == "cases":
        messages = cases(s)
    elif what == "new":
        messages = new(s)
    elif what == "many":
        messages = [s.labels(*({**label(synth.did(1000 + i), "x", None), "sig": bytes([1]) * 64} for i in range(int(more[0]))))]
    elif what == "of":
        messages = [s.labels(label(more[0], "x", sign.Key("unknown 1")))]
    else:
        key = FIRST["unknown"]
        value = more[1] if len(more) > 1 else "x"
        messages = (s.labels(label(WHO["unknown"], f"{value}{i}", key)) for i in range(int(more[0])))
    synth.write(messages, sys.stdout.buffer)


if __name__ == "__main__":
    main()
