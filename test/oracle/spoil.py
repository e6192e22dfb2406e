#!/usr/bin/python3
"""Spoils a capture of test/simulator with the faults of networks and of attackers.

    spoil.py CAPTURE DIRECTORY OUT [--percent N] [--seed N] [--only FAULT,...] [--sure]

DIRECTORY is the output of the simulator's --directory.  Into the directory OUT go
    frames      the capture, its seqs counted anew
    documents   the simulator's, with these seqs
    last        the seq of its last message
    truth       seq, did, fault of each changed message, or of the message at the place of a lost message

The faults, each on so many percent of the commits (1; all together):
    lost        is not sent
    late        comes after the account's next one
    twice       comes again later
    cut         one of its tree's nodes is not among the blocks
    bare        has no prevData, and its operations no prev
    altered     has another prevData
    omitted     names one operation less
    future      comes before with a rev in the future, which the account signed
    stranger    is signed by an unknown key
    other       is signed by another account's key
    high        has a signature with high S
    before      comes before with another signature and rev
    fork        comes a second time, signed by the account, and with the same rev
    sync        a #sync to an unknown tree comes before
Besides, one account of 50 is at a host without prevData and prev.

Nothing is moved over a change of the directory.  --sure: leaves out accounts whose end, at level full, would depend on
the time of look-ups: messages of an unknown type take the places of their messages.
"""

import argparse
import json
import os
import random
import sys

import curves
import levels
import synth
import wire

FAULTS = "lost late twice cut bare altered omitted future stranger other high before fork sync".split()
FUTURE = "7zzzzzzzzzz22"  # a TID of the year 2106
STRANGER = bytes(31) + b"\7"


def rev_before(rev):
    number = 0
    for digit in rev:
        number = number << 5 | synth.ALPHABET.index(digit)
    number -= 1
    return "".join(synth.ALPHABET[number >> shift & 31] for shift in range(60, -1, -5))


