#!/usr/bin/python3
"""What a reader's tables have after the messages of the output plugin, without any code of the extension.

    changes.py record|account|label TARGET < messages, one on a line

Every message is applied in order to an empty map.  record prints did, collection, rkey, cid, rev, JSON, as expect.py does;
account prints did, active, status, handle of each account that is not as an account of which nothing was told; label prints
src, uri, val, cid, neg.  Lines are sorted.

The order of the messages is checked, too: the end of each transaction is above the end of the one before, n counts from 1, the
last message of a transaction is a position, and a create is of a path that is not there, an update and a deletion of one that
is.  --again: the messages begin before the end of what was applied; (lsn, n) tells what comes again.
"""

import argparse
import json
import sys

import expect

KINDS = {"commit", "identity", "account", "label", "truncate", "purge", "unknown", "position"}


class Wrong(Exception):
    """A message that must not come."""


def position(message):
    high, low = message["lsn"].split("/")
    return int(high, 16) << 32 | int(low, 16)


class Order:
    """(lsn, n) rises."""

    def __init__(self, again):
        self.lsn, self.n, self.ended, self.again = 0, 0, True, again

    def is_new(self, message):
        lsn, n = position(message), message["n"]
        if self.again and (lsn, n) <= (self.lsn, self.n):
            return False
        if lsn == self.lsn:
            if self.ended or n != self.n + 1:
                raise Wrong("n does not count on")
        elif lsn < self.lsn or not self.ended or n != 1:
            raise Wrong("a transaction begins wrongly")
        self.lsn, self.n, self.ended = lsn, n, message["kind"] == "position"
        return True


def apply_commit(records, message, strict):
    commit = message["commit"]
    key = (message["did"], commit["collection"], commit["rkey"])
    there = key in records
    if strict and there != (commit["operation"] != "create"):
        raise Wrong("%s of %s" % (commit["operation"], "/".join(key)))
    if commit["operation"] == "delete":
        records.pop(key, None)
    else:
        records[key] = (commit["cid"], commit["rev"], commit.get("record"))


def apply(tables, message, strict):
    kind, did = message["kind"], message.get("did")
    if kind == "commit":
        apply_commit(tables["record"], message, strict)
    elif kind == "account":
        account = message["account"]
        if account["did"] != did:
            raise Wrong("two accounts")
        tables["account"].setdefault(did, {}).update(active=account["active"], status=account.get("status"))
    elif kind == "identity":
        tables["account"].setdefault(did, {})["handle"] = message["identity"].get("handle")
    elif kind == "label":
        label = message["label"]
        tables["label"][label["src"], label["uri"], label["val"]] = (label.get("cid"), label.get("neg", False))
    elif kind == "purge" and "label" in message:
        label = message["label"]
        del tables["label"][label["src"], label["uri"], label["val"]]
    elif kind == "purge" and "account" in message:
        tables["account"].pop(message["account"]["did"], None)
    elif kind == "truncate":
        tables[{"repo": "account"}.get(message["table"], message["table"])].clear()
    elif kind not in KINDS:
        raise Wrong("unknown kind")


def rows_of(mode, table):
    for key, value in table.items():
        if mode == "record":
            cid, rev, record = value
            yield (*key, cid, rev, None if record is None else json.dumps(record, ensure_ascii=False, sort_keys=True))
        elif mode == "label":
            yield (*key, *value)
        else:
            row = (value.get("active", True), value.get("status"), value.get("handle"))
            if row != (True, None, None):
                yield (key, *row)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("mode", choices=["record", "account", "label"])
    parser.add_argument("target")
    parser.add_argument("--again", action="store_true")
    args = parser.parse_args()
    tables = {"record": {}, "account": {}, "label": {}}
    order = Order(args.again)
    for line in sys.stdin.buffer:
        message = json.loads(line)
        try:
            if order.is_new(message) and message.get("target", args.target) == args.target:
                apply(tables, message, True)
        except Wrong as wrong:
            sys.exit("%s: %s" % (wrong, line.decode().rstrip()))
    sys.stdout.buffer.write(b"".join(line.encode() + b"\n" for line in sorted(
        "\t".join(expect.field(value) for value in row) for row in rows_of(args.mode, tables[args.mode]))))


if __name__ == "__main__":
    main()
