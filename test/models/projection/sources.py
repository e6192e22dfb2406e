"""Marks of the model sources.pml: the row of a repository and its held events, where two relays at level chain fill the target.

An object is a repository of a target.  Its marks end where the trace leaves what the model has: another level or source, a status
of the account, a fetch, an audit, a session that changes rows, a removed subscription.
"""
import re

from union import Union

# what a reader of a refused transaction wants to see
TABLES = ("repo", "atproto.held_event", "atproto.cursor")

SYNC = {"partial": 0, "desynchronized": 1, "synchronized": 2}
# since of a held commit, in the bytes of its message: the key and a text of 13 bytes
SINCE = re.compile(r"6573696e63656d([0-9a-f]{26})")
NO_ROW = {"rev": None, "sync": "partial", "hold": None}
LONGEST = 80        # revisions of a repository that the model can have


class Repository:
    def __init__(self, target, did):
        self.name = "%s of %s" % (did, target)
        self.found = []         # (what, source, revision or count, row, transaction)
        self.row = NO_ROW
        self.held = {}
        self.since = {}         # revision of a held commit: that of the commit before
        self.ended = False

    def state(self):
        return SYNC[self.row["sync"]] + 4 * (self.row["hold"] is not None) + 8 * len(self.held)

    def marks(self, mark):
        revs = sorted({rev for _, _, rev, _, _ in self.found if rev})
        place = {rev: n for n, rev in enumerate(revs, 1)}
        place[None] = 0
        known = []
        for rev, since in sorted(self.since.items()):
            if rev in place and place[rev] > 1:
                # a commit before it that the trace has not is told from one that was the last before it
                known.append(mark("BEGIN", place[rev], 1 if since == revs[place[rev] - 2] else 2, 0, self.found[0][4]))
        return len(revs), known + [mark(what, a, place[rev], c, transaction) for what, a, rev, c, transaction in self.found]


def target_of(table):
    found = re.match(r"(\w+)\.repo(_\w+)?$", table)
    return found.group(1) if found else None


def same(old, new):
    return all(old[k] == new[k] for k in ("rev", "sync", "hold"))


class Tables(Union):
    RELAYS = (2,)
    CHANGES = Union.CHANGES + ("url",)
    ENDS = ("INSERT", "DELETE")
    Repository = Repository

    def transaction(self, transaction):
        rows, added, removed = {}, {}, {}
        moved = self.moved(transaction)
        for change in transaction.of("atproto.subscription"):
            self.subscription(change)
        for change in transaction.changes:
            target = target_of(change.table)
            if change.kind == "TRUNCATE":
                if target or change.table == "atproto.held_event":
                    for t in [target] if target else {k[0] for k in self.repositories}:
                        self.end(t)
            elif target and target != "atproto" or change.table == "atproto.repo":
                row = change.new or change.old
                rows[target, row["did"]] = change
            elif change.table == "atproto.held_event":
                row = change.new or change.old
                key = row["target"], row["did"]
                if change.kind == "INSERT":
                    added.setdefault(key, []).append(row)
                elif change.kind == "DELETE":
                    removed.setdefault(key, []).append(row)
        for key in sorted(set(rows) | set(added) | set(removed)):
            self.step(transaction, key, rows.get(key), added.get(key, []), removed.get(key, []), moved)

    def step(self, transaction, key, change, added, removed, moved):
        repository = self.repository(*key)
        sources = self.sources(key[0])
        if change and change.kind == "DELETE" or not self.fits(key[0]) or len(moved) > 1 or moved and not moved <= set(sources) or moved and removed \
                or added and not moved:
            repository.ended = True
            return
        if repository.ended:
            return
        before = repository.row
        row = change.new if change else before
        if row["sync"] not in SYNC or row["hold"] not in (None, "gap") or row.get("active", "t") not in ("t", "true") or row.get("deleted_rev") or row.get("refill_by"):
            repository.ended = True
            return
        if same(before, row) and not added and not removed:
            return
        if not moved and not removed:
            repository.ended = True
            return
        if not repository.found:
            repository.found.append(("BEGIN", 0, None, 0, transaction))
        repository.row = row
        source = sources.index(min(moved)) if moved else 0
        for held in sorted(added, key=lambda h: int(h["seq"])):
            repository.held[held["subscription"], held["seq"]] = True
            since = SINCE.search(held["bytes"])
            if since:
                repository.since[held["rev"]] = bytes.fromhex(since.group(1)).decode("ascii", "replace")
            repository.found.append(("HOLD", source, held["rev"], 0, transaction))
        for held in removed:
            repository.held.pop((held["subscription"], held["seq"]), None)
        repository.found.append(("STREAM" if moved else "RELEASE", source if moved else len(removed), row["rev"], repository.state(), transaction))


def objects(transactions, mark):
    tables = Tables()
    for transaction in transactions:
        tables.transaction(transaction)
    for repository in tables.done + list(tables.repositories.values()):
        # without held events there is nothing that the sources have to do with each other
        if any(f[0] == "HOLD" for f in repository.found):
            n, marks = repository.marks(mark)
            if n <= LONGEST:
                yield "repository " + repository.name, marks, ("-DN=%d" % max(n, 1),)
