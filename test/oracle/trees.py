"""Merkle search trees with missing nodes: forward proofs, and the tree before a commit.

Follows V-17 to V-22 and V-28 literally: no order of operations, no node is changed.
(invert.py undoes a commit operation by operation; the two must agree.)
"""

import synth
import wire

PROVEN, INCOMPLETE, MISMATCH, REFUTED = "proven", "incomplete", "mismatch", "refuted"
EMPTY = synth.tree({})[0]


class Incomplete(Exception):
    """A node would be needed that is not there."""


class Leaf:
    def __init__(self, key, value):
        self.key, self.value, self.layer = key, value, synth.layer(key)


class Stub:
    """A subtree of which only the CID is known; at the top its layer is not."""

    def __init__(self, cid, layer):
        self.cid, self.layer = cid, layer


def entries(block):
    """(key, value, link to what is after it or None); first what is before all."""
    node, key = wire.decode(block), b""
    yield None, None, node["l"] and wire.cid(node["l"])
    for entry in node["e"]:
        key = key[: entry["p"]] + entry["k"]
        yield key, wire.cid(entry["v"]), entry["t"] and wire.cid(entry["t"])


def expand(root, blocks):
    """Leaves and stubs, from left to right."""

    def walk(cid, layer):
        if cid not in blocks:
            return [Stub(cid, layer)]
        found = list(entries(blocks[cid]))
        if layer is None:
            layer = synth.layer(found[1][0]) if len(found) > 1 else 0
        out = []
        for key, value, below in found:
            if key is not None:
                out.append(Leaf(key, value))
            if below:
                out += walk(below, layer - 1)
        return out

    return walk(root, None)


def place(items, key):
    """Where a key is or belongs, and whether it is there; Incomplete: a stub may have it."""
    before = max((i for i, item in enumerate(items) if isinstance(item, Leaf) and item.key <= key), default=-1)
    if before >= 0 and items[before].key == key:
        return before, True
    if before + 1 < len(items) and isinstance(items[before + 1], Stub):
        raise Incomplete
    return before + 1, False


def reaches(root, blocks, key):
    """The search for a key in the tree: its value, or None; Incomplete."""
    cid, layer = root, None
    while cid is not None and (layer is None or layer >= synth.layer(key)):
        if cid not in blocks:
            raise Incomplete
        found = list(entries(blocks[cid]))
        if layer is None:
            layer = synth.layer(found[1][0]) if len(found) > 1 else 0
        layer -= 1
        last = found[0]
        for entry in found[1:]:
            if entry[0] <= key:
                last = entry
        if last[0] == key:
            return last[1]
        cid = last[2]
    return None


def forward(payload, root, blocks):
    """V-17: each operation is what the tree says; not when nobody can tell, but for deletions of older servers."""
    for op in payload["ops"]:
        try:
            value = reaches(root, blocks, op["path"].encode())
        except Incomplete:
            if op["action"] == "delete" and payload.get("prevData") is None:
                continue
            return False
        if value != (op["cid"] and wire.cid(op["cid"])):
            return False
    return True


def build(items, layer):
    """The CID of what these are at a layer; None when they are nothing."""
    if not items:
        return None
    if len(items) == 1 and isinstance(items[0], Stub) and items[0].layer == layer:
        return items[0].cid
    if any(isinstance(item, Stub) and (item.layer is None or item.layer >= layer) for item in items):
        raise Incomplete
    gaps, keys = [[]], []
    for item in items:
        if isinstance(item, Leaf) and item.layer == layer:
            keys.append(item)
            gaps.append([])
        else:
            gaps[-1].append(item)
    below = [build(gap, layer - 1) for gap in gaps]
    node, last = [], b""
    for leaf, link in zip(keys, below[1:]):
        shared = 0
        while shared < min(len(leaf.key), len(last)) and leaf.key[shared] == last[shared]:
            shared += 1
        node.append({"p": shared, "k": leaf.key[shared:], "v": synth.link(leaf.value), "t": link and synth.link(link)})
        last = leaf.key
    return synth.cid(synth.encode({"l": below[0] and synth.link(below[0]), "e": node}))


def before(payload, root, blocks):
    """The root of the tree before the commit; Incomplete."""
    items = expand(root, blocks)
    for op in payload["ops"]:
        key = op["path"].encode()
        if op["action"] != "create" and op.get("prev") is None:
            raise Incomplete
        i, there = place(items, key)
        if op["action"] == "create":
            del items[i]
        elif there:
            items[i] = Leaf(key, wire.cid(op["prev"]))
        else:
            items.insert(i, Leaf(key, wire.cid(op["prev"])))
    if not items:
        return EMPTY
    if len(items) == 1 and isinstance(items[0], Stub):
        return items[0].cid
    top = max((item.layer for item in items if isinstance(item, Leaf)), default=-1)
    return build(items, top)


def verdict(payload, root, blocks):
    """What a #commit proves, and whether it is the first of its repository (V-28)."""
    if not forward(payload, root, blocks):
        return REFUTED, False
    claimed = payload.get("prevData") and wire.cid(payload["prevData"])
    if not payload["ops"]:
        found = root
    else:
        try:
            found = before(payload, root, blocks)
        except Incomplete:
            return INCOMPLETE, False
    first = found == EMPTY and payload["since"] is None
    if claimed is None:
        return (PROVEN if first else INCOMPLETE), first
    if found == claimed:
        return PROVEN, first
    items = expand(root, blocks)
    if payload["ops"] and only_a_stub(items, payload):
        return INCOMPLETE, False
    return MISMATCH, False


def only_a_stub(items, payload):
    """V-20: the whole result is one stub, which may have to be trimmed."""
    gone = {op["path"].encode() for op in payload["ops"] if op["action"] == "create"}
    left = [item for item in items if not (isinstance(item, Leaf) and item.key in gone)]
    return (len(left) == 1 and isinstance(left[0], Stub)
            and all(op["action"] == "create" for op in payload["ops"]))


def records(root, blocks):
    """path -> CID of a tree that is whole; Incomplete."""
    items = expand(root, blocks)
    if any(isinstance(item, Stub) for item in items):
        raise Incomplete
    return {item.key.decode(): item.value for item in items}
