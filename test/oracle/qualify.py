#!/usr/bin/python3
"""Adds members to messages of a capture, which say that the messages are of a space, or something else.

    qualify.py CAPTURE N:[WHERE.]NAME[=JSON]... > FILE

N is the message's number in the capture, from 1 on; the member's value is a text, or JSON.  WHERE: the message itself,
or its payload in a frame of JSON (without WHERE), op (the first operation, or the member "commit" of a text), signed (the signed
commit, whose signature then does not fit, and whose CID changes), frame, or kind, which replaces the kind by NAME.
"""

import json
import sys

import cbor2

import synth
import wire


def signed(payload, member):
    (root,), blocks = wire.car(payload["blocks"])
    block = synth.encode({**wire.decode(blocks.pop(root)), **member})
    blocks[synth.cid(block)] = block
    payload["blocks"] = synth.car(synth.cid(block), list(blocks.items()))
    if "commit" in payload:
        payload["commit"] = synth.link(synth.cid(block))


def in_frame(message, where, member):
    header, payload = wire.frame(message)
    if where == "signed":
        signed(payload, member)
    elif where == "kind":
        header["t"] = next(iter(member))
    elif where == "label":
        payload["labels"][0].update(member)
    else:
        {"frame": header, "op": payload.get("ops", [{}])[0] if where == "op" else None, "": payload}[where].update(member)
    return synth.encode(header) + synth.encode(payload)


def in_text(message, where, member):
    value = json.loads(message)
    payload = value.get("payload", value)
    if where == "kind":
        payload["kind" if "kind" in payload else "$type"] = next(iter(member))
    else:
        inside = next((payload[name] for name in ("commit", "sync", "identity", "account") if name in payload), None)
        {"frame": value, "op": inside, "": payload}[where].update(member)
    return json.dumps(value, separators=(",", ":")).encode()


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    messages = list(wire.messages(sys.argv[1]))
    for change in sys.argv[2:]:
        n, _, member = change.partition(":")
        name, _, value = member.partition("=")
        where, dot, name = name.rpartition(".")
        member = {name: json.loads(value) if value else "at://did:plc:2222222222222222222222/space/com.example.forum/self"}
        i = int(n) - 1
        messages[i] = (in_text if messages[i].startswith(b"{") else in_frame)(messages[i], where, member)
    synth.write(messages, sys.stdout.buffer)


if __name__ == "__main__":
    main()
