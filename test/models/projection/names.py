"""Marks of the model names.pml: a subscription, its name, its target and its filter, and what a batch does under them.

An object is a subscription without workers, from its making on.  Positions, targets and settings are numbered in the order in
which they occur: position k is where the k-th batch left the cursor.  An object ends where something happens that the model does
not have: the cursor is set, the url changes, a batch holds an event and requests a fetch, held events are released in parts.
"""
# what a reader of a refused transaction wants to see
TABLES = ("atproto.subscription", "atproto.cursor", "atproto.held_event", "atproto.repo_job")

FILTER = ("collections", "dids", "slice", "actions", "keep_records", "events", "keep_raw", "verify", "host_is_pds", "count_collections", "links", "validate")
OTHERS = {"url", "endpoint", "owner", "workers", "format"}
ROW, BREAK, HOLD = 0, 1, 2
MOST = 200      # the model's numbers are bytes


class Subscription:
    def __init__(self, row):
        self.name = row["name"]
        self.row = row
        self.marks = []
        self.over = False
        self.targets = [row["target"]]      # the names of schemas, by their numbers
        self.renamed = 0
        self.filtered = 0
        self.seq = None
        self.rank = 0
        self.noted = None
        self.settings = {}                  # digest: (target, filter)
        self.changes = 0

    def target(self, name):
        if name not in self.targets:
            self.targets.append(name)
        return self.targets.index(name)


def objects(transactions, mark):
    known = {}
    done = []

    for transaction in transactions:
        subscriptions = {c.new["name"] if c.new else c.old["name"]: c for c in transaction.of("atproto.subscription")}
        for change in transaction.of("atproto.subscription"):
            if change.kind == "INSERT":
                known[change.new["name"]] = Subscription(change.new)
            elif change.kind == "DELETE" and change.old["name"] in known:
                done.append(known.pop(change.old["name"]))
            elif change.kind == "UPDATE" and change.old and change.old["name"] in known:
                s = known.pop(change.old["name"])
                known[change.new["name"]] = s
                session(s, change, transaction, mark)
        for s in known.values():
            if not s.over:
                process(s, transaction, subscriptions.get(s.name), mark)
    for s in done + list(known.values()):
        if s.changes > 0 and s.marks:
            yield ("subscription " + s.name, s.marks,
                   ["-DEVENTS=%d" % (s.rank + 1), "-DCHANGES=%d" % s.changes, "-DSESSIONS=1", "-DTABLES=%d" % max(len(s.targets), 2)])


def session(s, change, transaction, mark):
    """A session has changed the subscription's row."""
    old, new = change.old, change.new
    changed = {k for k in new if old.get(k) != new[k]}
    s.name, s.row = new["name"], new
    if s.over or not changed - {"enabled", "stopped", "stopped_at"}:
        return
    filters = bool(changed & set(FILTER))
    if ("target" in changed and ("name" in changed or filters)) or not (filters or changed & {"name", "target"}) or changed & OTHERS:
        s.over = True
        return
    s.changes += 1
    if "name" in changed:
        s.renamed = 1 - s.renamed
        s.filtered ^= filters
        s.marks.append(mark("name", s.renamed, s.filtered, 0, transaction))
    elif "target" in changed:
        # a schema's new name is noted in the cursor, a new target is not; both give the cursor a new layout
        # the change of the cursor that belongs to this one of the transaction's changes of the target
        targets = [c for c in transaction.of("atproto.subscription") if c.kind == "UPDATE" and c.new["name"] == s.name and c.old["target"] != c.new["target"]]
        cursor = [c for c in transaction.of("atproto.cursor") if c.kind == "UPDATE" and c.new["subscription"] == s.name][targets.index(change):]
        before, after = s.target(old["target"]), s.target(new["target"])
        if cursor and cursor[0].new["settings"] != cursor[0].old["settings"]:
            s.marks.append(mark("schema", before, after, 1, transaction))
            s.settings[cursor[0].new["settings"]] = (after, s.filtered)
        else:
            s.marks.append(mark("target", before, after, 0, transaction))
        s.noted = cursor[0].new["settings"] if cursor else s.noted
    else:
        s.filtered = 1 - s.filtered
        s.marks.append(mark("filter", s.filtered, 0, 0, transaction))


def process(s, transaction, changed, mark):
    """What the transaction shows of the subscription's processes."""
    mine = [c for c in transaction.of("atproto.held_event") if (c.new or c.old)["subscription"] == s.name]
    held = [c for c in mine if c.kind == "INSERT"]
    gone = [c for c in mine if c.kind == "DELETE"]
    jobs = [c for c in transaction.of("atproto.repo_job") if c.kind == "INSERT" and c.new["subscription"] == s.name]
    moved = None
    for change in transaction.of("atproto.cursor"):
        new = change.new
        if new is None or new["subscription"] != s.name:
            continue
        if new["shard"] != "0" or new["endpoint"] != s.row["endpoint"]:
            s.over = True
        elif change.kind == "INSERT":
            s.seq = new["seq"]
        elif changed is not None:
            # a session that has set the cursor, or one that has changed the row
            s.over |= new["seq"] != change.old["seq"]
        elif new["settings"] != change.old["settings"]:
            s.settings[new["settings"]] = (s.target(s.row["target"]), s.filtered)
            s.marks.append(mark("noted", s.rank, *s.settings[new["settings"]], transaction))
        if changed is None and change.kind == "UPDATE" and new["updated_at"] != change.old["updated_at"]:
            moved = change
    if moved is not None:
        s.rank += 1
        if (held and jobs) or s.rank > MOST:
            s.over = True
            return
        kind = HOLD if held else BREAK if jobs else ROW
        target = (held + jobs)[0].new["target"] if held or jobs else s.row["target"]
        s.marks.append(mark("moved", s.rank, s.target(target), kind, transaction))
    elif gone and changed is None:
        s.over = True
    elif jobs and changed is None:
        s.marks.append(mark("job", s.target(jobs[0].new["target"]), 0, 0, transaction))
