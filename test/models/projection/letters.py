"""Marks of the model letters.pml: a record that has letters, or whose repository is read again, of a target that one or two relays fill at level chain.

An object is a record of a repository: the one that all letters about records name, and without letters the first one that was written.
It ends where the trace leaves what the model has: another level or source, a fetch, a session that changes rows, a second time that the
account goes, letters about more than one record, a removed subscription.
"""
import re

from union import Union

# what a reader of a refused transaction wants to see
TABLES = ("repo", "record", "atproto.held_event", "atproto.dead_letter")

SYNC = {"partial": 0, "unproven": 1, "desynchronized": 2, "synchronized": 3, None: 4}
# the revision of a commit and of the one before it, in the bytes of its message
REV = re.compile(r"637265766d([0-9a-f]{26})")
SINCE = re.compile(r"6573696e6365(?:6d([0-9a-f]{26})|f6)")
LONGEST = 14        # revisions of a repository that the model can have
PUT = 1
CONTINUING, UNKNOWN, FIRST_ONE = 1, 2, 3
YES = ("t", "true")
NO_ROW = {"rev": None, "first_rev": None, "deleted_rev": None, "sync": "partial", "hold": None, "active": "t", "status": None,
          "refill_by": None, "refill_rev": None, "refill_sync": None, "refill_at": None, "audited_at": None}


def text_of(found):
    return bytes.fromhex(found).decode("ascii", "replace")


class Step:
    """What the tables have of a repository after a transaction."""

    def __init__(self, what, source, transaction):
        self.what = what
        self.source = source
        self.transaction = transaction


class Repository:
    def __init__(self, target, did):
        self.name = "%s of %s" % (did, target)
        self.steps = []
        self.row = NO_ROW
        self.records = {}       # path: revision
        self.letters = {}       # id: (source, revision, path)
        self.superseded = set()
        self.held = {}          # (source, seq): revision
        self.since = {}         # revision of a commit: that of the one before, or None
        self.paths = set()
        self.written = []       # paths of records, in the order in which they came
        self.wrote = {}         # path: revisions that wrote the record
        self.refiller = None
        self.went = None
        self.ended = False

    def add(self, step):
        step.row = self.row
        step.records = dict(self.records)
        step.letters = dict(self.letters)
        step.superseded = set(self.superseded)
        step.held = dict(self.held)
        self.steps.append(step)

    def revisions(self, path):
        revs = set(self.wrote.get(path, ())) | set(self.since)
        for s in self.steps:
            revs |= {s.row[k] for k in ("rev", "first_rev", "deleted_rev", "refill_rev")} | {rev for _, rev, _ in s.letters.values()} | set(s.held.values())
        return sorted(revs - {None})

    def marks(self, mark):
        """(number of revisions, marks), or None if the model does not have this."""
        if len(self.paths) > 1 or not self.steps or not (self.refiller or any(s.letters for s in self.steps)):
            return None
        path = min(self.paths) if self.paths else self.written[0] if self.written else None
        revs = self.revisions(path)
        if not 0 < len(revs) <= LONGEST:
            return None
        place = {rev: n for n, rev in enumerate(revs, 1)}
        place[None] = 0
        # the source that reads again is the model's first one
        first = self.refiller or min(self.sources)
        found = []
        for rev in revs:
            does = PUT if rev in self.wrote.get(path, ()) else 0
            how = 0
            if rev in self.since:
                since = self.since[rev]
                how = FIRST_ONE if since is None else CONTINUING if place[rev] > 1 and since == revs[place[rev] - 2] else UNKNOWN
            if does or how:
                found.append(mark("BEGIN", place[rev], does, how, self.steps[0].transaction))
        found.append(mark("BEGIN", 0, int(self.went is not None), int(self.went == 2), self.steps[0].transaction))
        before = None
        shown = None

        def masks(step):
            record, over, whole, held = 0, 0, 0, 0
            for number, (source, rev, p) in step.letters.items():
                bit = 1 << (place[rev] + 15 * (source != first))
                if p == "":
                    whole |= bit
                else:
                    record |= bit
                    over |= bit if number in step.superseded else 0
            for (source, _), rev in step.held.items():
                held |= 1 << (place[rev] + 15 * (source != first))
            return record, over, whole, held

        for step in self.steps:
            record, over, whole, held = masks(step)
            row = step.row
            status = 0 if row["active"] in YES else 2 if row["status"] == "deleted" else 1
            revisions = place[row["rev"]] + (place[step.records.get(path)] << 7) + (place[row["refill_rev"]] << 14) + (place[row["deleted_rev"]] << 21)
            state = SYNC[row["sync"]] + 4 * status + 16 * (row["hold"] is not None) + 32 * (row["refill_by"] is not None) + 64 * SYNC[row["refill_sync"]]
            now = revisions, state, record, over, whole, held
            old = before or (0, 0, 0, 0, 0, 0)
            before = now
            if now == shown and step.what != "REFILL":
                continue
            shown = now
            added = int(((record | whole) & ~(old[2] | old[4])) != 0)
            a = 0
            if step.what == "STREAM":
                a = (step.source != first) + 2 * added + 4 * ((held & ~old[5]) != 0)
            elif step.what == "RELEASE":
                a = added
            elif step.what == "RETRY":
                source, rev, p = step.source
                a = (source != first) + 2 * place[rev] + 64 * (p != "")
            found.append(mark(step.what, a, revisions, state, step.transaction))
            found.append(mark("LETTERS", record, over, whole, step.transaction))
            found.append(mark("HELD", held, 0, 0, step.transaction))
        return len(revs), found


