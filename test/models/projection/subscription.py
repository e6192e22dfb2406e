"""Marks of the model subscription.pml: the cursor, the gaps and the dead letters of a subscription without workers.

An object is a subscription at an endpoint, under the name that it has at last.
"""
import decoded


def number(text):
    return -1 if text is None else int(text)


class Stream:
    def __init__(self, made):
        self.marks = []
        self.made = made        # counts subscriptions of this name
        self.sharded = False


def objects(transactions, mark):
    streams = {}
    ended = []

    def stream(row):
        return streams.setdefault((row["subscription"], row["endpoint"]), Stream(0))

    for transaction in transactions:
        marks = {}

        def add(row, order, *what):
            marks.setdefault(id(stream(row)), (stream(row), []))[1].append((order, what))

        # a subscription's new name is in its cursor's rows, too
        for change in transaction.of("atproto.cursor"):
            old, new = change.old, change.new
            if change.kind == "UPDATE" and old["subscription"] != new["subscription"]:
                streams[(new["subscription"], new["endpoint"])] = streams.pop((old["subscription"], old["endpoint"]), Stream(0))
        filled = any(c.kind == "UPDATE" and c.old and c.old.get("refill_to") != c.new.get("refill_to") and c.new.get("refill_by")
                     for c in transaction.changes if c.table.endswith(".repo"))
        for change in transaction.of("atproto.cursor"):
            old, new = change.old, change.new
            if change.kind in ("INSERT", "UPDATE") and new["shard"] != "0":
                stream(new).sharded = True
            elif change.kind == "INSERT":
                add(new, 2, "START", number(new["seq"]), 0, 0)
            elif change.kind == "DELETE":
                if old["shard"] == "0":
                    ended.append((old["subscription"], streams.pop((old["subscription"], old["endpoint"]), Stream(0))))
            elif change.kind == "UPDATE":
                moved = int(new["events"]) - int(old["events"])
                letters = any(c.kind == "INSERT" and c.new["subscription"] == new["subscription"] for c in transaction.of("atproto.dead_letter"))
                if moved > 0 or letters or (new["seq"] != old["seq"] and new["event_time"] != old["event_time"]):
                    add(new, 2, "MOVE", number(old["seq"]), number(new["seq"]), 0)
                elif new["seq"] != old["seq"] or (new["updated_at"] != old["updated_at"] and new["skips"] == old["skips"]):
                    add(new, 2, "SET", number(old["seq"]), number(new["seq"]), 1 if filled else 0)
        for change in transaction.of("atproto.gap"):
            old, new = change.old, change.new
            if change.kind == "INSERT" and new["reason"] in ("OutdatedCursor", "set_cursor") and new["subscription"]:
                add(new, 3, "GAP", int(new["after_seq"]), number(new["before_seq"]), 1 if new["reason"] == "OutdatedCursor" else 2)
            elif change.kind == "UPDATE" and old["closed_at"] is None and new["closed_how"] == "read again":
                add(new, 4, "CLOSE", int(new["after_seq"]), number(new["before_seq"]), 0)
        for change in transaction.of("atproto.dead_letter"):
            if change.kind == "INSERT" and change.new["seq"] is not None:
                for (name, endpoint), s in list(streams.items()):
                    if name == change.new["subscription"]:
                        add({"subscription": name, "endpoint": endpoint}, 6, "LETTER", int(change.new["seq"]), 0, 0)
        for s, found in marks.values():
            s.marks += [mark(*what, transaction) for _, what in sorted(found, key=lambda f: f[0])]
    for name, s in ended + [(name, s) for (name, _), s in streams.items()]:
        if not s.sharded:
            yield "subscription " + name, s.marks
