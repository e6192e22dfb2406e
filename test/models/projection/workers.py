"""Marks of the model workers.pml: the cursors of a subscription's workers.

An object is a subscription at an endpoint that once had several workers, under the name that it has at last.
"""
# what a reader of a refused transaction wants to see
TABLES = ("atproto.subscription", "atproto.cursor")
SHARDS = 4      # as many as the model has in a trace


def number(text):
    return -1 if text is None else int(text)


class Stream:
    def __init__(self):
        self.marks = []
        self.rows = {}
        self.most = 1


def objects(transactions, mark):
    streams = {}
    ended = []

    for transaction in transactions:
        settled = {c.new["name"] for c in transaction.of("atproto.subscription") if c.kind == "UPDATE"}
        seen = {}
        for change in transaction.of("atproto.cursor"):
            row = change.new or change.old
            if change.kind == "TRUNCATE":
                continue
            if change.kind == "UPDATE" and (change.old["subscription"], row["endpoint"]) in streams:
                # the subscription may have a new name
                streams[row["subscription"], row["endpoint"]] = streams.pop((change.old["subscription"], row["endpoint"]))
            seen.setdefault((row["subscription"], row["endpoint"]), []).append(change)
        for (name, endpoint), changes in seen.items():
            if any(c.kind == "INSERT" and c.new["shard"] == "0" for c in changes) and (name, endpoint) in streams:
                # removed and made again in one transaction
                ended.append((name, streams.pop((name, endpoint))))
                changes = [c for c in changes if c.kind == "INSERT"]
            s = streams.setdefault((name, endpoint), Stream())
            shared = any(c.kind == "UPDATE" and c.old["layout"] != c.new["layout"] for c in changes)
            before = dict(s.rows)
            for c in changes:
                row = c.new or c.old
                if c.kind == "DELETE":
                    s.rows.pop(row["shard"], None)
                else:
                    s.rows[row["shard"]] = row
            s.most = max(s.most, len(s.rows))
            if not s.rows:
                ended.append((name, streams.pop((name, endpoint))))
            elif not before:
                s.marks.append(mark("START", number(s.rows["0"]["seq"]), 0, 0, transaction))
            elif shared:
                s.marks.append(mark("SHARE", len(s.rows), number(s.rows["0"]["seq"]), 0, transaction))
            elif name in settled:
                if any(c.new["updated_at"] != c.old["updated_at"] for c in changes):
                    s.marks.append(mark("SET", number(s.rows["0"]["seq"]), 0, 0, transaction))
            elif any(c.old["seq"] is None and c.new["seq"] is not None and c.new["updated_at"] == c.old["updated_at"] for c in changes):
                s.marks.append(mark("BEGIN", number(changes[0].new["seq"]), 0, 0, transaction))
            else:
                s.marks += [mark("MOVE", number(before[c.new["shard"]]["seq"]), number(c.new["seq"]), int(c.new["shard"]), transaction)
                            for c in changes if c.new["updated_at"] != before[c.new["shard"]]["updated_at"]]
        for change in transaction.of("atproto.gap"):
            new = change.new
            if change.kind == "INSERT" and new["reason"] == "OutdatedCursor" and (new["subscription"], new["endpoint"]) in streams:
                streams[new["subscription"], new["endpoint"]].marks.append(mark("GAP", int(new["after_seq"]), number(new["before_seq"]), 0, transaction))
    for name, s in ended + [(name, s) for (name, _), s in streams.items()]:
        if 1 < s.most <= SHARDS and all(max(m.numbers) < 2 ** 31 for m in s.marks):
            yield "subscription " + name, s.marks, ["-DSHARDS=%d" % s.most]
