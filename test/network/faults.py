"""What can be wrong with an answer of the fake network, and how it is sent then.

A fault has conditions (host, path: a regular expression, did; times; after) and what happens; README.md lists both.
"""

import base64
import gzip
import re
import socket
import struct
import threading
import time
import zlib
from http.client import responses

MEGABYTE = bytes(1 << 20)


class Stop(Exception):
    """The connection ends here; the argument says how."""


class Faults:
    def __init__(self):
        self.lock = threading.Lock()
        self.faults = []
        self.holds = {}
        self.number = 0

    def add(self, fault):
        with self.lock:
            self.number += 1
            self.faults.append({**fault, "id": self.number, "seen": 0})
            return self.number

    def remove(self, number):
        """One, or with None all; who waits because of one goes on."""
        with self.lock:
            gone = [f for f in self.faults if number in (None, f["id"])]
            self.faults = [f for f in self.faults if f not in gone]
        for fault in gone:
            self.release(fault.get("hold") or f"hang {fault['id']}")

    def gate(self, name):
        with self.lock:
            return self.holds.setdefault(name, threading.Event())

    def release(self, name):
        """Those that wait at this gate go on; the next ones wait again."""
        with self.lock:
            gate = self.holds.pop(name, None)
        if gate:
            gate.set()

    def find(self, host, path):
        """The first fault that is for this request."""
        with self.lock:
            for fault in self.faults:
                if "host" in fault and fault["host"] != host:
                    continue
                if "path" in fault and not re.search(fault["path"], path):
                    continue
                if "did" in fault and fault["did"] not in path.replace("%3A", ":").replace("%3a", ":"):
                    continue
                fault["seen"] += 1
                n = fault["seen"] - fault.get("after", 0)
                if n > 0 and n <= fault.get("times", 1 << 62):
                    return fault
        return {}


def bomb(megabytes):
    """A gzip stream of so many megabytes of zeros, a piece at a time."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    piece = packer.compress(MEGABYTE) + packer.flush(zlib.Z_FULL_FLUSH)
    crc = 0
    yield b"\x1f\x8b\x08\0\0\0\0\0\0\xff"
    for _ in range(megabytes):
        crc = zlib.crc32(MEGABYTE, crc)
        yield piece
    yield packer.flush() + struct.pack("<II", crc, (megabytes << 20) & 0xFFFFFFFF)


def empty_members():
    """gzip without contents, and without an end."""
    yield from forever(gzip.compress(b"") * 200)


def in_chunks(body, extension, forever_empty=False):
    """A body in chunks; each has an extension of so many bytes.  Without an end: after the body, one extension for ever."""
    for at in range(0, len(body), 1000):
        piece = body[at : at + 1000]
        yield b"%x%s\r\n%s\r\n" % (len(piece), b";" * (extension > 0) + b"x" * extension, piece)
    if forever_empty:
        yield b"1"
        yield from forever(b";" + b"x" * 4000)
    yield b"0\r\nX-Trailer: 1\r\n\r\n"


def forever(piece):
    while True:
        yield piece


def tail(body, piece):
    yield body
    yield from forever(piece * (4096 // len(piece) + 1))


def change(answer, fault):
    """The answer's status, headers and body as the fault wants them."""
    if "redirect" in fault:
        answer.status, answer.file, answer.body = fault.get("status", 302), None, b""
        answer.headers["Location"] = fault["redirect"]
    if "status" in fault:
        answer.status = fault["status"]
    if "body" in fault:
        answer.file, answer.body = None, fault["body"].encode()
    if "base64" in fault:
        answer.file, answer.body = None, base64.b64decode(fault["base64"])
    if "file" in fault:
        answer.file = fault["file"]
    if "size" in fault:
        answer.file, answer.body = None, (answer.load() or b"x") * (fault["size"] // max(len(answer.load()), 1) + 1)
        answer.body = answer.body[: fault["size"]]
    if "xor" in fault:  # one byte is another
        raw = bytearray(answer.load())
        raw[fault["xor"]] ^= 1
        answer.body = bytes(raw)
    if fault.get("gzip"):
        answer.body = gzip.compress(answer.load())
        answer.headers["Content-Encoding"] = "gzip"
    for name, value in fault.get("headers", {}).items():
        answer.headers.pop(name, None)
        if value is not None:
            answer.headers[name] = value


def endless_head():
    yield b"HTTP/1.1 200 OK\r\n"
    yield from forever(b"X-Header: " + b"x" * 1000 + b"\r\n")


def bytes_of(answer, fault):
    """Everything that is sent, a piece at a time, and whether the connection may serve more."""
    keep = True
    length = answer.size()
    if "bomb" in fault:
        answer.headers["Content-Encoding"] = "gzip"
        body, length, keep = bomb(fault["bomb"]), None, False
    elif "empty_members" in fault:
        answer.headers["Content-Encoding"] = "gzip"
        body, length, keep = empty_members(), None, False
    elif "chunks" in fault:
        answer.headers["Transfer-Encoding"] = "chunked"
        body, length = in_chunks(answer.load(), fault["chunks"], fault.get("endless")), None
    elif fault.get("endless"):
        body, length, keep = forever((answer.load() or b"x") * (4096 // max(len(answer.load()), 1) + 1)), None, False
    elif "repeat" in fault:
        body, length, keep = tail(answer.load(), base64.b64decode(fault["repeat"])), None, False
    else:
        body = answer.pieces()
    if fault.get("endless_headers"):
        return endless_head(), 0, False
    answer.headers.setdefault("Date", time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime()))
    if length is not None:
        answer.headers.setdefault("Content-Length", str(length))
    if not keep or fault.get("close"):
        answer.headers["Connection"], keep = "close", False
    if fault.get("hang_up"):
        keep = False
    lines = [f"HTTP/1.1 {answer.status} {responses.get(answer.status, 'Other')}"]
    lines += [f"{name}: {value}" for name, value in answer.headers.items()]
    head = "\r\n".join(lines) + "\r\n\r\n"

    def pieces():
        yield head.encode("latin-1")
        yield from body

    return pieces(), len(head), keep


def send(connection, answer, fault, faults):
    """Sends an answer with its fault; (bytes sent, whether to keep the connection).  Stop says what broke it."""
    if "delay" in fault:
        time.sleep(fault["delay"])
    if "hold" in fault:
        faults.gate(fault["hold"]).wait()
    change(answer, fault)
    pieces, head, keep = bytes_of(answer, fault)
    reset = fault.get("reset")
    cut = head + fault["truncate"] if "truncate" in fault else None
    hang = head + fault["hang"] if "hang" in fault and fault["hang"] >= 0 else 0 if "hang" in fault else None
    ends = [n for n in (reset, cut, hang) if n is not None]
    limit = min(ends) if ends else None
    rate = fault.get("rate")
    slow = head + fault.get("rate_after", 0)
    sent = 0

    for piece in pieces:
        while piece:
            part = piece if limit is None else piece[: limit - sent]
            fast = sent < slow and slow > head
            if rate:
                part = part[: slow - sent] if fast else part[: max(1, rate // 10)]
            if part:
                connection.sendall(part)
                sent += len(part)
                piece = piece[len(part) :]
            if rate and not fast:
                time.sleep(len(part) / rate)
            if limit is not None and sent >= limit:
                if hang is not None and limit == hang:
                    faults.gate(f"hang {fault['id']}").wait()
                elif reset is not None and limit == reset:
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    raise Stop("reset", sent)
                raise Stop("cut", sent)
    return sent, keep
