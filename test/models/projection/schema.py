"""Marks of the model schema.pml: a record, its table, and its links, where one subscription fills a target.

An object is a record that had links at some time; records with the same marks are one object.
"""
import collections

# what a reader of a refused transaction wants to see
TABLES = ("record", "link", "atproto.subscription", "atproto.cursor")
MOST = 30       # values of a record, and settings


class Record:
    def __init__(self):
        self.table, self.cid = None, None
        self.links = set()
        self.found = []
        self.linked = False
        self.at = 0             # how many of the target's marks came before

    def state(self):
        return self.table, self.cid, len(self.links)


class Target:
    def __init__(self):
        self.records = collections.defaultdict(Record)
        self.sources = {}       # id: (collection, path)
        self.settings = [None]
        self.wanted = self.noted = None
        self.digest = None
        self.fillers = set()
        self.marks = []         # of settings: (transaction, word, number)
        self.tables = []
        self.over = False

    def setting(self, links):
        links = None if links in (None, "{}") else links
        if links not in self.settings:
            self.settings.append(links)
        return self.settings.index(links)

    def place(self, table):
        if table is None:
            return 0
        if table == "record":
            return 1
        if table not in self.tables:
            self.tables.append(table)
        return self.tables.index(table) + 2


def is_record(table):
    return table == "record" or table.startswith("record_") and not table.startswith("record_event")


def objects(transactions, mark):
    targets = collections.defaultdict(Target)

    for transaction in transactions:
        moved = {c.new["subscription"] for c in transaction.of("atproto.cursor") if c.kind == "UPDATE" and c.new["updated_at"] != c.old["updated_at"]}
        for change in transaction.of("atproto.subscription"):
            row = change.new or change.old
            t = targets[row["target"]]
            t.fillers.add(row["name"])
            t.over |= change.kind == "UPDATE" and (change.old["target"] != row["target"] or change.old["name"] != row["name"])
            if change.kind != "DELETE" and t.setting(row["links"]) != t.wanted:
                t.wanted = t.setting(row["links"])
                t.marks.append((transaction, "wanted", t.wanted))
        for change in transaction.of("atproto.cursor"):
            for t in targets.values():
                if change.new and change.new["subscription"] in t.fillers and change.new["settings"] != t.digest:
                    t.digest = change.new["settings"]
                    if t.wanted != t.noted and change.new["settings"]:
                        t.noted = t.wanted
                        t.marks.append((transaction, "noted", t.noted))
        touched = collections.defaultdict(dict)
        fetched, partitioned, again = set(), set(), set()
        for change in transaction.changes:
            schema, table = change.table.split(".", 1)
            row = change.new or change.old
            t = targets[schema]
            if change.kind == "TRUNCATE":
                t.over |= is_record(table) or table == "link"
            elif table == "repo":
                fetched.add(schema)
            elif is_record(table):
                key = row["did"], row["collection"], row["rkey"]
                r = t.records[key]
                touched[schema].setdefault(key, (r, r.state()))
                if change.kind == "INSERT" and change.old or change.kind == "DELETE" and r.table is None:
                    again.add((schema, key))
                if change.kind != "DELETE":
                    if r.table == "record" and table != "record":
                        partitioned.add(schema)
                    r.table, r.cid = table, row["cid"]
                elif r.table == table:
                    r.table = r.cid = None
            elif table == "link_source" and change.new:
                t.sources[row["id"]] = row["collection"]
            elif table == "link":
                key = row["did"], t.sources.get(row["source"]), row["rkey"]
                r = t.records[key]
                touched[schema].setdefault(key, (r, r.state()))
                link = row["source"], row["target"]
                if (change.kind == "DELETE") != (link in r.links):
                    again.add((schema, key))
                if change.kind == "DELETE":
                    r.links.discard(link)
                else:
                    r.links.add(link)
                    r.linked = True
        for schema, records in touched.items():
            t = targets[schema]
            consumer = bool(moved & t.fillers) or schema in fetched
            if schema in partitioned and not consumer:
                # partition() takes all rows of the plain table
                for key, r in t.records.items():
                    if r.table == "record" and key not in records:
                        records[key] = (r, r.state())
                        r.table = r.cid = None
            for key, (r, before) in records.items():
                table, cid, links = r.state()
                if (schema, key) in again:
                    word = "again"
                elif schema in partitioned and not consumer:
                    word = "swapped"
                elif r.state() == before:
                    continue
                elif consumer:
                    word = "batch"
                elif (cid, links) == before[1:]:
                    word = "moved"
                elif cid == before[1]:
                    word = "rebuilt"
                elif cid is None:
                    word = "dropped"
                else:
                    word = "session"
                r.found += [f[:1] + (f[1],) + (f[2], 0, 0) for f in t.marks[r.at:]]
                r.at = len(t.marks)
                r.found.append((transaction, word, t.place(table), cid, links))
    for schema, t in sorted(targets.items()):
        if len(t.fillers) != 1 or t.over or len(t.settings) > MOST:
            continue
        stories = {}
        for key, r in sorted(t.records.items(), key=str):
            if not r.linked:
                continue
            values = {None: 0}
            found = [(word, a, values.setdefault(b, len(values)) if word not in ("wanted", "noted") else 0, c, transaction) for transaction, word, a, b, c in r.found]
            if found and len(values) <= MOST and max(f[3] for f in found) < 250:
                stories.setdefault(tuple(f[:4] for f in found), (key, found, len(values)))
        for key, found, values in stories.values():
            name = "%s of %s" % ("/".join(map(str, key)), schema)
            yield "record " + name, [mark(*f) for f in found], ["-DVALUES=%d" % (8 if values <= 8 else MOST), "-DSETTINGS=%d" % (4 if len(t.settings) <= 4 else MOST)]
