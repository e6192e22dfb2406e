#!/usr/bin/python3
"""Captures of records with extremely many or odd links.

    links.py hostile > FILE      a record of a megabyte that is all links, and its successor; as many
                                 paths; targets and names that are too long; links that only raw has;
                                 one block under many keys
    links.py sources N > FILE    N records of 50 accounts, each with 20 places found in no other record, and with 3 common
                                 places; at the end a place for the option links to name
    links.py exports DIR         an account's exports, one.car and two.car
"""

import os
import sys

from export import export
from synth import Stream, did, encode, run, tid

TYPE = "com.example.links"


def web(n):
    return f"did:web:a{n}.b"


def record(**more):
    return {"$type": TYPE, **more}


def hostile():
    s = Stream()
    n = [0]

    def commit(*ops):
        n[0] += 1
        return s.commit(did(1), tid(n[0]), [(action, f"{TYPE}/{key}", value) for action, key, value in ops])

    many = [web(i) for i in range(50_000)]
    yield commit(("create", "many", record(l=many + many[:1000])))
    yield commit(("update", "many", record(l=many[25_000:] + [web(i) for i in range(50_000, 75_000)])))
    yield commit(("create", "paths", record(p={f"k{i}": web(1) for i in range(45_000)})))
    target = "at://did:web:a.b/"
    yield commit(("create", "long", record(l=[target + "x" * 2000, target + "x" * 2600, target + "x" * 8000])))
    yield commit(("create", "names", record(**{"x" * 256: web(1), "y" * 257: web(2), "z" * 8000: [web(3), web(4)]})))
    yield commit(("create", "nul", record(t="a\0b", l=[web(1), web(2)])), ("create", "gone", record(t="a\0b", l=[web(3)])))
    yield commit(("update", "nul", record(t="a\0b", l=[web(2), web(4)])), ("delete", "gone", None))
    yield commit(*(("create", f"same{i}", record(l=many[:1000])) for i in range(150)))
    yield commit(*(("delete", f"same{i}", None) for i in range(1, 150)))
    # a path is its writer's choice
    yield commit(("create", "odd", record(**{"a.b": web(1), "a": {"b": web(2), "": web(3)}, "[]": [{"$type": "]", "%": web(4)}]})))


def sources(n):
    s = Stream()
    for i in range(n):
        places = {f"k{i}x{j}": web(j) for j in range(20)}
        shared = {f"all{j}": web(i) for j in range(3)}
        yield s.commit(did(i % 50 + 1), tid(i + 1), [("create", f"{TYPE}/{i}", record(**shared, **places))])
    named = record(named=web(1), other=web(2))
    yield s.commit(did(1), tid(n + 1), [("create", f"{TYPE}/named", named)])


def exports():
    one = {f"{TYPE}/{i}": encode(record(l=[web(i), web(i + 1)], only={f"p{i % 7}": web(0)})) for i in range(3000)}
    two = {path: block for i, (path, block) in enumerate(one.items()) if i % 10}
    two.update({f"{TYPE}/{i}": encode(record(l=[web(i), web(i + 2)])) for i in range(1, 3000, 50)})
    two.update({f"{TYPE}/new{i}": encode(record(l=[web(i)], new=[{"a": web(i)}])) for i in range(20)})
    for name, records, n in ("one", one, 1), ("two", two, 2):
        with open(os.path.join(sys.argv[2], f"{name}.car"), "wb") as f:
            f.write(export(records, tid(n), did(1)))
    return ()


def main():
    run({"exports": exports, "hostile": hostile, "sources": lambda: sources(int(sys.argv[2]))}, __doc__)


if __name__ == "__main__":
    main()