class Spoiler:
    def __init__(self, directory, percent, seed, faults):
        self.random = random.Random(seed)
        self.percent, self.faults = percent, faults
        self.secrets = {}  # did -> [(seq, curve, secret)]
        with open(os.path.join(directory, "keys"), encoding="utf-8") as f:
            for line in f:
                did, seq, key, secret, *_ = line.split("\t")
                curve = curves.CURVES[bytes.fromhex(key)[:2]]
                self.secrets.setdefault(did, []).append((int(seq), curve, bytes.fromhex(secret)))
        with open(os.path.join(directory, "documents"), encoding="utf-8") as f:
            self.documents = [json.loads(line) for line in f]
        self.changes = sorted({document["seq"] for document in self.documents})
        self.seqs = {}  # those of the changes, anew
        self.out = []
        self.truth = []
        self.waiting = []  # (messages that it waits for, did or None, kind, payload, fault)
        self.commits = {}  # did -> how many

    # --- what comes out ---

    def put(self, kind, payload, fault=None):
        payload = {**payload, "seq": len(self.out) + 1}
        self.out.append(synth.encode({"op": 1, "t": kind}) + synth.encode(payload))
        if fault:
            self.truth.append((payload["seq"], payload.get("repo") or payload["did"], fault))

    def flush(self, did=None, everything=False):
        """Those whose time has come, or that waited for the account's next commit."""
        still = []
        for countdown, waits_for, kind, payload, fault in self.waiting:
            countdown -= 1
            if everything or countdown == 0 or (did is not None and waits_for == did):
                self.put(kind, payload, fault)
            else:
                still.append((countdown, waits_for, kind, payload, fault))
        self.waiting = still

    # --- what is made of a commit ---

    def secret(self, payload):
        return [(curve, secret) for seq, curve, secret in self.secrets[payload["repo"]] if seq <= payload["seq"]][-1]

    def signed_by(self, payload, curve, secret, high=False, more=(), **changes):
        """The commit with another signature, and some fields others, or more of them."""
        roots, blocks = wire.car(payload["blocks"])
        commit = {k: v for k, v in wire.decode(blocks.pop(roots[0])).items() if k != "sig"}
        commit.update({**changes, **dict(more)})
        block = synth.encode({**commit, "sig": curves.sign(curve, secret, synth.encode(commit), high)})
        root = synth.cid(block)
        return {**payload, **changes, "commit": synth.link(root), "blocks": synth.car(root, [(root, block), *blocks.items()])}

    def without_node(self, payload):
        roots, blocks = wire.car(payload["blocks"])
        kept = {wire.cid(op["cid"]) for op in payload["ops"] if op["cid"]} | set(roots)
        nodes = [cid for cid in blocks if cid not in kept]
        if nodes:
            del blocks[self.random.choice(nodes)]
        return {**payload, "blocks": synth.car(roots[0], list(blocks.items()))}

    def bare(self, payload):
        ops = [{k: v for k, v in op.items() if k != "prev"} for op in payload["ops"]]
        return {**{k: v for k, v in payload.items() if k != "prevData"}, "ops": ops}

    def invented_sync(self, payload):
        rev = rev_before(payload["rev"])
        block = {"did": payload["repo"], "version": 3, "data": synth.link(synth.cid(self.random.randbytes(8))), "rev": rev, "prev": None}
        block = synth.encode({**block, "sig": curves.sign(curves.K256, STRANGER, synth.encode(block))})
        root = synth.cid(block)
        return {"did": payload["repo"], "rev": rev, "time": payload["time"], "blocks": synth.car(root, [(root, block)])}

    def spoil(self, fault, payload):
        did = payload["repo"]
        if fault == "lost":
            self.truth.append((len(self.out) + 1, did, fault))
        elif fault in ("late", "twice"):
            if fault == "twice":
                self.put("#commit", payload)
            waits_for = did if fault == "late" else None
            self.waiting.append((self.random.randrange(2, 100), waits_for, "#commit", payload, fault))
        elif fault == "fork":
            self.put("#commit", payload)
            self.put("#commit", self.signed_by(payload, *self.secret(payload), more={"fork": True}), fault)
        elif fault in ("future", "before", "sync"):
            if fault == "future":
                self.put("#commit", self.signed_by(payload, *self.secret(payload), rev=FUTURE), fault)
            elif fault == "before":
                self.put("#commit", self.signed_by(payload, curves.K256, STRANGER, rev=rev_before(payload["rev"])), fault)
            else:
                self.put("#sync", self.invented_sync(payload), fault)
            self.put("#commit", payload)
        else:
            self.put("#commit", self.changed(fault, payload), fault)

    def changed(self, fault, payload):
        if fault == "cut":
            return self.without_node(payload)
        if fault == "bare":
            return self.bare(payload)
        if fault == "altered":
            return {**payload, "prevData": synth.link(synth.cid(self.random.randbytes(8)))}
        if fault == "omitted":
            ops = list(payload["ops"])
            del ops[self.random.randrange(len(ops))]
            return {**payload, "ops": ops}
        if fault == "stranger":
            return self.signed_by(payload, curves.K256, STRANGER)
        if fault == "high":
            return self.signed_by(payload, *self.secret(payload), high=True)
        other = self.random.choice(sorted(set(self.secrets) - {payload["repo"]}))
        return self.signed_by(payload, *self.secrets[other][0][1:])

    def message(self, kind, payload):
        while self.changes and payload["seq"] >= self.changes[0]:
            self.flush(everything=True)
            self.seqs[self.changes.pop(0)] = len(self.out) + 1
        did = payload.get("repo")
        if did is not None and int.from_bytes(did[-4:].encode(), "big") % 50 == 0:
            payload = self.bare(payload)
        # what comes first of an account tells whether it can be known at all
        self.commits[did] = self.commits.get(did, 0) + (did is not None)
        if did is not None and self.commits[did] > 2 and self.random.random() * 100 < self.percent:
            self.spoil(self.random.choice(self.faults), payload)
            self.flush()
        else:
            self.put(kind, payload)
            self.flush(did)

    def finish(self, path):
        self.flush(everything=True)
        os.makedirs(path, exist_ok=True)
        with open(os.path.join(path, "frames"), "wb") as f:
            synth.write(self.out, f)
        with open(os.path.join(path, "documents"), "w", encoding="utf-8") as f:
            for document in self.documents:
                seq = self.seqs.get(document["seq"], len(self.out) + 1)
                f.write(json.dumps({**document, "seq": seq}, separators=(",", ":")) + "\n")
        with open(os.path.join(path, "last"), "w", encoding="utf-8") as f:
            f.write(f"{len(self.out)}\n")
        with open(os.path.join(path, "truth"), "w", encoding="utf-8") as f:
            for row in self.truth:
                f.write("\t".join(map(str, row)) + "\n")


def only_sure(path):
    """Takes the accounts out of which levels.py is not sure."""
    frames = os.path.join(path, "frames")
    st = levels.Levels("full", os.path.join(path, "documents"))
    st.run(frames)
    out = []
    for message in wire.messages(frames):
        _, payload = wire.frame(message)
        if (payload.get("repo") or payload["did"]) in st.unsure:
            message = synth.encode({"op": 1, "t": "#unsure"}) + synth.encode({"seq": payload["seq"]})
        out.append(message)
    with open(frames, "wb") as f:
        synth.write(out, f)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("capture")
    parser.add_argument("directory")
    parser.add_argument("out")
    parser.add_argument("--percent", type=float, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=lambda text: text.split(","), default=FAULTS)
    parser.add_argument("--sure", action="store_true")
    args = parser.parse_args()
    if not set(args.only) <= set(FAULTS):
        sys.exit(f"the faults are {', '.join(FAULTS)}")
    spoiler = Spoiler(args.directory, args.percent, args.seed, args.only)
    for message in wire.messages(args.capture):
        header, payload = wire.frame(message)
        spoiler.message(header["t"], payload)
    spoiler.finish(args.out)
    if args.sure:
        only_sure(args.out)


if __name__ == "__main__":
    main()
