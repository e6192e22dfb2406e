#!/usr/bin/python3
"""An account that repeatedly writes records under invalid paths (B-65); for level full all commits are signed.

    paths.py N DIR > FILE    its stream; DIR/0.car to DIR/N.car are its exports at each time
    paths.py --key           its DID and its key

The stream is one commit, then N times two commits: the first writes a record with a valid path and a record with an
invalid path, the second writes a valid record; then a last valid commit.  Export n shows the account after n times.
"""

import os
import sys

import full
import sign
import synth
from synth import car, cid, encode, tid, tree

ME = synth.did(500)
KEY = sign.Key("paths")


class Account:
    def __init__(self):
        self.stream = full.Stream()
        self.stream.keys[ME] = KEY
        self.blocks = {}
        self.revs = 0

    def commit(self, *paths):
        self.revs += 1
        ops = []
        for path in paths:
            block = encode({"$type": "com.example.note", "text": path})
            self.blocks[path] = block
            ops.append(("create", path, block))
        return self.stream.commit(ME, tid(self.revs), ops)

    def export(self):
        root, nodes = tree({path: cid(block) for path, block in self.blocks.items()})
        commit = self.stream.signed(ME, tid(self.revs), root)
        return car(cid(commit), [(cid(commit), commit), *nodes, *((cid(block), block) for block in self.blocks.values())])


def main():
    if sys.argv[1:] == ["--key"]:
        print(ME, KEY.multikey.hex(), sep="\t")
        return
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    account = Account()
    messages = [account.commit("com.example.note/first")]
    for i in range(int(sys.argv[1]) + 1):
        if i > 0:
            messages.append(account.commit(f"com.example.note/beside{i}", f"com.Example.note/{i}"))
            messages.append(account.commit(f"com.example.note/after{i}"))
        with open(os.path.join(sys.argv[2], f"{i}.car"), "wb") as f:
            f.write(account.export())
    messages.append(account.commit("com.example.note/last"))
    synth.write(messages, sys.stdout.buffer)


if __name__ == "__main__":
    main()
