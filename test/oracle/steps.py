#!/usr/bin/python3
"""Makes a capture of a few events that a test spells out.

    steps.py STEP... > FILE

A step is one event of an account, named by a letter:

    a 3 +x =y -z    its commit of revision 3: creates x, updates y, deletes z;
                    !x creates an invalid record; >x creates a like, which has a link; @TIME is the time written in the event;
                    a name with a slash is a path, a name without is the key of a post; +x:2 creates x with the text of revision 2
    a deleted       an #account event: deleted, deactivated, ..., or active; the next commit of a deleted account is a first one; @TIME
    a is NAME       an #identity event with this handle; @TIME
    a sync 4        a #sync of revision 4, with an unknown tree

The text of a record is its key and its revision.  An #account event carries the time of its
place in the stream, or the time named.
"""

import sys

import synth

POST = "app.bsky.feed.post/"
ACTIONS = {"+": "create", "!": "create", ">": "create", "=": "update", "-": "delete"}


class Stream(synth.Stream):
    def record(self, op, rev):
        if op[0] == "-":
            return None
        if op[0] == ">":
            subject = {"uri": "at://did:plc:z72i7hdynmk6r22z27h6tvur/app.bsky.feed.post/3l6oveex3ii2l",
                       "cid": "bafyreigh2akiscaildcqabsyg3dfr6chu3fgpregiymsck7e7aqa4s52zy"}
            return {"$type": "app.bsky.feed.like", "subject": subject, "createdAt": "2026-01-01T00:00:00.000Z"}
        return {"no": "type"} if op[0] == "!" else synth.post(" ".join(op[1:].split(":")) if ":" in op else f"{op[1:]} {rev}")

    def step(self, words):
        who = synth.did(ord(words[0]) - ord("a") + 1)
        if words[1] == "is":
            return self.identity(who, words[2], *(word[1:] for word in words[3:]))
        if words[1] == "sync":
            return self.sync(who, synth.tid(int(words[2])))
        if not words[1].isdigit():
            active = words[1] == "active"
            extra = {} if active else {"status": words[1]}
            if words[1] == "deleted":
                self.heads.pop(who, None)
                self.records.pop(who, None)
            time = words[2][1:] if len(words) > 2 else f"2026-01-01T00:00:{self.seq:02}Z"
            return self.message("#account", {"did": who, "active": active, "time": time, **extra})
        ops = [(ACTIONS[op[0]], ("" if "/" in op else POST) + op[1:].split(":")[0], self.record(op, words[1]))
               for op in words[2:] if op[0] != "@"]
        at = {"time": op[1:] for op in words[2:] if op[0] == "@"}
        return self.commit(who, synth.tid(int(words[1])), ops, **at)


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    stream = Stream()
    synth.write((stream.step(step.split()) for step in sys.argv[1:]), sys.stdout.buffer)


if __name__ == "__main__":
    main()
