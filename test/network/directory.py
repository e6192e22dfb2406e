"""A did:plc directory for tests: /export in both forms, /export/stream, and the logs and documents of accounts.

It serves a log that test/oracle/plc.py has made; README.md says what a test tells it.  Written from the directory's
specification, not from the extension.  Like the real one, it believes the operations that it has.
"""

import bisect
import json
import os
import re
import sys
import threading
import urllib.parse
from datetime import datetime

import websocket

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../oracle"))

import plc_op  # noqa: E402

MOST = 1000  # lines of a page
KINDS = ("export", "stream", "log", "audit", "last", "data", "document")
PATH = re.compile(r"/(did:[^/]+)(/log|/log/audit|/log/last|/data)?\Z")


def dump(value):
    return json.dumps(value, separators=(",", ":"))


class Refused(Exception):
    """(status, message)"""


def refusal(status, message):
    return status, {"Content-Type": "application/json; charset=utf-8"}, dump({"message": message}).encode()


class Entry:
    """A line of the log; nullified changes when an operation that nullifies it is published."""

    def __init__(self, line):
        self.seq, self.did, self.cid = line["seq"], line.get("did"), line.get("cid")
        self.created, self.operation = line.get("createdAt"), line.get("operation")
        self.nullifies, self.raw = line.get("nullifies", []), line.get("raw")
        self.line = {name: of for name, of in line.items() if name not in ("seq", "nullifies", "raw")}
        self.nullified = False

    def served(self):
        return self.raw or dump({"type": "sequenced_op", **self.line, "seq": self.seq})

    def audit(self):
        return {**self.line, "nullified": self.nullified}


