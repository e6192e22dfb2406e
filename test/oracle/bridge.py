#!/usr/bin/python3
"""Turns the messages of the output plugin into the texts of a Jetstream (second version), without any code of the extension (O-25).

    bridge.py TARGET < messages, one on a line > FILE

The output is a capture file of texts, as jetstream.py writes them; seq counts up.  A reader may cut after each transaction, so
of each path only the last operation of the transaction is given, by revision: a Jetstream's revisions of an account
rise, and a deletion has the newest of its transaction.  An account that goes follows its last operations.
"""

import base64
import json
import struct
import sys

import jetstream
import wire


def texts_of(out, time, events, known):
    """known: the paths that are there."""
    last, before, after = {}, [], []
    for event in events:
        if event["kind"] == "commit":
            commit = event["commit"]
            path = event["did"], commit["collection"], commit["rkey"]
            last.pop(path, None)
            last[path] = event
        elif event["kind"] in ("account", "identity"):
            body = {**event[event["kind"]], "seq": 0, "time": time}
            gone = event["kind"] == "account" and not body["active"]
            (after if gone else before).append((event["did"], event["kind"], body))
    for did, kind, body in before:
        yield from out.wrapped(did, time, kind, body)
    for path, event in sorted(last.items(), key=lambda item: item[1]["commit"].get("rev", "")):
        body = {key: value for key, value in event["commit"].items() if key != "old"}
        if "raw" in body:
            body["record"] = jetstream.plain(wire.decode(base64.b64decode(body.pop("raw")), strict=False))
        there = path in known
        if body["operation"] == "delete":
            known.discard(path)
            if not there or "rev" not in body:
                continue
        else:
            known.add(path)
            body["operation"] = "update" if there else "create"
        yield out.commit(event["did"], time, body)
    for did, kind, body in after:
        yield from out.wrapped(did, time, kind, body)


def main():
    out, events, known = jetstream.V2(), [], set()
    for line in sys.stdin.buffer:
        message = json.loads(line)
        if message["kind"] == "position":
            for text in texts_of(out, message["time"], events, known):
                sys.stdout.buffer.write(struct.pack(">I", len(text)) + text)
            events = []
        elif message["target"] == sys.argv[1]:
            events.append(message)


if __name__ == "__main__":
    main()
