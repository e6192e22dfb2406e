"""Repositories of targets that relays at level chain fill, as the models of several sources have them: sources.pml and letters.pml.

A target fits a model while its subscriptions are so many relays (RELAYS) at level chain, without fetches.  The marks of its
repositories end when a subscription changes in one of the columns CHANGES, or with the end of the trace.
"""


class Union:
    RELAYS = (1, 2)
    CHANGES = ("name", "target", "verify", "backfill")
    # the kinds of a subscription's changes that always end what is known of its target
    ENDS = ("DELETE",)
    # the class of a repository: made of the target and the DID
    Repository = None

    def __init__(self):
        self.subscriptions = {}
        self.repositories = {}
        self.done = []

    def sources(self, target):
        return sorted(name for name, s in self.subscriptions.items() if s["target"] == target)

    def fits(self, target):
        of = [s for s in self.subscriptions.values() if s["target"] == target]
        return len(of) in self.RELAYS and all(s["verify"] == "chain" and "subscribeRepos" in (s["endpoint"] or s["url"] + "/xrpc/com.atproto.sync.subscribeRepos")
                                              and s["backfill"] == "none" for s in of)

    def repository(self, target, did):
        if (target, did) not in self.repositories:
            self.repositories[target, did] = self.Repository(target, did)
        return self.repositories[target, did]

    def end(self, target):
        for key in [k for k in self.repositories if k[0] == target]:
            self.done.append(self.repositories.pop(key))

    def subscription(self, change):
        old, new = change.old, change.new
        for row in (old, new):
            if row and (change.kind in self.ENDS or change.kind == "UPDATE" and any(old[k] != new[k] for k in self.CHANGES)):
                self.end(row["target"])
        if old:
            self.subscriptions.pop(old["name"], None)
        if new:
            self.subscriptions[new["name"]] = new

    @staticmethod
    def moved(transaction):
        """The subscriptions whose cursors the transaction moved by events."""
        return {c.new["subscription"] for c in transaction.of("atproto.cursor") if c.kind == "UPDATE" and c.old and c.old["events"] != c.new["events"]}
