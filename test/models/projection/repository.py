"""Marks of the model repository.pml: the visible state of an account's repository in a target, after each transaction that changes it.

An object is a repository of a target that a single subscription fills, at level full, or at level chain with fetches.  Its revisions are ranked: the k-th that
occurs is 2k, so that the model has room for a commit that was lost before it.
"""
import collections

# what a reader of a refused transaction wants to see
TABLES = ("repo", "atproto.held_event", "atproto.repo_job", "atproto.status_request")

SYNC = {"partial": 0, "unproven": 1, "desynchronized": 2, "resyncing": 3, "synchronized": 4}
HOLD = {None: 0, "identity": 1, "resync": 2, "release": 3}
# at level chain only with fetches, and without deletions, which nobody is asked about there
FETCHED = {("chain", b) for b in ("repair", "seen", "collections", "network")}
JOB = {None: 0, "queued": 1, "throttled": 1, "running": 2, "suspended": 3}
MOST = 14       # revisions: the model has a bit for each number


class Repository:
    def __init__(self):
        self.states = []        # (transaction, rev, flags, held revs)
        self.rev = None
        self.row = {"sync": "partial", "hold": None, "active": "t", "status": None}
        self.held = {}
        self.job = None
        self.request = 0
        self.over = False

    def flags(self):
        row = self.row
        return (SYNC[row["sync"]] + 8 * HOLD[row["hold"]] + 64 * (row["active"] in ("t", "true")) + 128 * (row["status"] == "deleted") +
                256 * JOB[self.job] + 1024 * self.request)


def renames(transaction):
    """(old, new) of each schema that ALTER SCHEMA renames: the cursor notes the new name in the same transaction, as it does not for a new target."""
    for change in transaction.of("atproto.subscription"):
        if change.kind == "UPDATE" and change.old and change.old["target"] != change.new["target"]:
            if any(c.kind == "UPDATE" and c.new["subscription"] == change.new["name"] and c.new["settings"] != c.old["settings"] for c in transaction.of("atproto.cursor")):
                yield change.old["target"], change.new["target"]


def objects(transactions, mark):
    repositories = collections.defaultdict(Repository)
    fillers = collections.defaultdict(set)

    for transaction in transactions:
        touched = {}
        renamed = set(renames(transaction))
        for old, new in renamed:
            # the tables are the same, under a new name
            for target, did in [key for key in repositories if key[0] == old]:
                repositories[new, did] = repositories.pop((target, did))
            fillers[new] |= fillers.pop(old, set())
        for change in transaction.changes:
            schema, table = change.table.split(".", 1)
            row = change.new or change.old
            if change.table == "atproto.subscription":
                fillers[row["target"]].add((row["name"], row["verify"], row["backfill"]))
                if change.kind == "DELETE":
                    # jobs, held events and requests go with their subscription
                    for (target, _), r in repositories.items():
                        r.over |= target == row["target"]
            elif change.kind == "TRUNCATE":
                for (target, _), r in repositories.items():
                    r.over |= table in ("repo", "held_event", "repo_job") and (target == schema or table != "repo")
            elif table == "repo":
                r = touched[schema, row["did"]] = repositories[schema, row["did"]]
                r.over |= change.kind == "DELETE" or row.get("refill_by") is not None or row.get("hold") not in HOLD
                r.over |= row["status"] == "deleted" and any(v != "full" for _, v, _ in fillers[schema])
                r.row = row
            elif change.table == "atproto.held_event" and row["kind"] == "repo":
                r = touched[row["target"], row["did"]] = repositories[row["target"], row["did"]]
                key = (row["rev"], row["seq"])
                r.over |= change.kind == "UPDATE" and change.old["target"] != change.new["target"] and (change.old["target"], change.new["target"]) not in renamed
                if change.kind == "DELETE":
                    r.held.pop(key, None)
                else:
                    r.held[key] = row["rev"]
            elif change.table == "atproto.repo_job":
                r = touched[row["target"], row["did"]] = repositories[row["target"], row["did"]]
                r.job = None if change.kind == "DELETE" else row["state"]
            elif change.table == "atproto.dead_letter" and row.get("did"):
                # a forged event is not in the model
                for (_, did), r in repositories.items():
                    r.over |= did == row["did"]
            elif change.table == "atproto.status_request" and row["why"] != "rev":
                r = touched[row["target"], row["did"]] = repositories[row["target"], row["did"]]
                r.request = 0 if change.kind == "DELETE" or row["answered_at"] is not None else 2 if row["why"] == "deleted" else 1
        for r in touched.values():
            if r.over:
                continue
            state = (r.row.get("rev"), r.flags(), frozenset(r.held.values()))
            if state != (r.states[-1][1:] if r.states else (None, 64, frozenset())):
                r.states.append((transaction,) + state)
    for (target, did), r in sorted(repositories.items()):
        revs = sorted({rev for _, rev, _, held in r.states for rev in held | {rev} if rev})
        if len(fillers[target]) != 1 or len(revs) > MOST or not r.states or any(v != "full" and (v, b) not in FETCHED for _, v, b in fillers[target]):
            continue
        rank = {rev: 2 * k for k, rev in enumerate(revs, 1)}
        rank[None] = 0
        yield ("repository %s of %s" % (did, target),
               [mark("ROW", flags, rank[rev], sum(1 << rank[h] for h in held), transaction) for transaction, rev, flags, held in r.states],
               ["-DREVS=%d" % (2 * MOST + 1), "-DTROUBLES=1", "-DMAX_HELD=100"] + ["-DNO_BACKFILL"] * all(b == "none" for _, _, b in fillers[target]))
