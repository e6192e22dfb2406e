#!/usr/bin/python3
"""A capture without some of its commits.

    lost.py CAPTURE BEFORE EVERY > FILE

Each EVERY-th commit before the message BEFORE is left out if a later commit of the account follows before that message, so that
a reader of the rest can notice the loss.
"""

import sys

import synth
import wire


def main():
    capture, before, every = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    last, out, commits = {}, [], 0
    for message in wire.messages(capture):
        header, payload = wire.frame(message)
        if header["t"] == "#commit" and payload["seq"] < before:
            last[payload["repo"]] = payload["seq"]
    for message in wire.messages(capture):
        header, payload = wire.frame(message)
        if header["t"] == "#commit" and payload["seq"] < last.get(payload["repo"], 0):
            commits += 1
            if commits % every == 0:
                continue
        out.append(message)
    synth.write(out, sys.stdout.buffer)


if __name__ == "__main__":
    main()
