"""Marks of the model export.pml: a record of a repository that is fetched, the repository's row, and its held events.

An object is a record of a repository of a target that a single subscription fills; records with the same marks are one object.  It ends where
something happens that the model does not have: a deleted or inactive account, a refill, a forced fetch, a dead letter of the record.
"""
import collections

# what a reader of a refused transaction wants to see
TABLES = ("repo", "atproto.held_event", "record", "atproto.repo_job")

SYNC = {"partial": 0, "unproven": 1, "desynchronized": 2, "resyncing": 3, "synchronized": 4}
MOST = 28       # revisions
FILTER = ("collections", "dids", "slice", "actions", "target", "verify", "keep_records", "validate")


class Repository:
    def __init__(self):
        self.found = []         # (number of the transaction, sync and hold, rev, held revisions)
        self.row = {"sync": "partial", "hold": None, "rev": None}
        self.held = {}
        self.records = collections.defaultdict(list)    # path: (number of the transaction, rev, cid)
        self.ends = {}          # path: the number of the transaction with which it ends; None: all paths
        self.table = {}         # path: the table or partition that has the row
        self.again = {}         # path: the number of the transaction that inserts a row which is there, or deletes one which is not

    def end(self, transaction, path=None):
        self.ends.setdefault(path, transaction.number)

    def note(self, transaction):
        state = (SYNC[self.row["sync"]] + 8 * (self.row["hold"] == "resync"), self.row["rev"], frozenset(self.held.values()))
        if state != (self.found[-1][1:] if self.found else (0, None, frozenset())):
            self.found.append((transaction.number,) + state)

    def marks(self, path, times, streamed):
        """The marks of a record, with revisions and values as numbers; None: too many."""
        ends = min(self.ends.get(None, 1 << 60), self.ends.get(path, 1 << 60))
        repo = {n: rest for n, *rest in self.found if n < ends}
        rows = {n: rest for n, *rest in self.records[path] if n < ends}
        revs = {rev for _, rev, held in repo.values() for rev in held | {rev}} | {rev for rev, _ in rows.values()}
        rank = {rev: k for k, rev in enumerate(sorted(revs - {None}), 1)}
        if len(rank) > MOST or not any(state & 8 for state, _, _ in repo.values()):
            return None
        most = len(rank)
        rank[None] = 0
        values = {None: 0}
        (state, rev, held), (row_rev, cid), found = (0, None, frozenset()), (None, None), []
        for n in sorted(set(repo) | set(rows)):
            state, rev, held = repo.get(n, (state, rev, held))
            row_rev, cid = rows.get(n, (row_rev, cid))
            value = values.setdefault(cid, len(values))
            if self.again.get(path, n) < n:
                break
            found.append(("STREAM" if n in streamed else "OTHER", state + 16 * rank[rev], sum(1 << rank[h] for h in held), rank[row_rev] + 32 * value, times[n]))
        if self.again.get(path, ends) < ends:
            found.append(("AGAIN", 0, 0, 0, times[self.again[path]]))
        return found, most


def objects(transactions, mark):
    repositories = collections.defaultdict(Repository)
    fillers = {}
    spoilt = set()
    streamed = set()
    times = {}

    for transaction in transactions:
        times.setdefault(transaction.number, transaction)
        touched = {}
        if any(c.kind == "UPDATE" and c.new["updated_at"] != c.old["updated_at"] for c in transaction.of("atproto.cursor")):
            streamed.add(transaction.number)
        for change in transaction.changes:
            schema, table = change.table.split(".", 1)
            row = change.new or change.old
            if change.table == "atproto.subscription":
                fillers.setdefault(row["target"], {})[row["name"]] = row
                if change.kind == "UPDATE" and any(change.old[k] != change.new[k] for k in FILTER):
                    spoilt |= {change.old["target"], change.new["target"]}
            elif change.kind == "TRUNCATE":
                for (target, _), r in repositories.items():
                    if target == schema or schema == "atproto":
                        r.end(transaction)
            elif table == "repo":
                r = touched[schema, row["did"]] = repositories[schema, row["did"]]
                if change.kind == "DELETE" or row["active"] not in ("t", "true") or row.get("deleted_rev") or row.get("refill_by"):
                    r.end(transaction)
                r.row = row
            elif change.table == "atproto.held_event" and row["kind"] == "repo":
                r = touched[row["target"], row["did"]] = repositories[row["target"], row["did"]]
                key = (row["rev"], row["seq"])
                if change.kind == "DELETE":
                    r.held.pop(key, None)
                else:
                    r.held[key] = row["rev"]
            elif change.table == "atproto.repo_job" and row["force"] in ("t", "true"):
                repositories[row["target"], row["did"]].end(transaction)
            elif change.table == "atproto.dead_letter" and row["did"]:
                for (_, did), r in repositories.items():
                    if did == row["did"]:
                        r.end(transaction, row["path"] if row["path"] and not row["path"].startswith("#") else None)
            elif table == "record" or table.startswith("record_") and not table.startswith("record_event"):
                r = repositories[schema, row["did"]]
                found = r.records[row["collection"] + "/" + row["rkey"]]
                path = row["collection"] + "/" + row["rkey"]
                if change.kind == "DELETE" and r.table.get(path, table) != table:
                    # it has gone to another partition
                    continue
                r.table[path] = table
                state = (None, None) if change.kind == "DELETE" else (row["rev"], row["cid"])
                former = found[-1][1:] if found else (None, None)
                if (change.kind == "DELETE" and former == (None, None)) or (change.kind == "INSERT" and change.old):
                    r.again.setdefault(path, transaction.number)
                if found and found[-1][0] == transaction.number:
                    found.pop()
                if state != (found[-1][1:] if found else (None, None)):
                    found.append((transaction.number,) + state)
        for r in touched.values():
            r.note(transaction)
    for (target, did), r in sorted(repositories.items()):
        if len(fillers.get(target, ())) != 1 or target in spoilt:
            continue
        sub = next(iter(fillers[target].values()))
        if sub["actions"] or sub["keep_records"] not in ("t", "true"):
            continue
        stories = {}
        for path in sorted(r.records) or ["no record"]:
            found = r.marks(path, times, streamed)
            if found:
                stories.setdefault(tuple(f[:4] for f in found[0]), (path, found))
        for path, (found, most) in stories.values():
            name = "%s/%s of %s" % (did, path, target)
            yield "record " + name, [mark(*f) for f in found], ["-DREVS=%d" % next(n for n in (4, 8, 14, MOST) if most <= n)] + ["-DKEYS=1"] * (sub["verify"] == "full")
