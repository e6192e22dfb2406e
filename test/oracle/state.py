"""Computes the tables after a stream was consumed.

The rules, in the order in which they bite (numbers are those of doc/develop/conformance.md):

- Messages are taken in the order of their seq.
- A #commit or #sync that is not well-formed is rejected as a whole (F-02, F-07):
  its CAR does not parse, a block does not match its CID, the first root is not
  the commit, the commit's did or rev differ, an operation has no valid path, the
  same path as another, a cid that does not suit its action, or one that is not
  among the blocks.  Nothing of it is applied.
- A #commit or #sync of an inactive account is ignored (F-05).
- A #commit or #sync whose rev is not newer than the repository's is ignored (F-03).
- create and update store the record with the rev of their commit; delete
  removes it.  A record that is not valid is not stored, the row that was there
  stays, and the commit's other operations are applied (B-29).
- A record that jsonb cannot hold has its row, with no JSON.
- #sync changes no record; it moves rev, commit and data as a commit does.
- A commit that does not follow the last one (F-08) is applied all the same:
  there is no resynchronization that could repair it.
- #account (none is older than the one before, here) sets active and status, also of a repository never seen before;
  status "deleted" (not active) removes the records, each of which is an operation (with its own rev) where
  records are kept; rev, commit and handle stay, so that
  a replay of old commits is still recognized.
- #identity sets the handle when it has one.
- Filters drop operations on records, nothing else (F-14); messages of DIDs that are not
  wanted are dropped whole.
"""

import re
from collections import Counter
from fnmatch import fnmatchcase

import record
import wire

NSID = re.compile(r"[a-zA-Z](?:[a-zA-Z0-9-]*\.)+[a-zA-Z][a-zA-Z0-9]*")
OPS_MAX = 200  # F-01
BLOCKS_MAX = 2_000_000  # bytes
RKEY = re.compile(r"[A-Za-z0-9_~.:-]{1,512}")


class Repo:
    def __init__(self):
        self.rev = self.commit = self.data = self.handle = self.status = None
        self.active = True
        self.records = {}  # (collection, rkey) -> (cid, rev, value)