def place_of(table):
    """(target, "repo" or "record") of a table of a target."""
    found = re.match(r"(\w+)\.(repo|record)(?:_(?:p\d|default|slice|\d).*)?$", table)
    return found.groups() if found else (None, None)


class Tables(Union):
    Repository = Repository

    def __init__(self):
        super().__init__()
        self.frames = {}

    def transaction(self, transaction):
        moved = self.moved(transaction)
        seen = {}

        def of(target, did):
            return seen.setdefault((target, did), {"row": None, "records": [], "letters": [], "removed": 0})

        for change in transaction.of("atproto.subscription"):
            self.subscription(change)
        for change in transaction.changes:
            target, table = place_of(change.table)
            row = change.new or change.old
            if change.kind == "TRUNCATE":
                if table:
                    self.end(target)
                elif change.table in ("atproto.held_event", "atproto.dead_letter"):
                    for t in {k[0] for k in self.repositories}:
                        self.end(t)
            elif table == "repo":
                of(target, row["did"])["row"] = change
            elif table == "record":
                of(target, row["did"])["records"].append(change)
            elif change.table == "atproto.dead_frame" and change.new:
                self.frames[row["subscription"], row["digest"]] = row["bytes"]
            elif change.table == "atproto.dead_letter" and row["did"]:
                target = self.subscriptions.get(row["subscription"], {}).get("target")
                if target:
                    of(target, row["did"])["letters"].append(change)
            elif change.table == "atproto.held_event":
                t = of(row["target"], row["did"])
                t["letters"].append(change)
                t["removed"] += change.kind == "DELETE"
        for key in sorted(seen):
            self.step(transaction, key, moved, **seen[key])

    def step(self, transaction, key, moved, row, records, letters, removed):
        repository = self.repository(*key)
        if repository.ended:
            return
        sources = self.sources(key[0])
        repository.sources = sources
        moved = moved & set(sources)
        old = repository.row
        if row and row.kind == "DELETE" or not self.fits(key[0]) or len(moved) > 1 or moved and removed:
            repository.ended = True
            return
        new = row.new if row else old
        gone = new["active"] not in YES
        if new["sync"] not in SYNC or new["hold"] not in (None, "gap") or gone and old["active"] in YES and repository.went is not None \
                or gone and old["active"] not in YES and new["status"] != old["status"] \
                or new["refill_by"] and repository.refiller not in (None, self.filler(new["refill_by"])):
            repository.ended = True
            return
        # an account that goes and comes back in one batch is known only by deleted_rev
        deleted = new["deleted_rev"] != old["deleted_rev"]
        if deleted and repository.went is not None:
            repository.ended = True
            return
        repository.row = new
        if (gone or deleted) and repository.went is None:
            repository.went = 2 if deleted or new["status"] == "deleted" else 1
        if new["refill_by"]:
            repository.refiller = self.filler(new["refill_by"])
        for change in records:
            self.record(repository, change)
        retried = [self.letter(repository, change) for change in letters]
        retried = [r for r in retried if r]
        # a commit that is refused whole, and has an invalid record
        whole = {(source, rev) for source, rev, path in repository.letters.values() if path == ""}
        if any(path and (source, rev) in whole for source, rev, path in repository.letters.values()):
            repository.ended = True
        if repository.ended:
            return
        if moved:
            what, source = "STREAM", min(moved)
        elif removed:
            what, source = "RELEASE", None
        elif new["refill_by"] and new["refill_at"] != old["refill_at"]:
            what, source = "REFILL", None
        elif old["refill_by"] and not new["refill_by"]:
            what, source = "JUMP", None
        elif new["audited_at"] != old["audited_at"]:
            what, source = "AUDIT", None
        elif len(retried) == 1:
            what, source = "RETRY", retried[0]
        elif not records and not letters and all(new[k] == old[k] for k in NO_ROW if k in old):
            return
        else:
            repository.ended = True
            return
        repository.add(Step(what, source, transaction))

    def filler(self, by):
        return next((name for name, s in self.subscriptions.items() if by in (s["id"], name)), by)

    @staticmethod
    def record(repository, change):
        path = "%(collection)s/%(rkey)s" % (change.new or change.old)
        if change.kind == "DELETE":
            repository.records.pop(path, None)
            return
        if path not in repository.written:
            repository.written.append(path)
        repository.records[path] = change.new["rev"]
        repository.wrote.setdefault(path, set()).add(change.new["rev"])

    def letter(self, repository, change):
        """Notes a letter or a held event; the letter, if retry() may have tried it."""
        row = change.new or change.old
        if change.table == "atproto.held_event":
            place = row["subscription"], row["seq"]
            if change.kind == "DELETE":
                repository.held.pop(place, None)
            else:
                self.read(repository, row["bytes"])
                repository.held[place] = row["rev"]
            return None
        number = row["id"]
        tried = repository.letters.get(number)
        if change.kind == "DELETE":
            repository.letters.pop(number, None)
            return tried
        rev = self.read(repository, self.frames.get((row["subscription"], row["digest"])) or "")
        if rev is None or row["stage"] not in ("record", "apply") or row["path"].startswith("#") or row["path"] == "" and row["stage"] == "record":
            repository.ended = True
            return None
        repository.letters[number] = row["subscription"], rev, row["path"]
        if row["path"]:
            repository.paths.add(row["path"])
        if row["superseded_rev"] and row["superseded_rev"] >= rev:
            repository.superseded.add(number)
        return tried if change.kind == "UPDATE" and row["attempts"] != change.old["attempts"] else None

    @staticmethod
    def read(repository, message):
        """The revision of a commit's message; notes the one before it."""
        rev, since = REV.search(message), SINCE.search(message)
        if not rev:
            return None
        if since:
            repository.since[text_of(rev.group(1))] = text_of(since.group(1)) if since.group(1) else None
        return text_of(rev.group(1))


def objects(transactions, mark):
    tables = Tables()
    for transaction in transactions:
        tables.transaction(transaction)
    names = {}
    for repository in tables.done + list(tables.repositories.values()):
        found = repository.marks(mark)
        if found:
            # a test that empties the tables begins the repository again
            n = names[repository.name] = names.get(repository.name, 0) + 1
            yield "record of %s%s" % (repository.name, " (%d)" % n if n > 1 else ""), found[1], ("-DN=%d" % found[0],)
