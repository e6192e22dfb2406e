"""Marks of the model subscription.pml: the cursor, the gaps and the dead letters of a subscription without workers.

An object is a subscription at an endpoint, under the name that it has at last.  Streams whose numbers are times are left out.
"""
# what a reader of a refused transaction wants to see
TABLES = ("atproto.subscription", "atproto.cursor", "atproto.gap", "atproto.dead_letter")


def number(text):
    return -1 if text is None else int(text)


class Stream:
    def __init__(self):
        self.marks = []
        self.sharded = False


def objects(transactions, mark):
    streams = {}
    ended = []

    def stream(row):
        return streams.setdefault((row["subscription"], row["endpoint"]), Stream())

    for transaction in transactions:
        marks = {}

        def add(row, order, *what):
            marks.setdefault(id(stream(row)), (stream(row), []))[1].append((order, what))

        # a subscription's new name is in its cursor's rows, too
        for change in transaction.of("atproto.cursor"):
            old, new = change.old, change.new
            if change.kind == "UPDATE" and (old["subscription"], old["endpoint"]) in streams:
                streams[(new["subscription"], new["endpoint"])] = streams.pop((old["subscription"], old["endpoint"]))
        # set_cursor() writes the subscription's row, too
        settled = {c.new["name"] for c in transaction.of("atproto.subscription") if c.kind == "UPDATE"}
        moved = set()
        filled = any(c.kind == "UPDATE" and c.old and c.old.get("refill_to") != c.new.get("refill_to") and c.new.get("refill_by")
                     for c in transaction.changes if c.table.endswith(".repo"))
        for change in transaction.of("atproto.cursor"):
            old, new = change.old, change.new
            if change.kind in ("INSERT", "UPDATE") and new["shard"] != "0":
                stream(new).sharded = True
            elif change.kind == "INSERT":
                if stream(new).marks:
                    # the former row went with its table
                    ended.append((new["subscription"], streams.pop((new["subscription"], new["endpoint"]))))
                add(new, 1, "START", number(new["seq"]), 0, 0)
            elif change.kind == "DELETE":
                if old["shard"] == "0":
                    ended.append((old["subscription"], streams.pop((old["subscription"], old["endpoint"]), Stream())))
            elif change.kind == "UPDATE":
                if new["updated_at"] == old["updated_at"]:
                    continue
                if new["subscription"] in settled:
                    add(new, 1, "SET", number(old["seq"]), number(new["seq"]), 1 if filled else 0)
                else:
                    moved.add(new["subscription"])
                    add(new, 1, "MOVE", number(old["seq"]), number(new["seq"]), int(new["events"]) - int(old["events"]))
        for change in transaction.of("atproto.gap"):
            old, new = change.old, change.new
            if change.kind == "INSERT" and new["reason"] in ("OutdatedCursor", "set_cursor") and new["subscription"]:
                add(new, 4, "GAP", int(new["after_seq"]), number(new["before_seq"]), 1 if new["reason"] == "OutdatedCursor" else 2)
            elif change.kind == "UPDATE" and old["closed_at"] is None and new["closed_how"] == "read again" and new["reason"] in ("OutdatedCursor", "set_cursor"):
                add(new, 2, "CLOSE", int(new["after_seq"]), number(new["before_seq"]), 0)
        for change in transaction.of("atproto.dead_letter"):
            if change.kind == "INSERT" and change.new["seq"] is not None and change.new["subscription"] in moved:
                for (name, endpoint), s in list(streams.items()):
                    if name == change.new["subscription"]:
                        add({"subscription": name, "endpoint": endpoint}, 3, "LETTER", int(change.new["seq"]), 0, 0)
        for s, found in marks.values():
            s.marks += [mark(*what, transaction) for _, what in sorted(found, key=lambda f: f[0])]
    for name, s in ended + [(name, s) for (name, _), s in streams.items()]:
        if not s.sharded and all(max(m.numbers) < 2 ** 31 for m in s.marks):
            yield "subscription " + name, s.marks
