"""The committed transactions of a test's server, from the text that PostgreSQL's test_decoding writes.

A row before an update or a deletion is the row that the same file has written before: the slot was made before the
tables, so that no column has to be logged for this.  Table names have no schema where the schema is atproto; in a
partition's name, what follows the table's name stays.
"""
import collections
import re

# kind: INSERT, UPDATE, DELETE, TRUNCATE; old, new: {column: text or None}, or None
Change = collections.namedtuple("Change", "table kind old new")

KEYS = {
    "atproto.subscription": ("name",),
    "atproto.cursor": ("subscription", "endpoint", "shard"),
    "atproto.held_event": ("target", "did", "rev", "subscription", "endpoint", "seq"),
    "atproto.held_release": ("id",),
    "atproto.dead_letter": ("id",),
    "atproto.dead_frame": ("subscription", "digest"),
    "atproto.gap": ("id",),
    "atproto.repo_job": ("target", "did"),
    "atproto.repo_fetched": ("target", "did"),
    "atproto.status_request": ("target", "did"),
    "atproto.identity": ("did",),
    "atproto.identity_request": ("did", "role", "owner", "refresh"),
    "atproto.subscription_event": ("subscription", "number"),
    "atproto.enumeration": ("subscription", "source"),
    "atproto.repo_total": ("subscription",),
    "repo": ("did",),
    "record": ("did", "collection", "rkey"),
}

COLUMN = re.compile(r"(\"(?:[^\"]|\"\")+\"|[^\s\[\"]+)\[((?:[^\[\]]|\[\])+)\]:('(?:[^']|'')*'|\S+)")
HEAD = re.compile(r"table ((?:\"(?:[^\"]|\"\")+\"|[^.:\"]+)\.(?:\"(?:[^\"]|\"\")+\"|[^:\"]+)): (INSERT|UPDATE|DELETE|TRUNCATE): ?")
ESCAPE = re.compile(r"\\(.)", re.S)
ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "v": "\v"}


class Transaction:
    """A committed transaction: its number in the file, the id that the server gave it, and when it was committed."""

    def __init__(self, number, xid):
        self.number = number
        self.xid = xid
        self.time = None
        self.changes = []

    def of(self, *tables):
        """The changes of these tables."""
        return [c for c in self.changes if c.table in tables]


def row(text):
    """{column: value} of a row as test_decoding writes it; columns that were not written again are missing."""
    values = {}
    for name, _, value in COLUMN.findall(text):
        if value == "unchanged-toast-datum":
            continue
        values[name.strip('"')] = None if value == "null" else value[1:-1].replace("''", "'") if value[0] == "'" else value
    return values


class Tables:
    """The rows that all changes so far have left, to know the row before a change."""

    def __init__(self):
        self.rows = collections.defaultdict(dict)

    @staticmethod
    def columns(table):
        schema, name = table.split(".", 1)
        if name.startswith("record_") and not name.startswith("record_event"):
            # a partition
            name = "record"
        return KEYS.get(table) or (None if schema == "atproto" and table in KEYS else KEYS.get(re.split(r"_(?=p\d|default|slice|\d)", name)[0]))

    def change(self, table, kind, text):
        key = self.columns(table)
        rows = self.rows[table]
        if kind == "TRUNCATE":
            rows.clear()
            return Change(table, kind, None, None)
        before, after = None, text
        if text.startswith("old-key: "):
            before, after = text[len("old-key: "):].split(" new-tuple: ", 1)
        new = row(after)
        if key is None:
            return Change(table, kind, new if kind == "DELETE" else None, None if kind == "DELETE" else new)
        place = tuple((row(before) if before else new).get(k) for k in key)
        old = rows.pop(place, None)
        if kind == "DELETE":
            return Change(table, kind, old or new, None)
        # columns that the update has not written again
        new = dict(old or {}, **new)
        rows[tuple(new.get(k) for k in key)] = new
        return Change(table, kind, old, new)


def unescape(line):
    return ESCAPE.sub(lambda m: ESCAPED.get(m.group(1), m.group(1)), line) if "\\" in line else line


def transactions(path):
    """All transactions of a file, in the order of their commits."""
    tables = Tables()
    all_of_them = []
    current = None
    with open(path, encoding="utf-8", newline="\n") as f:
        for line in f:
            line = unescape(line.rstrip("\n"))
            if line.startswith("BEGIN "):
                current = Transaction(len(all_of_them) + 1, int(line.split()[1]))
            elif line.startswith("COMMIT "):
                current.time = line[line.index("(") + 4:-1] if "(" in line else None
                all_of_them.append(current)
            elif line.startswith("table "):
                head = HEAD.match(line)
                if not head:
                    raise ValueError("cannot read: %.200s" % line)
                names, kind = head.group(1), head.group(2)
                for table in names.split(", ") if kind == "TRUNCATE" else [names]:
                    current.changes.append(tables.change(table.replace('"', ""), kind, line[head.end():]))
    return all_of_them


def defines(path):
    """Options of the test for the compilation of the models."""
    with open(path, encoding="utf-8") as f:
        words = f.readline().split()
    return tuple(words[1:]) if words[:1] == ["defines"] else ()


def differences(change):
    """A change in words: what a reader needs to know the row, and what the change has changed."""
    key = Tables.columns(change.table)
    some = change.new or change.old or {}
    said = " ".join("%s=%s" % (k, some.get(k)) for k in key or [])
    if change.kind == "UPDATE" and change.old is not None:
        said += ": " + ", ".join("%s %.60s -> %.60s" % (k, change.old.get(k), v) for k, v in change.new.items() if change.old.get(k) != v)
    elif change.new is not None:
        said += ": " + ", ".join("%s=%.40s" % (k, v) for k, v in change.new.items() if v is not None and k not in (key or []))
    return "%s %s %s" % (change.table, change.kind, said)
