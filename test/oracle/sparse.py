#!/usr/bin/python3
"""Makes exports for the tests of sparse fetches: CAR files.

    sparse.py DIR [POSTS]        DIR/NAME.car: of account 1 with so many posts (3,000), and 60 recipes
    sparse.py --hostile DIR      DIR/NAME.car: trees of the same account that are wrong in the range of its recipes

The same arguments give the same bytes.
"""

import os
import sys

import synth
from export import note
from synth import car, cid, encode, layer, link, tid, tree

ME = synth.did(1)
RECIPE = "exchange.recipe.recipe"


def posts(n):
    return {f"app.bsky.feed.post/{tid(i)}": encode(synth.post(f"post {i}")) for i in range(n)}


def recipes(n, text="recipe"):
    return {f"{RECIPE}/{tid(1000 * i)}": note(f"{text} {i}") for i in range(n)}


def neighbours(n):
    """Collections that sort beside the recipes."""
    names = ["exchange.recipe.recipe-a.b", "exchange.recipe.recipe0.b", "exchange.recipe.recipea", "exchange.recipe.profile", "zz.recipe.recipe"]
    return {f"{name}/{tid(i)}": note(f"{name} {i}") for name in names for i in range(n)}


def signed(root, rev, who=ME):
    return synth.Stream().signed(who, rev, root)


def export(records, rev, who=ME, more=()):
    root, nodes = tree({path: cid(block) for path, block in records.items()})
    commit = signed(root, rev, who)
    return car(cid(commit), [(cid(commit), commit), *nodes, *((cid(block), block) for block in (*records.values(), *more))])


def first(n):
    return {**posts(n), **neighbours(20), **recipes(60)}


def second(n):
    """Recipes that are deleted, changed, new; and posts that are."""
    records = first(n)
    for i in (3, 4, 59):
        del records[f"{RECIPE}/{tid(1000 * i)}"]
    records[f"{RECIPE}/{tid(7000)}"] = note("changed")
    records[f"{RECIPE}/{tid(7500)}"] = note("new")
    records[f"app.bsky.feed.post/{tid(17)}"] = encode(synth.post("changed"))
    return records


def files(n):
    yield "first", export(first(n), tid(10))
    yield "second", export(second(n), tid(20))
    yield "fat", export(first(n), tid(10), more=(encode(bytes(999_000) + bytes([i])) for i in range(10)))
    yield "older", export(first(n), tid(5))
    yield "none", export({**posts(n), **neighbours(20)}, tid(40))
    yield "empty", export({}, tid(41))
    yield "small", export({**posts(10), **recipes(5)}, tid(42))
    yield "most", export({**posts(60), **recipes(n)}, tid(43))
    yield "half", export({**posts(20), **recipes(900)}, tid(44))
    yield "other", export(first(n), tid(50), who=synth.did(2))
    yield "letters", export({**first(n), f"{RECIPE}/bad": encode(17), f"{RECIPE}/zero": note("\0"), f"{RECIPE}/a b": note("no key")}, tid(60))
    for i in range(8):
        yield f"move{i}", export({**first(n), **recipes(60, f"move {i}")}, tid(100 + i))


def raw_node(entries, left=None):
    """A node of (key, value, right), whatever is right."""
    last, packed = b"", []
    for key, value, right in entries:
        shared = len(os.path.commonprefix([key, last]))
        packed.append({"p": shared, "k": key[shared:], "v": link(value), "t": right and link(right)})
        last = key
    block = encode({"l": left and link(left), "e": packed})
    return cid(block), block


def keys_of(height, prefix, n):
    """Keys of a collection, of this height."""
    found, i = [], 0
    while len(found) < n:
        key = f"{prefix}/{tid(i)}".encode()
        if layer(key) == height:
            found.append(key)
        i += 1
    return found


def with_commit(root, nodes, more=()):
    commit = signed(root, tid(70))
    return car(cid(commit), [(cid(commit), commit), *nodes, *more])


def hostile():
    value = note("a record")
    kept = [(cid(value), value)]
    low, high = keys_of(0, RECIPE, 3), keys_of(1, RECIPE, 3)
    # a node whose keys lie outside the interval that its parent gives it: the range would look empty
    elsewhere = raw_node([(key, cid(value), None) for key in keys_of(0, "app.bsky.feed.post", 3)])
    top = raw_node([(keys_of(1, "app.bsky.feed.post", 1)[0], cid(value), elsewhere[0])])
    yield "shifted", with_commit(top[0], [top, elsewhere], kept)
    # keys of another height than their node's
    wrong = raw_node(sorted((key, cid(value), None) for key in (low[0], high[0])))
    yield "heights", with_commit(wrong[0], [wrong], kept)
    descending = raw_node([(high[1], cid(value), None), (high[0], cid(value), None)])
    yield "descending", with_commit(descending[0], [descending], kept)
    # the same node below two links
    below = raw_node([(low[0], cid(value), None)])
    twice = raw_node([(keys_of(1, "exchange.recipe.a", 1)[0], cid(value), below[0]), (sorted(high)[-1], cid(value), below[0])])
    yield "twice", with_commit(twice[0], [twice, below], kept)
    # nodes without keys, one below the other, deeper than a tree can be
    chain = [raw_node([(low[0], cid(value), None)])]
    for _ in range(60):
        chain.append(raw_node([], chain[-1][0]))
    yield "keyless", with_commit(chain[-1][0], chain, kept)
    deep = [raw_node([(low[0], cid(value), None)])]
    for height in range(1, 5):
        deep.append(raw_node([], deep[-1][0]))
        if height == 4:
            deep.append(raw_node([(keys_of(5, "app.bsky.feed.post", 1)[0], cid(value), deep[-1][0])]))
    yield "chain", with_commit(deep[-1][0], deep, kept)
    garbage = cid(b"\xff" * 100), b"\xff" * 100
    over = raw_node([(high[0], cid(value), garbage[0])])
    yield "garbage", with_commit(over[0], [over, garbage], kept)
    # a record that no server has
    lost = raw_node([(high[0], cid(note("nowhere")), None)])
    yield "nowhere", with_commit(lost[0], [lost])
    raw = bytes([1, 0x55, 0x12, 0x20]) + cid(value)[4:]
    codec = raw_node([(high[0], raw, None)])
    yield "codec", with_commit(codec[0], [codec], [(raw, value)])
    right = raw_node([(high[0], cid(value), None)])
    # a commit of the far future
    yield "ahead", export({**posts(10), **recipes(5)}, "jzzzzzzzzzzzz")
    yield "right", with_commit(right[0], [right], kept)


def main():
    where = sys.argv[2] if sys.argv[1:2] == ["--hostile"] else sys.argv[1] if len(sys.argv) > 1 else sys.exit(__doc__)
    made = hostile() if sys.argv[1] == "--hostile" else files(int(sys.argv[2]) if len(sys.argv) > 2 else 3000)
    for name, file in made:
        with open(os.path.join(where, name + ".car"), "wb") as f:
            f.write(file)


if __name__ == "__main__":
    main()
