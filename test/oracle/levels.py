#!/usr/bin/python3
"""Computes the tables after a capture at each level of verification: the rules of state.py, and repo.sync.

    levels.py LEVEL CAPTURE OUT [--documents FILE]
    levels.py compare OUT/FILE < COPY-OUTPUT

LEVEL: hash, chain, full.  Files of the directory OUT:
    record  as expect.py has it
    repo    did, rev, commit, data, active (t/f), status, handle, sync
    dead    stage, did, how many letters
    audited did, sync once all were audited (V-45)
    skips   what was counted: bad_signature, break, forked, inactive, incomplete, mismatch, no_identity, old, skipped_revs,
            verified
    unsure  the repositories of which the end depends on time (spoil.py --sure leaves them out)

--documents is what test/simulator writes with --directory; at level full it is needed.  The rules, beside those of
state.py (numbers are those of doc/develop/conformance.md):

- At hash and chain, whoever sends the events is believed.  At full an event that is newer than its repository
  counts only when the account's key has signed it (V-05 to V-08), whatever else is wrong with it.
- The key is that of the document which was read last.  It is read when the account is seen first, when an event
  comes after an #identity, and when a signature does not fit.  The directory changes only at the seqs of the
  documents; before one of these, nothing waits for it any more.
- Events wait until it has been read, and #account does not wait for them; those that wait are taken in the order of their
  rev.  So for an account that is seen to go or to come, or of which an older event comes after a newer one, when something
  of it has waited since the directory changed last, time decides: it is "unsure".
- The letter about a signature is one for each repository and key; all are counted.
- Two commits of the same rev that the account has signed: desynchronized, at full.
- chain and full: a commit of which an operation is not what its tree says (V-17), or that comes from another tree
  than its prevData (V-26), changes no record, and its repository is desynchronized.
- When nobody can tell (V-27), it is applied, and what was synchronized is unproven.  So it is when a record was refused.
- A commit that does not come from the tree that is known, or where none is known from its rev: desynchronized (V-31 to V-33).
- The first commit of all: synchronized (V-35).
- #sync to another tree than the one that is known, or of a repository of which nothing is: desynchronized (V-36).
- With a deleted account its letters and records go; at full when its server or the directory agrees, which they do in the end.
- A rev in the future (V-14) is refused, and nothing follows from it; at full, only when the account has signed it.
"""

import argparse
import json
import os
import sys
import time

import curves
import expect
import state
import synth
import trees
import wire

MAY_BE_AHEAD = 5 * 60 * 1_000_000
STAGES = {"signature": "signature", "operations": "message", "path": "message"}
PARTIAL, UNPROVEN, BROKEN, SYNCED = "partial", "unproven", "desynchronized", "synchronized"


class Repo(state.Repo):
    def __init__(self):
        super().__init__()
        self.sync = PARTIAL
        self.seen = set()  # CIDs of commits
        self.erased = False  # there has been nothing since the account was deleted
        self.first_rev = None

    def is_empty(self):
        return self.rev is None or self.erased


class Directory:
    """Documents over time, and what of them has been read."""

    def __init__(self, path):
        self.documents = {}  # did -> [(seq, Key or None)]
        self.changes = set()
        for line in open(path, encoding="utf-8"):
            entry = json.loads(line)
            key = entry["document"] and curves.key_of_document(entry["document"])
            self.documents.setdefault(entry["did"], []).append((entry["seq"], key and curves.Key(key)))
            self.changes.add(entry["seq"])
        self.changes = sorted(self.changes)
        self.read = {}  # did -> Key or None
        self.stale = set()
        self.waited = {}  # did -> the change before which something waited

    def epoch(self, seq):
        return sum(change <= seq for change in self.changes)

    def ask(self, did, seq):
        holds = [key for since, key in self.documents.get(did, []) if since <= seq]
        self.read[did] = holds[-1] if holds else None
        self.stale.discard(did)
        self.waited[did] = self.epoch(seq)

    def has_waited(self, did, seq):
        return self.waited.get(did) == self.epoch(seq)

    def fits(self, did, commit):
        """By the key that has been read; None when there is none."""
        message = synth.encode({k: v for k, v in commit.items() if k != "sig"})
        return self.read.get(did) and self.read[did].verifies(message, commit["sig"])

    def verifies(self, did, seq, commit):
        if did not in self.read or did in self.stale:
            self.ask(did, seq)
        known = self.read[did]
        if known is None:
            return None
        if self.fits(did, commit):
            return True
        self.ask(did, seq)
        if self.read[did] is not None and self.read[did].bytes == known.bytes:
            return False
        return self.fits(did, commit)


