#!/usr/bin/python3
"""Puts a capture into the framing xrpc.v1.cbor (E-61): one object for each message.

    v1.py NSID CAPTURE > FILE
"""

import sys

import synth
import wire


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    frames = map(wire.frame, wire.messages(sys.argv[2]))
    synth.write((synth.encode({"$type": "message", "payload": {**payload, "$type": sys.argv[1] + header["t"]}}
                              if header["op"] == 1 else {"$type": "error", **payload})
                 for header, payload in frames), sys.stdout.buffer)


if __name__ == "__main__":
    main()
