#!/usr/bin/python3
"""Verifies the commits of a capture: undoes each commit on its partial tree (F-09).

    invert.py CAPTURE [LAST]     up to the message with this seq

The program takes all operations back from the message's partial tree; the result must be the tree
of prevData, which must be the tree of the previous commit.  Prints the first faults and how many commits
were undone; the exit status tells whether a fault was found.
"""

import sys

import synth
import wire


class Missing(Exception):
    """A node that would be needed is not among the blocks."""


class Node:
    """keys and values are lists; children one longer, of Node, binary CID (not looked at yet) or None."""

    def __init__(self, layer, keys=(), values=(), children=(None,)):
        self.layer, self.keys, self.values, self.children = layer, list(keys), list(values), list(children)

    def place(self, key):
        return sum(k < key for k in self.keys)


class Tree:
    def __init__(self, root, blocks):
        self.blocks = blocks
        self.root = self.node(root, None)

    def node(self, child, layer):
        if child is None or isinstance(child, Node):
            return child
        if child not in self.blocks:
            raise Missing(wire.cid_text(child))
        block = wire.decode(self.blocks[child])
        node, key = Node(layer), b""
        node.children = [block["l"] and wire.cid(block["l"])]
        for entry in block["e"]:
            key = key[: entry["p"]] + entry["k"]
            node.keys.append(key)
            node.values.append(wire.cid(entry["v"]))
            node.children.append(entry["t"] and wire.cid(entry["t"]))
        if node.layer is None:
            node.layer = synth.layer(node.keys[0]) if node.keys else 0
        return node

    def replace(self, key, value):
        node = self.root
        while key not in node.keys:
            i = node.place(key)
            node.children[i] = self.node(node.children[i], node.layer - 1)
            node = node.children[i]
        node.values[node.keys.index(key)] = value

    def split(self, child, layer, key):
        """A subtree's part before the key, and the one after it."""
        node = self.node(child, layer)
        if node is None:
            return None, None
        i = node.place(key)
        before, after = self.split(node.children[i], layer - 1, key)
        left = Node(layer, node.keys[:i], node.values[:i], [*node.children[:i], before])
        right = Node(layer, node.keys[i:], node.values[i:], [after, *node.children[i + 1 :]])
        return tuple(part if part.keys or part.children[0] else None for part in (left, right))

    def insert(self, key, value):
        height = synth.layer(key)
        if not self.root.keys and self.root.children == [None]:
            self.root.layer = height
        while self.root.layer < height:
            self.root = Node(self.root.layer + 1, children=[self.root])
        node = self.root
        while node.layer > height:
            i = node.place(key)
            node.children[i] = self.node(node.children[i], node.layer - 1) or Node(node.layer - 1)
            node = node.children[i]
        i = node.place(key)
        node.children[i : i + 1] = self.split(node.children[i], height - 1, key)
        node.keys.insert(i, key)
        node.values.insert(i, value)

    def merge(self, left, right, layer):
        if left is None or right is None:
            return right if left is None else left
        left, right = self.node(left, layer), self.node(right, layer)
        middle = self.merge(left.children[-1], right.children[0], layer - 1)
        children = [*left.children[:-1], middle, *right.children[1:]]
        return Node(layer, left.keys + right.keys, left.values + right.values, children)

    def remove(self, key):
        self.root = self.without(self.root, key) or Node(0)
        while not self.root.keys and self.root.children[0] is not None:
            self.root = self.node(self.root.children[0], self.root.layer - 1)

    def without(self, node, key):
        i = node.place(key)
        if key in node.keys:
            node.children[i : i + 2] = [self.merge(*node.children[i : i + 2], node.layer - 1)]
            del node.keys[i], node.values[i]
        else:
            child = self.node(node.children[i], node.layer - 1)
            node.children[i] = self.without(child, key)
        return node if node.keys or node.children[0] is not None else None

    def cid(self, node):
        if not isinstance(node, Node):
            return node
        entries, last = [], b""
        for key, value, child in zip(node.keys, node.values, node.children[1:]):
            shared = 0
            while shared < min(len(key), len(last)) and key[shared] == last[shared]:
                shared += 1
            below = self.cid(child)
            entries.append({"p": shared, "k": key[shared:], "v": synth.link(value), "t": below and synth.link(below)})
            last = key
        left = self.cid(node.children[0])
        return synth.cid(synth.encode({"l": left and synth.link(left), "e": entries}))


def undo(payload):
    """The CIDs of the commit's tree, and of the tree before it."""
    roots, blocks = wire.car(payload["blocks"])
    data = wire.cid(wire.decode(blocks[roots[0]])["data"])
    tree = Tree(data, blocks)
    for op in sorted(payload["ops"], key=lambda op: op["path"], reverse=True):
        key = op["path"].encode()
        if op["action"] == "create":
            tree.remove(key)
        elif op["action"] == "update":
            tree.replace(key, wire.cid(op["prev"]))
        else:
            tree.insert(key, wire.cid(op["prev"]))
    return data, tree.cid(tree.root)


def main():
    last = int(sys.argv[2]) if len(sys.argv) > 2 else None
    current = {}  # did -> CID of its tree
    faults = undone = 0

    def fault(seq, what):
        nonlocal faults
        faults += 1
        if faults <= 10:
            print(f"{seq}: {what}")

    for message in wire.messages(sys.argv[1]):
        header, payload = wire.frame(message)
        if last is not None and payload["seq"] > last:
            break
        if header["t"] == "#sync":
            roots, blocks = wire.car(payload["blocks"])
            current[payload["did"]] = wire.cid(wire.decode(blocks[roots[0]])["data"])
        if header["t"] != "#commit":
            continue
        did, before = payload["repo"], wire.cid(payload["prevData"])
        if current.get(did, before) != before:
            fault(payload["seq"], "prevData is not the tree of the commit before")
        try:
            current[did], found = undo(payload)
            if found != before:
                fault(payload["seq"], "undone, it is not prevData")
            undone += 1
        except Missing as e:
            fault(payload["seq"], f"a node is missing: {e}")
    print(f"{undone} commits undone, {faults} faults")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