class Levels(state.State):
    def __init__(self, level, documents=None):
        super().__init__()
        self.level = level
        self.directory = Directory(documents) if level == "full" else None
        self.skips = state.Counter()
        self.letters = state.Counter()  # (stage, did)
        self.unsure = set()
        self.refused = set()  # (did, key)
        self.limit = time.time() * 1_000_000 + MAY_BE_AHEAD

    def run(self, path, first=1, last=None):
        """Messages in the order of the file, which need not be in memory."""
        for message in wire.messages(path):
            header, payload = wire.frame(message)
            if payload["seq"] >= first and (last is None or payload["seq"] <= last):
                self.message(payload["seq"], header["t"], payload)

    def repo(self, did):
        return self.repos.setdefault(did, Repo())

    def message(self, seq, kind, payload):
        before = len(self.dead)
        super().message(seq, kind, payload)
        did = payload.get("repo") or payload.get("did")  # an unknown message has none
        for _, path, fault in self.dead[before:]:
            self.letters["record" if path else STAGES.get(fault, "commit"), did] += 1

    # --- is it for us? ---

    def moves(self, repo, payload, root, commit):
        did = payload.get("repo") or payload.get("did")
        is_new = root not in repo.seen
        repo.seen.add(root)
        if not repo.active:
            self.skips["inactive"] += 1
            if self.misses(repo, payload, commit):
                repo.sync = BROKEN
            return False
        if repo.rev is None or payload["rev"] > repo.rev:
            return True
        if self.directory and payload["rev"] == repo.rev and root != repo.commit and self.directory.fits(did, commit):
            self.skips["forked"] += 1
            repo.sync = BROKEN
            return False
        self.skips["old"] += 1
        if self.directory and is_new and payload["rev"] < repo.rev and self.directory.has_waited(did, payload["seq"]):
            self.unsure.add(did)
        if "repo" in payload and payload["rev"] < repo.first_rev and not repo.erased and repo.sync != SYNCED:
            self.break_off(repo)
        return False

    def misses(self, repo, payload, commit):
        """Do the tables lack what is ignored, because the account is not active (V-38)?  At level full only if it is signed."""
        did = payload.get("repo") or payload["did"]
        if (repo.status == "deleted" and repo.is_empty()) or (repo.rev is not None and payload["rev"] <= repo.rev):
            return False
        if "repo" not in payload and self.is_known(repo, wire.cid(commit["data"])):
            return False
        return self.directory is None or (did not in self.directory.stale and self.directory.fits(did, commit))

    def is_known(self, repo, data):
        """Is this the tree that the tables have?"""
        if repo.is_empty():
            return repo.rev is None and self.level == "hash"
        return data == repo.data

    def is_signed(self, did, seq, commit):
        """Raises what becomes a letter."""
        if self.directory is None:
            return True
        fits = self.directory.verifies(did, seq, commit)
        if fits is None:
            self.skips["no_identity"] += 1
            return False
        if not fits:
            self.skips["bad_signature"] += 1
            key = self.directory.read[did].bytes
            self.letters["signature", did] -= (did, key) in self.refused
            self.refused.add((did, key))
            raise wire.Malformed("signature")
        self.skips["verified"] += 1
        return True

    def check_rev(self, rev):
        number = 0
        for digit in rev:
            number = number << 5 | synth.ALPHABET.index(digit)
        if number >> 10 > self.limit:
            raise wire.Malformed("future")

    # --- #commit ---

    def commit(self, seq, payload):
        did = payload["repo"]
        blocks, root, data = self.signed(payload, did)
        if root != wire.cid(payload["commit"]):
            raise wire.Malformed("commit")
        self.check_operations(payload["ops"], blocks)
        if payload.get("prevData") and any(op["action"] != "create" and "prev" not in op for op in payload["ops"]):
            raise wire.Malformed("operations")  # F-07
        if self.level == "hash":
            self.check_rev(payload["rev"])
            if not trees.forward(payload, data, blocks):
                raise wire.Malformed("proof")
            repo = self.repo(did)
            if self.moves(repo, payload, root, None):
                self.follow(repo, payload, None, False)
                self.apply(repo, seq, payload, root, data, blocks)
            return
        known = did in self.repos
        repo = self.repo(did)
        try:
            proof, first = self.prove(repo, seq, payload, wire.decode(blocks[root]), data, blocks)
        except wire.Malformed:
            if not known:
                del self.repos[did]
            raise
        if proof is None:
            return
        self.follow(repo, payload, proof, first)
        self.apply(repo, seq, payload, root, data, blocks)

    def prove(self, repo, seq, payload, commit, data, blocks):
        """What the commit proves; None when it is not for us."""
        newer = repo.active and (repo.rev is None or payload["rev"] > repo.rev)
        if newer and not self.is_signed(payload["repo"], seq, commit):
            return None, False
        if newer or not self.directory:
            self.check_rev(payload["rev"])
        proof, first = trees.verdict(payload, data, blocks)
        if proof in (trees.REFUTED, trees.MISMATCH) and (newer or not self.directory):
            if proof == trees.MISMATCH:
                self.skips["mismatch"] += 1
            if newer or self.misses(repo, payload, commit):
                repo.sync = BROKEN
            self.dead.append((seq, "", "proof"))
            return None, False
        if not self.moves(repo, payload, wire.cid(payload["commit"]), commit):
            return None, False
        return proof, first

    def break_off(self, repo):
        self.skips["break"] += 1
        repo.sync = BROKEN

    def follow(self, repo, payload, proof, first):
        """What a commit that is newer says of the records in the tables."""
        if first and repo.is_empty() and proof == trees.PROVEN:
            repo.sync = SYNCED
        elif repo.rev is not None:
            since, tree = payload["since"], payload.get("prevData") and wire.cid(payload["prevData"])
            if repo.is_empty():
                if since is not None:
                    self.break_off(repo)
            elif tree is not None:
                if tree != repo.data:
                    self.break_off(repo)
                elif since != repo.rev:
                    self.skips["skipped_revs"] += 1
            elif since != repo.rev:
                self.break_off(repo)
        if proof == trees.INCOMPLETE:
            self.skips["incomplete"] += 1
            if repo.sync == SYNCED:
                repo.sync = UNPROVEN

    def apply(self, repo, seq, payload, root, data, blocks):
        self.advance(repo, payload["rev"], root, data)
        for op in payload["ops"]:
            try:
                self.operation(repo, payload["repo"], op, blocks, payload["rev"], seq)
            except wire.Malformed as e:
                self.dead.append((seq, op["path"], str(e)))
                if repo.sync == SYNCED:
                    repo.sync = UNPROVEN

    def advance(self, repo, rev, root, data):
        if repo.first_rev is None:
            repo.first_rev = rev
        repo.rev, repo.commit, repo.data, repo.erased = rev, root, data, False

    # --- the others ---

    def sync(self, seq, payload):
        did = payload["did"]
        blocks, root, data = self.signed(payload, did)
        repo = self.repo(did)
        newer = repo.active and (repo.rev is None or payload["rev"] > repo.rev)
        commit = wire.decode(blocks[root])
        if newer and not self.is_signed(did, seq, commit):
            return
        if newer or not self.directory:
            self.check_rev(payload["rev"])
        if not self.moves(repo, payload, root, commit):
            return
        if not self.is_known(repo, data):
            repo.sync = BROKEN
        self.advance(repo, payload["rev"], root, data)

    def account(self, seq, payload):
        did = payload["did"]
        repo = self.repo(did)
        if repo.active != payload["active"] and self.directory and self.directory.has_waited(did, seq):
            self.unsure.add(did)
        super().account(seq, payload)
        if not repo.active and repo.status == "deleted":
            repo.erased = True
            for letter in [letter for letter in self.letters if letter[1] == did]:
                del self.letters[letter]

    def identity(self, seq, payload):
        super().identity(seq, payload)
        if self.directory:
            self.directory.stale.add(payload["did"])