class State:
    def __init__(self, collections=None, dids=None, only_actions=None, changes=None, kept=True, special=False):
        self.kept = kept  # records, not only operations
        self.collections = collections
        self.dids = dids
        self.only_actions = only_actions
        self.changes = changes or {}  # seq -> the collections of later events
        self.repos = {}
        self.dead = []  # (seq, path, class)
        self.types = Counter()
        self.actions = Counter()
        self.operations = []  # (seq, action, did, collection, rkey, rev, cid, value)
        self.ignored = Counter()
        self.wants_special = special  # looking for what is unusual takes as long as all the rest
        self.special = Counter()  # of all valid records that were written

    def run(self, path, first=1, last=None):
        """Consume a capture file; only messages with first <= seq <= last."""
        entries = []
        for message in wire.messages(path):
            header, payload = wire.frame(message)
            if header.get("op") == 1:
                entries.append((payload.get("seq", 0), header["t"], payload))
        entries.sort(key=lambda entry: entry[0])
        for seq, kind, payload in entries:
            if seq >= first and (last is None or seq <= last):
                self.message(seq, kind, payload)
            self.collections = self.changes.get(seq, self.collections)

    def message(self, seq, kind, payload):
        self.types[kind] += 1
        handler = {
            "#commit": self.commit,
            "#sync": self.sync,
            "#account": self.account,
            "#identity": self.identity,
        }.get(kind)
        if handler is None:
            return
        try:
            handler(seq, payload)
        except wire.Malformed as e:
            self.dead.append((seq, "", str(e)))

    def repo(self, did):
        return self.repos.setdefault(did, Repo())

    # --- #commit and #sync ---

    def signed(self, payload, did):
        """The blocks of the message, its commit's CID and the CID of its tree."""
        if len(payload["blocks"]) > BLOCKS_MAX:
            raise wire.Malformed("size")
        roots, blocks = wire.car(payload["blocks"])
        if any(len(key) != 36 or key[1] not in (0x71, 0x55) for key in blocks):
            raise wire.Malformed("codec")
        if not roots or roots[0] not in blocks:
            raise wire.Malformed("commit")
        commit = wire.decode(blocks[roots[0]])
        if commit.get("did") != did or commit.get("rev") != payload["rev"]:
            raise wire.Malformed("commit")
        return blocks, roots[0], wire.cid(commit["data"])

    def moves(self, repo, payload):
        """Is it for us?  Otherwise it is counted."""
        if not repo.active:
            self.ignored["not active"] += 1
        elif repo.rev is not None and payload["rev"] <= repo.rev:
            self.ignored["old rev"] += 1
        else:
            return True
        return False

    def commit(self, seq, payload):
        did = payload["repo"]
        blocks, root, data = self.signed(payload, did)
        if root != wire.cid(payload["commit"]):
            raise wire.Malformed("commit")
        self.check_operations(payload["ops"], blocks)
        repo = self.repo(did)
        if not self.moves(repo, payload):
            return
        repo.rev, repo.commit, repo.data = payload["rev"], root, data
        for op in payload["ops"]:
            try:
                self.operation(repo, did, op, blocks, payload["rev"], seq)
            except wire.Malformed as e:
                self.dead.append((seq, op["path"], str(e)))

    def sync(self, seq, payload):
        del seq
        did = payload["did"]
        _, root, data = self.signed(payload, did)
        repo = self.repo(did)
        if self.moves(repo, payload):
            repo.rev, repo.commit, repo.data = payload["rev"], root, data

    def wanted(self, did, collection, action=None):
        return (
            (self.dids is None or did in self.dids)
            and (self.only_actions is None or action in self.only_actions)
            and (
                self.collections is None
                or any(fnmatchcase(collection, pattern) for pattern in self.collections)
            )
        )

    def check_operations(self, ops, blocks):
        if len(ops) > OPS_MAX or len({op["path"] for op in ops}) < len(ops):
            raise wire.Malformed("operations")
        for op in ops:
            collection, _, rkey = op["path"].partition("/")
            if not NSID.fullmatch(collection) or not RKEY.fullmatch(rkey) or rkey in (".", ".."):
                raise wire.Malformed("path")
            if (op["cid"] is None) != (op["action"] == "delete") or (
                op["action"] == "create" and "prev" in op
            ):
                raise wire.Malformed("operations")
            if op["cid"] is not None and wire.cid(op["cid"]) not in blocks:
                raise wire.Malformed("missing")

    def operation(self, repo, did, op, blocks, rev, seq):
        self.actions[op["action"]] += 1
        collection, _, rkey = op["path"].partition("/")
        if not self.wanted(did, collection, op["action"]):
            return
        done = (seq, op["action"], did, collection, rkey, rev)
        if op["action"] == "delete":
            self.operations.append((*done, None, None))
            repo.records.pop((collection, rkey), None)
            return
        cid = wire.cid(op["cid"])
        value = record.check(blocks[cid])
        if self.wants_special:
            self.note(value)
        self.operations.append((*done, cid, value))
        repo.records[collection, rkey] = (cid, rev, value)

    # --- #account and #identity ---

    def is_stranger(self, did):
        """An account of which a filter by collections has left nothing: its handle makes no row (H-34)."""
        return did not in self.repos and self.collections is not None and self.dids is None

    def account(self, seq, payload):
        did = payload["did"]
        repo = self.repo(did)
        repo.active = payload["active"]
        repo.status = payload.get("status")
        if not repo.active and repo.status == "deleted":
            for (collection, rkey), (_, rev, _) in repo.records.items():
                if self.kept:
                    self.operations.append((seq, "delete", did, collection, rkey, rev, None, None))
            repo.records.clear()

    def identity(self, seq, payload):
        del seq
        if self.is_stranger(payload["did"]):
            return
        repo = self.repo(payload["did"])
        repo.handle = payload.get("handle", repo.handle)

    # --- what is unusual ---

    def note(self, value):
        self.special["all"] += 1
        try:
            record.plain(value)
        except record.NoJson as e:
            self.special[str(e)] += 1
        for kind in set(features(value)):
            self.special[kind] += 1


def features(value):
    """Names of the unusual things in a record."""
    if isinstance(value, wire.cbor2.CBORTag):
        yield "link"
    elif isinstance(value, bytes):
        yield "bytes"
    elif type(value) is int and abs(value) >= 2**53:
        yield "integer of 2^53 or more"
    elif isinstance(value, str):
        if any(ord(c) > 0xFFFF for c in value):
            yield "character beyond U+FFFF"
        if len(value.encode()) > 10000:
            yield "text over 10,000 bytes"
    elif isinstance(value, list):
        for member in value:
            yield from features(member)
    elif isinstance(value, dict):
        if "" in value:
            yield "empty key"
        if value.get("$type") == "blob":
            yield "blob"
        for key, member in value.items():
            if not key.isascii():
                yield "key that is not ASCII"
            yield from features(member)