class Directory:
    """The published part of a log, at one host."""

    def __init__(self, log, upto=None, **options):
        self.lock = threading.RLock()
        self.entries, self.waiting, self.by_did = [], [], {}
        self.changes, self.seen, self.streams = [], dict.fromkeys(KINDS, 0), set()
        self.options = {"page": MOST, "oldest": 0}
        self.do({"append": log, "set": options, "publish": upto})

    # --- what a test tells ---

    def do(self, what):
        """Each of these at once, in this order."""
        with self.lock:
            if "forget" in what:
                self.changes.clear()
            if "append" in what:
                with open(what["append"], encoding="utf-8") as f:
                    self.waiting += [Entry(json.loads(line)) for line in f]
            for name, value in what.get("set", {}).items():
                if name not in self.options:
                    raise ValueError(f"a directory has no option {name}")
                self.options[name] = value
            if "renumber" in what:
                self.renumber(*what["renumber"])
            if "remove" in what:
                self.remove(**what["remove"])
            if "publish" in what:
                self.publish(what["publish"])
            if "change" in what:
                self.changes.append({"times": 1, "nth": 1, "line": 0, **what["change"], "at": dict(self.seen)})
            for peer in self.streams:
                peer.wake()

    def publish(self, upto):
        """The entries with a seq up to this; null: all."""
        while self.waiting and (upto is None or self.waiting[0].seq <= upto):
            entry = self.waiting.pop(0)
            log = self.by_did.setdefault(entry.did, [])
            for of in log:
                of.nullified = of.nullified or of.cid in entry.nullifies
            log.append(entry)
            self.entries.append(entry)

    def renumber(self, first, step):
        """Another directory has its own numbers for the same operations."""
        for n, entry in enumerate(self.entries + self.waiting):
            entry.seq = first + n * step

    def remove(self, did, cid=None):
        """As the directory's operator does: an operation and all that came after it in the account's log."""
        log = self.by_did.get(did, [])
        at = next((n for n, entry in enumerate(log) if cid in (None, entry.cid)), len(log))
        gone = log[at:]
        del log[at:]
        self.entries = [entry for entry in self.entries if all(entry is not of for of in gone)]

    def state(self):
        with self.lock:
            last = self.entries[-1] if self.entries else None
            return {
                "entries": len(self.entries),
                "last": last.seq if last else 0,
                "waiting": len(self.waiting),
                "accounts": len(self.by_did),
                "asked": dict(self.seen),
                "streams": len(self.streams),
            }

    # --- what is wrong with an answer ---

    def change(self, kind, key):
        """The change that is for this request of its kind."""
        with self.lock:
            self.seen[kind] += 1
            for change in self.changes:
                if change.get("on", "export") != kind or change.get("did", key) != key:
                    continue
                n = self.seen[kind] - change["at"][kind] - change["nth"]
                if 0 <= n and (change["times"] is None or n < change["times"]):
                    return change
        return {}

    # --- pages ---

    def count(self, query):
        text = query.get("count")
        number = re.match(r"\s*[+-]?\d+", text) if text else None
        if text and (number is None or int(number[0]) < 1):
            raise Refused(400, "Invalid count parameter")
        return min(int(number[0]) if text else MOST, self.options["page"])

    def page(self, query):
        """The objects of a page, and whether it is of the present form."""
        count, after = self.count(query), query.get("after")
        if after and re.fullmatch(r"[0-9]+", after):
            return self.behind(int(after), count), True
        found = sorted(self.entries, key=lambda entry: (str(entry.created), str(entry.cid)))
        if after:
            try:
                datetime.fromisoformat(after.replace("Z", "+00:00"))
            except ValueError:
                raise Refused(400, "Invalid after parameter") from None
            found = [entry for entry in found if str(entry.created) > after]
        return found[:count], False

    def behind(self, seq, n):
        """The next n entries."""
        at = bisect.bisect_right(self.entries, seq, key=lambda entry: entry.seq)
        return self.entries[at : at + n]

    def lines(self, query, change):
        entries, is_sequenced = self.page(query)
        if not is_sequenced:
            return [dump(entry.audit()) for entry in entries]
        return spoil([entry.served() for entry in entries], change, self)

    def export(self, query, change):
        """The body of a page."""
        lines = self.lines(query, change)
        what = change.get("what")
        if what == "cut":  # within the line, by a server that ends well
            at = change["line"] % len(lines) if lines else 0
            lines = lines[:at] + ([lines[at][: len(lines[at]) // 2]] if lines else [])
        body = "\n".join(lines).encode()
        if what == "line_feed":
            body += b"\n"
        if what == "crlf":
            body = body.replace(b"\n", b"\r\n")
        if what == "html":
            body = b"<html><body>It works!</body></html>"
        return body

    # --- an account ---

    def account(self, did, what):
        log = self.by_did.get(did)
        if not log:
            raise Refused(404, f"DID not registered: {did}")
        present = [entry for entry in log if not entry.nullified]
        if what == "log":
            return [entry.operation for entry in present]
        if what == "audit":
            return [entry.audit() for entry in log]
        if what == "last":
            return present[-1].operation
        data = plc_op.meaning(present[-1].operation)
        if data is None:
            raise Refused(404, f"DID not available: {did}")
        data = {"did": did, **data}
        return data if what == "data" else document_of(data)

    def is_for(self, path):
        return path in ("/export", "/export/stream") or PATH.match(path) is not None

    def answer(self, path, query):
        """(status, headers, body) of a request that is_for() the directory."""
        if path == "/export/stream":
            return refusal(426, "upgrade required")
        match = PATH.match(path)
        what = {None: "document", "/log": "log", "/log/audit": "audit", "/log/last": "last", "/data": "data"}
        kind = what[match[2]] if match else "export"
        change = self.change(kind, match and match[1])
        with self.lock:
            try:
                if not match:
                    return 200, {"Content-Type": "application/jsonlines"}, self.export(query, change)
                did = change.get("other", match[1])
                found = self.account(did, kind)
            except Refused as refused:
                return refusal(*refused.args)
            if isinstance(found, list):
                found = [json.loads(line) for line in spoil([dump(of) for of in found], change, self)]
            name = "application/did+ld+json" if kind == "document" else "application/json"
            return 200, {"Content-Type": name + "; charset=utf-8"}, dump(found).encode()

    # --- the stream ---

    def stream(self, cursor, peer):
        """Sends the entries after the cursor, and what is published from then on; (code, reason) of the end, or None when
        the client has ended."""
        change = self.change("stream", None)
        with self.lock:
            newest = self.entries[-1].seq if self.entries else 0
            following = self.behind(cursor or 0, 1)
            if cursor is None:
                cursor = newest
            elif cursor > newest:
                return 1000, "FutureCursor"
            elif following and following[0].seq < self.options["oldest"]:
                return 1000, "OutdatedCursor"
            self.streams.add(peer)
        try:
            return self.follow(cursor, change, peer)
        finally:
            with self.lock:
                self.streams.discard(peer)

    def follow(self, cursor, change, peer):
        sent = 0
        while peer.ended is None:
            with self.lock:
                found = self.behind(cursor, 500)
                lines = [entry.served() for entry in found]
            if not found:
                peer.wait(60)
                continue
            here = {**change, "line": change["line"] - sent} if change and 0 <= change["line"] - sent < len(found) else {}
            what = here.get("what")
            if what in ("close", "reset", "large"):
                lines = lines[: here["line"]]
            with self.lock:
                lines = spoil(lines, here, self)
            peer.send(b"".join(frames_of(lines, here)))
            if what == "large":
                for piece in large_message(here.get("size", 100)):
                    peer.send(piece)
            if what == "close":
                return here.get("code", 1000), here.get("reason", "")
            if what == "reset":
                return 0, "reset"
            cursor, sent = found[-1].seq, sent + len(found)
            peer.wait(0)
        return None


def cursor_of(text):
    """The cursor of a request; None: from now on."""
    if text is None:
        return None
    number = re.match(r"\s*[+-]?\d+", text)
    if number is None or int(number[0]) < 0:
        raise Refused(400, "Invalid cursor parameter")
    return int(number[0])


def frames_of(lines, change):
    """A message for each line; before the line of the change, what is odd about the stream itself."""
    for n, line in enumerate(lines):
        if n == change.get("line"):
            if change["what"] == "binary":
                yield websocket.frame(websocket.BINARY, line.encode())
                continue
            if change["what"] == "fragments":
                yield from websocket.fragments(line.encode(), 7)
                continue
            if change["what"] == "ping":
                yield websocket.frame(websocket.PING, b"?")
            if change["what"] == "latin1":
                yield websocket.frame(websocket.TEXT, b'{"type":"\xe4"}')
        yield websocket.frame(websocket.TEXT, line.encode())


def large_message(megabytes):
    """A message of so many MB, which would be a line."""
    yield websocket.head(websocket.TEXT, (megabytes << 20) + 11) + b'{"type":"x'
    for _ in range(megabytes):
        yield b"x" * (1 << 20)
    yield b'"'


def spoil(lines, change, directory):
    """The lines, with one of them, or what is around it, other than it should be."""
    what, at = change.get("what"), change.get("line", 0)
    if what is None or not lines:
        return lines
    at = max(0, min(at if at >= 0 else len(lines) + at, len(lines) - 1))
    before, line, behind = lines[:at], lines[at], lines[at + 1 :]
    many = change.get("count", 1)

    def set_members(**members):
        return dump({**json.loads(line), **members})

    changes = {
        "empty": lambda: [],
        "short": lambda: before,
        "drop": lambda: before + lines[at + many :],
        "repeat": lambda: before + [line] * (1 + many) + behind,
        "again": lambda: [entry.served() for entry in directory.entries[:many]] + lines,
        "swap": lambda: before + behind[:1] + [line] + behind[1:],
        "reverse": lambda: lines[::-1],
        "same_seq": lambda: before + [line, *(dump({**json.loads(of), "seq": json.loads(line)["seq"]}) for of in behind[:1])] + behind[1:],
        "seq": lambda: before + [set_members(seq=change["value"])] + behind,
        "did": lambda: before + [set_members(did=change["value"])] + behind,
        "cid": lambda: before + [set_members(cid=change["value"])] + behind,
        "created": lambda: before + [set_members(createdAt=change["value"])] + behind,
        "type": lambda: before + [set_members(type="another_type")] + behind,
        "without": lambda: before + [dump({k: v for k, v in json.loads(line).items() if k != change["value"]})] + behind,
        "member": lambda: before + [set_members(**change["value"])] + behind,
        "line": lambda: before + [change["value"]] + lines[at:],
        "blank": lambda: before + ["", *lines[at:]],
        "long": lambda: before + ['{"type":"' + "x" * (change.get("size", 100) << 20) + '"}'] + lines[at:],
        "nested": lambda: before + ["[" * 100000] + lines[at:],
    }
    return changes[what]() if what in changes else lines


def document_of(data):
    """The DID document, as the directory makes it."""
    did = data["did"]
    return {
        "@context": ["https://www.w3.org/ns/did/v1", "https://w3id.org/security/multikey/v1"],
        "id": did,
        "alsoKnownAs": data["alsoKnownAs"],
        "verificationMethod": [
            {
                "id": f"{did}#{name}",
                "type": "Multikey",
                "controller": did,
                "publicKeyMultibase": key.removeprefix("did:key:"),
            }
            for name, key in data["verificationMethods"].items()
        ],
        "service": [
            {"id": f"#{name}", "type": of["type"], "serviceEndpoint": of["endpoint"]}
            for name, of in data["services"].items()
        ],
    }


def serve_stream(directory, handler, entry):
    """A request for /export/stream, at the connection of a handler; entry: its line of the network's log.  How it ended,
    and the bytes sent."""
    query = dict(urllib.parse.parse_qsl(handler.path.partition("?")[2], keep_blank_values=True))
    try:
        cursor = cursor_of(query.get("cursor"))
    except Refused as refused:
        entry["status"], headers, body = refusal(*refused.args)
        head = [f"HTTP/1.1 {entry['status']} Bad Request", f"Content-Length: {len(body)}", "Connection: close"]
        data = "\r\n".join([*head, *(f"{name}: {value}" for name, value in headers.items()), "", ""]).encode() + body
        handler.request.sendall(data)
        return "sent", len(data)
    peer = websocket.Peer(handler.request)
    lines = [
        "HTTP/1.1 101 Switching Protocols",
        "Upgrade: websocket",
        "Connection: Upgrade",
        "Sec-WebSocket-Accept: " + websocket.accept(handler.headers.get("Sec-WebSocket-Key", "")),
    ]
    try:
        peer.send("\r\n".join([*lines, "", ""]).encode())
        entry["status"] = 101
        end = directory.stream(cursor, peer)
        if end is None:
            if peer.ended == "closed":
                peer.send(websocket.close(1000, ""))
            return f"client {peer.ended}", peer.bytes
        code, reason = end
        if code:
            peer.send(websocket.close(code, reason))
            while peer.ended is None:
                peer.wait(10)
        return f"{code} {reason}".strip(), peer.bytes
    except OSError:
        return "broken", peer.bytes
    finally:
        peer.end()