def repo_rows(st):
    for row in expect.repo_rows(st):
        yield *row, st.repos[row[0]].sync


def audited_rows(st):
    for did, repo in st.repos.items():
        if not repo.is_empty():
            found = synth.tree({f"{collection}/{rkey}": cid for (collection, rkey), (cid, _, _) in repo.records.items()})[0]
            yield did, SYNCED if found == repo.data else BROKEN


FILES = {
    "audited": audited_rows,
    "record": expect.record_rows,
    "repo": repo_rows,
    "dead": lambda st: [(*key, n) for key, n in st.letters.items()],
    "skips": lambda st: st.skips.items(),
    "unsure": lambda st: [(did,) for did in st.unsure],
}


def main():
    if sys.argv[1:2] == ["compare"]:
        sys.stdin.reconfigure(encoding="utf-8", newline="\n")
        with open(sys.argv[2], encoding="utf-8", newline="\n") as f:
            sys.exit(0 if expect.compare(f.read().splitlines(), expect.canon(sys.stdin)) else 1)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("level", choices=["hash", "chain", "full"])
    parser.add_argument("capture")
    parser.add_argument("out")
    parser.add_argument("--documents")
    args = parser.parse_args()
    st = Levels(args.level, args.documents)
    st.run(args.capture)
    os.makedirs(args.out, exist_ok=True)
    for name, rows in FILES.items():
        with open(os.path.join(args.out, name), "w", encoding="utf-8", newline="\n") as f:
            f.writelines(line + "\n" for line in expect.lines(rows(st)))


if __name__ == "__main__":
    main()
