"""Marks of the model held.pml: what is known of an account's key, and the account's events that wait for it.

An object is an account in a target that a single subscription fills at level full.  It ends where something happens that the model does not
have: another status of the account, a fetch, a refill, a wait for a missing commit, events that are dropped, an identity that is forgotten.
"""
# what a reader of a refused transaction wants to see
TABLES = ("atproto.identity", "atproto.held_event", "atproto.dead_letter", "repo")

WHY = {"identity": 1, "signature": 2, "order": 3}
BROKEN = {"gone", "invalid", "no_key", "no_pds"}
MOST = 14       # held events, and keys


class Identity:
    def __init__(self):
        self.row = None
        self.keys = []
        self.asked = 0

    def take(self, row):
        if row["key"] and row["key"] not in self.keys:
            self.keys.append(row["key"])
        if row["asked_at"] != (self.row or {}).get("asked_at"):
            self.asked += 1
        self.row = row

    def state(self):
        row = self.row
        if row is None:
            return 0
        broken = row["state"] in BROKEN and not (row["state"] == "gone" and row["denied_at"])
        key = 15 if broken else self.keys.index(row["key"]) + 1 if row["state"] == "good" and row["key"] else 0
        return (key + 16 * (row["doubted_by"] != "{}") + 32 * (row["said_by"] != "{}") + 64 * (row["stale"] in ("t", "true")) +
                128 * (row["error"] is not None) + 512 * self.asked)


class Account:
    def __init__(self):
        self.found = []
        self.held = {}          # (rev, seq): row
        self.rev = None
        self.most = 0
        self.over = False


class Transaction:
    """What a transaction has changed for an account of a target."""

    def __init__(self):
        self.gone = []
        self.refused = 0
        self.moved = False
        self.changed = False


def objects(transactions, mark):
    identities = {}
    accounts = {}
    fillers = {}

    for transaction in transactions:
        seen = {}
        announced = set()
        streamed = any(c.kind == "UPDATE" and c.new["updated_at"] != c.old["updated_at"] for c in transaction.of("atproto.cursor"))
        before = {}

        def account(target, did):
            a = accounts.setdefault((target, did), Account())
            return a, seen.setdefault((target, did), Transaction())

        for change in transaction.changes:
            schema, table = change.table.split(".", 1)
            row = change.new or change.old
            if change.table == "atproto.subscription":
                fillers.setdefault(row["target"], set()).add((row["name"], row["verify"], row["workers"]))
            elif change.kind == "TRUNCATE":
                for a in accounts.values():
                    a.over |= table in ("repo", "held_event", "identity")
                if table == "identity":
                    identities.clear()
            elif change.table == "atproto.identity":
                identity = identities.setdefault(row["did"], Identity())
                before.setdefault(row["did"], identity.state())
                announced.add(row["did"])
                if change.kind == "DELETE":
                    identities.pop(row["did"])
                    for (_, did), a in accounts.items():
                        a.over |= did == row["did"]
                else:
                    identity.take(change.new)
            elif table == "repo":
                a, t = account(schema, row["did"])
                a.over |= row["active"] not in ("t", "true") or row.get("refill_by") is not None or row["hold"] not in (None, "identity")
                t.moved = change.kind != "DELETE" and row["rev"] != a.rev
                t.changed |= t.moved
                a.old_rev, a.rev = a.rev, row["rev"] if change.kind != "DELETE" else None
            elif change.table == "atproto.held_event" and row["kind"] == "repo":
                a, t = account(row["target"], row["did"])
                t.changed = True
                a.over |= row["why"] not in WHY or (change.kind == "UPDATE" and change.old["target"] != row["target"])
                if change.kind == "DELETE":
                    t.gone.append(row)
                    a.held.pop((row["rev"], row["seq"]), None)
                else:
                    a.held[row["rev"], row["seq"]] = row
            elif change.table == "atproto.dead_letter" and row["did"] and (change.kind == "INSERT" or change.kind == "UPDATE" and row["attempts"] != change.old["attempts"]):
                # the letter of an event that was refused before is updated
                for (target, did), a in accounts.items():
                    if did == row["did"]:
                        seen.setdefault((target, did), Transaction()).refused += 1
                        a.over |= row["stage"] != "signature"
        for key, a in accounts.items():
            did = key[1]
            t = seen.get(key, Transaction())
            if a.over or not (key in seen or did in announced):
                continue
            identity = identities.setdefault(did, Identity())
            was, now = before.get(did, identity.state()), identity.state()
            taken = t.changed or t.refused or streamed and did in announced
            if not a.found and not taken:
                continue
            a.over |= len(a.held) > MOST or len(t.gone) > MOST or t.refused > MOST or len(identity.keys) > MOST or t.gone != [] and streamed
            if a.over:
                continue
            if not a.found:
                a.found.append(("BEGIN", was, 0, 0, transaction))
            a.most = max(a.most, len(a.held) + len(t.gone))
            held = [a.held[k] for k in sorted(a.held, key=lambda k: (k[0], int(k[1])))]
            what = sum((row["asked_at"] == (identity.row or {}).get("asked_at")) << k for k, row in enumerate(held))
            if taken:
                old = sum(row["rev"] <= a.old_rev for row in t.gone) if t.moved and a.old_rev else sum(row["rev"] <= a.rev for row in t.gone) if a.rev and not t.moved else 0
                found = ("TOOK", now + 256 * t.moved, sum(WHY[row["why"]] << (2 * k) for k, row in enumerate(held)),
                         what + (len(t.gone) << 14) + (t.refused << 18) + (old << 22), transaction)
                # a further commit of an account for which nothing waits tells nothing new
                if found[:4] != a.found[-1][:4] or found[2] or t.refused:
                    a.found.append(found)
            elif now != was:
                a.found.append(("LOOK", now, 0, 0, transaction))
    for (target, did), a in sorted(accounts.items()):
        if len(fillers.get(target, ())) == 1 and next(iter(fillers[target]))[1] == "full" and any(f[2] for f in a.found):
            yield "account %s of %s" % (did, target), [mark(*f) for f in a.found], ["-DEVENTS=%d" % (a.most + 2)]
