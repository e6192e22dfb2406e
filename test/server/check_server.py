#!/usr/bin/python3
"""Tries every switch of streamserver with a strict little client of its own; prints TAP.

Standard library only.  Nothing waits for time to pass: a ping is answered after all
that was sent before it, so "nothing came" is "the pong came first".
"""

import base64
import contextlib
import hashlib
import json
import os
import re
import signal
import socket
import ssl
import struct
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
SERVER = os.path.join(HERE, "streamserver")
TRAINER = os.path.join(HERE, "traindict")
JETSTREAM = "network.bsky.jetstream.subscribeEvents"
PDS = os.path.join(HERE, "..", "data", "pds.frames.gz")
TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10
TIMEOUT = 60  # a hang becomes a failure

count = failed = 0


def ok(condition, name):
    global count, failed
    count += 1
    if not condition:
        failed += 1
    print(f"{'ok' if condition else 'not ok'} {count} - {name}", flush=True)


def equal(got, want, name):
    ok(got == want, name)
    if got != want:
        print(f"#      got: {str(got)[:300]}\n# expected: {str(want)[:300]}")


# --- captures ---


def head(major, n):
    if n < 24:
        return bytes([major << 5 | n])
    for info, form, limit in ((24, ">B", 1 << 8), (25, ">H", 1 << 16), (26, ">I", 1 << 32)):
        if n < limit:
            return bytes([major << 5 | info]) + struct.pack(form, n)
    return bytes([major << 5 | 27]) + struct.pack(">Q", n)


def text(s):
    return head(3, len(s)) + s.encode()


def message(seq, kind="#test"):
    """{"t": kind, "op": 1} {"seq": seq}, or without a seq {"a": [1, {"seq": 7}]}"""
    payload = text("seq") + head(0, seq) if seq else text("a") + b"\x82\x01\xa1" + text("seq") + b"\x07"
    return b"\xa2" + text("t") + text(kind) + text("op") + b"\x01\xa1" + payload


def seq_of(msg):
    """The inverse of message()."""
    at = msg.find(b"\xa1cseq")
    if at < 0:
        return None
    first = msg[at + 5]
    return first if first < 24 else int.from_bytes(msg[at + 6 :], "big")


def capture(path, messages):
    with open(path, "wb") as f:
        for m in messages:
            f.write(struct.pack(">I", len(m)) + m)
    return path


# --- the server, and a client ---


class Server:
    def __init__(self, *options, capture):
        self.dir = tempfile.TemporaryDirectory()
        self.logfile = os.path.join(self.dir.name, "log")
        self.process = subprocess.Popen(
            [SERVER, "--capture", capture, "--log", self.logfile, "--exit-on-eof", *map(str, options)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        line = self.process.stdout.readline()
        assert line.startswith("listening on "), line
        self.port = int(line.split()[-1])

    def release(self):
        self.process.send_signal(signal.SIGUSR1)

    def stop(self):
        """Ends the server; what it logged, and its exit status."""
        self.process.stdin.close()
        status = self.process.wait(TIMEOUT)
        self.process.stdout.close()
        with open(self.logfile, encoding="ascii") as f:
            log = [json.loads(line) for line in f]
        self.dir.cleanup()
        return log, status


class Client:
    def __init__(self, server, cursor=0, path="/xrpc/com.atproto.sync.subscribeRepos", tls=None, headers=""):
        self.socket = socket.create_connection((getattr(server, "host", "127.0.0.1"), server.port), TIMEOUT)
        if tls:
            self.socket = tls.wrap_socket(self.socket, server_hostname="localhost")
        key = base64.b64encode(os.urandom(16)).decode()
        query = "" if cursor is None else f"{'&' if '?' in path else '?'}cursor={cursor}"
        self.socket.sendall(
            f"GET {path}{query} HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n"
            f"Connection: Upgrade\r\nSec-WebSocket-Key: {key}\r\n"
            f"Sec-WebSocket-Version: 13\r\n{headers}\r\n".encode()
        )
        self.file = self.socket.makefile("rb")
        self.want_accept = base64.b64encode(
            hashlib.sha1(key.encode() + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest()
        ).decode()
        self.pings = 0
        self.closed = None  # code of the server's close frame
        self.end = None  # "close", "eof", "partial" or "reset"

    def reply(self):
        """Status and headers of the answer."""
        status = self.file.readline()
        self.status = int(status.split()[1]) if status else None
        self.headers = {}
        while line := self.file.readline().strip():
            name, _, value = line.decode().partition(":")
            self.headers[name.lower()] = value.strip()
        return self

    def good(self):
        return self.status == 101 and self.headers["sec-websocket-accept"] == self.want_accept

    def send(self, opcode, payload=b""):
        mask = os.urandom(4)
        n = len(payload)
        length = bytes([0x80 | n]) if n < 126 else b"\xfe" + struct.pack(">H", n)
        self.socket.sendall(
            bytes([0x80 | opcode])
            + length
            + mask
            + bytes(b ^ mask[i % 4] for i, b in enumerate(payload))
        )

    def frame(self):
        """(first byte, payload), or None at the end."""
        try:
            two = self.file.read(2)
            if len(two) < 2:
                self.end = "partial" if two else "eof"
                return None
            n = two[1]
            assert n < 128, "a server does not mask"
            if n >= 126:
                n = int.from_bytes(self.file.read(2 if n == 126 else 8), "big")
            payload = self.file.read(n)
            if len(payload) < n:
                self.end = "partial"
                return None
            return two[0], payload
        except ConnectionResetError:
            self.end = "reset"
            return None

    def message(self):
        """The next whole message (opcode, bytes), also PONG; None at the end."""
        parts, kind = [], None
        while (got := self.frame()) is not None:
            first, payload = got
            opcode, fin = first & 15, first & 0x80
            assert first & 0x70 == 0, "reserved bits"
            if opcode == CLOSE:
                self.closed = int.from_bytes(payload[:2], "big") if payload else 1005
                self.send(CLOSE, payload[:2])
                self.end = "close"
                assert self.file.read() == b"", "nothing after a close frame"
                return None
            if opcode == PING:
                self.pings += 1
                self.inside = bool(parts)
                self.send(PONG, payload)
            elif opcode == PONG:
                return PONG, payload
            else:
                assert (kind is None) == (opcode != 0), "continuation"
                kind = kind or opcode
                parts.append(payload)
                self.frames = len(parts)
                if fin:
                    return kind, b"".join(parts)
        return None

    def all(self):
        """Every message to the end, or to the pong of a ping sent now if the server stays."""
        got = []
        while (m := self.message()) is not None and m[0] != PONG:
            got.append(m[1])
        return got

    def all_so_far(self):
        """What the server sends before it answers a ping."""
        self.send(PING, b"so far?")
        return self.all()

    def seqs(self):
        return [seq_of(m) for m in self.all()]

    def close(self):
        self.file.close()
        self.socket.close()


@contextlib.contextmanager
def running(*options, capture=None, clients=()):
    """A server and one client for each given dict; log of the end in server.log."""
    server = Server(*options, capture=capture or TEN)
    opened = []
    try:
        for kwargs in clients:
            opened.append(Client(server, **kwargs).reply())
        yield (server, *opened)
    finally:
        for c in opened:
            c.close()
        server.log, server.exit = server.stop()
        if server.exit != 0:
            ok(False, f"the server ends with {server.exit}")


def one(*options, capture=None, **kwargs):
    """Run one connection to its end: (client, messages, server)."""
    with running(*options, capture=capture, clients=[kwargs]) as (server, client):
        got = client.all() if client.status == 101 else []
    return client, got, server


def seqs(messages):
    return [seq_of(m) for m in messages]


def how(server, i=0):
    return [e for e in server.log if e["event"] == "end"][i]["how"]


def has_ipv6():
    try:
        with socket.socket(socket.AF_INET6) as s:
            s.bind(("::1", 0))
        return True
    except OSError:
        return False


# --- the tests ---


def test_replay():
    import gzip

    raw = gzip.open(PDS).read()
    want, pos = [], 0
    while pos < len(raw):
        (n,) = struct.unpack(">I", raw[pos : pos + 4])
        want.append(raw[pos + 4 : pos + 4 + n])
        pos += 4 + n
    c, got, s = one("--close-at-end", capture=PDS)
    ok(c.good(), "upgrade is accepted with the right key")
    ok(got == want, f"all {len(want)} messages arrive as they are in the capture")
    equal((c.end, c.closed), ("close", 1000), "--close-at-end closes with 1000")
    request, end = s.log
    equal(request["cursor"], "0", "the log has the cursor")
    equal(
        (end["messages"], end["first_seq"], end["last_seq"], end["how"]),
        (1600, 1, 1600, "closed 1000"),
        "and what was sent, and how it ended",
    )
    equal(s.exit, 0, "the server ends well when its standard input ends")


def test_pipe():
    with tempfile.TemporaryDirectory() as d:
        fifo = os.path.join(d, "fifo")
        os.mkfifo(fifo)
        writer = subprocess.Popen(["cp", TEN, fifo])
        c, got, s = one("--close-at-end", capture=fifo, cursor=4)
        equal(seqs(got), [5, 6, 7, 8, 9, 10], "a capture may come from a pipe")
        writer.wait(TIMEOUT)


def test_cursor():
    def replay(*options, cursor):
        c, got, s = one("--close-at-end", *options, cursor=cursor)
        return seqs(got), c, s

    equal(replay(cursor=7)[0], [8, 9, 10], "cursor=7: after 7")
    equal(replay("--inclusive", cursor=7)[0], [7, 8, 9, 10], "--inclusive: from 7")
    equal(replay(cursor=10)[0], [], "cursor at the end: nothing")
    equal(replay(cursor=None)[0], [], "no cursor: nothing of the past")
    equal(replay("--live-start", 4, cursor=None)[0], [5, 6, 7, 8, 9, 10], "--live-start")
    c, got, s = one(cursor=11)
    equal((c.closed, b"FutureCursor" in got[0], len(got)), (1008, True, 1), "cursor beyond: FutureCursor, close")
    equal(s.log[-1]["told"], "FutureCursor", "and in the log")
    got, _, s = replay("--oldest", 6, cursor=2)
    equal(got, [None, 6, 7, 8, 9, 10], "--oldest: OutdatedCursor, then the oldest")
    equal(s.log[-1]["told"], "OutdatedCursor", "and in the log")
    equal(replay("--oldest", 6, cursor=5)[0], [6, 7, 8, 9, 10], "a cursor just before the oldest misses nothing")
    equal(replay("--oldest", 6, cursor=0)[0], [6, 7, 8, 9, 10], "cursor=0: the oldest, without a word")
    c, got, _ = one(cursor="abc")
    ok(c.closed == 1008 and b"InvalidRequest" in got[0], "a cursor that is no number: error message")
    equal(len(one("--close-at-end", capture=NOSEQ)[1]), 3, "a capture without seq is replayed whole")
    equal(replay(cursor="0&x=1")[0][0], 1, "other parameters are ignored")


def test_stay_open():
    with running(clients=[{}, {}, {"cursor": 5}]) as (_, a, b, c):
        equal([seqs(x.all_so_far()) for x in (a, b, c)], [[*range(1, 11)]] * 2 + [[6, 7, 8, 9, 10]], "three clients at once")
        a.send(TEXT, b"data")
        equal(a.all_so_far(), [], "after the last message it stays and answers pings")
        a.send(CLOSE, struct.pack(">H", 1001))
        equal((a.message(), a.closed), (None, 1001), "a client's close frame is answered")
        b.close()
        with contextlib.suppress(ValueError):
            c.socket.shutdown(socket.SHUT_WR)
            ok(c.message() is None and c.end == "eof", "a client that ends without a close frame is let go")
    s = _
    ends = {e["connection"]: e for e in s.log if e["event"] == "end"}
    equal(ends[1]["how"], "client closed 1001", "the log tells a client's close")
    equal((ends[1]["pings"], ends[1]["data"]), (2, 1), "and counts pings and data messages")
    ok(ends[2]["how"].startswith("client"), "and a client that went away")


def test_hold():
    with running("--hold-at", 4, "--hold-at", 8, "--close-at-end", clients=[{}]) as (s, c):
        equal(seqs(c.all_so_far()), [1, 2, 3], "--hold-at stops before its message")
        s.release()
        equal([seq_of(c.message()[1]) for _ in range(4)], [4, 5, 6, 7], "SIGUSR1 goes on to the next hold")
        equal(c.all_so_far(), [], "and no further")
        s.release()
        equal(c.seqs(), [8, 9, 10], "the last one releases all")


def test_rate():
    c, got, _ = one("--rate", 2000, "--close-at-end")
    equal(seqs(got), [*range(1, 11)], "--rate sends all")


def test_http():
    for status in (405, 426, 429, 500, 501, 503, 301, 200):
        with running("--status", status, "--retry-after", "7", "--redirect", "http://127.0.0.1/", clients=[{}]) as (s, c):
            body = json.loads(c.file.read())
            ok(
                c.status == status and c.headers["retry-after"] == "7" and c.headers["location"] == "http://127.0.0.1/" and "error" in body,
                f"--status {status} with Retry-After, Location and a JSON error",
            )
        equal(how(s), f"status {status}", "and in the log")
    with running("--status", 503, "--body-size", 3000000, clients=[{}]) as (_, c):
        equal(len(c.file.read()), 3000000, "--body-size")
    with running("--status", 503, "--body", __file__, clients=[{}]) as (_, c):
        equal(c.file.read(), open(__file__, "rb").read(), "--body")
    with running("--status", 503, "--status-times", 2, clients=[{}, {}, {}]) as (_, *cs):
        equal([c.status for c in cs], [503, 503, 101], "--status-times")
    with running("--interim", 2, "--fault-times", 1, clients=[{}, {}]) as (_, a, b):
        equal([a.status, a.reply().status, a.reply().good(), b.status], [103, 103, True, 101], "--interim")
    with running("--bad-accept", "--fault-times", 1, clients=[{}, {}]) as (_, a, b):
        ok(a.status == 101 and not a.good() and b.good(), "--bad-accept")
    with running("--no-upgrade-reply") as (s,):
        c = Client(s)
        c.socket.shutdown(socket.SHUT_WR)
        equal(c.file.read(), b"", "--no-upgrade-reply says nothing")
        c.close()
    equal([e["event"] for e in s.log], ["request", "end"], "but has read the request")
    with running(clients=[{"path": "/other"}, {"path": "/xrpc/com.example.other"}, {"headers": "Authorization: Bearer x\r\n"}]) as (s, a, b, c):
        equal((a.status, b.status, c.status), (404, 101, 101), "any /xrpc/ path is served, others are not found")
    ok(["Authorization", "Bearer x"] in s.log[2]["headers"], "the log has the headers")
    with running() as (s,):
        for request, want in (
            (b"GET /xrpc/x.y.z HTTP/1.1\r\nHost: x\r\n\r\n", b"426"),
            (b"POST /xrpc/x.y.z HTTP/1.1\r\nHost: x\r\n\r\n", b"405"),
            (b"nonsense\r\n\r\n", b"400"),
            (b"GET /" + b"x" * 70000, b"400"),
        ):
            with socket.create_connection(("127.0.0.1", s.port), TIMEOUT) as raw:
                raw.sendall(request)
                equal(raw.recv(12)[-3:], want, f"{request[:20]} is answered {want.decode()}")


def test_cut():
    c, got, s = one("--cut-after", 4)
    equal((seqs(got), c.end, how(s)), ([1, 2, 3, 4], "eof", "cut"), "--cut-after")
    c, got, _ = one("--cut-after", 4, "--cut-inside", 5)
    equal((seqs(got), c.end), ([1, 2, 3, 4], "partial"), "--cut-inside")
    c, got, _ = one("--cut-after", 4, "--cut-inside", 1)
    equal((seqs(got), c.end), ([1, 2, 3, 4], "partial"), "one byte of the next frame")
    c, got, _ = one("--cut-after", 4, "--cut-reset")
    equal(c.end, "reset", "--cut-reset")
    with running("--cut-after", 4, "--cut-times", 1, "--close-at-end", clients=[{}, {"cursor": 4}]) as (_, a, b):
        equal(a.seqs() + b.seqs(), [*range(1, 11)], "--cut-times 1: the second connection gets the rest")
    c, got, _ = one("--cut-after", 0)
    equal((c.status, got, c.end), (101, [], "eof"), "--cut-after 0: right after the upgrade")


def test_close_and_stall():
    c, got, _ = one("--close-after", 3, "--close-code", 1011)
    equal((seqs(got), c.closed), ([1, 2, 3], 1011), "--close-after with --close-code")
    c, got, _ = one("--close-code", 1005)
    equal((len(got), c.closed), (10, 1005), "--close-code alone: after the last; 1005 has no code")
    with running("--stall-after", 3, clients=[{}]) as (_, c):
        equal(seqs(c.all_so_far()), [1, 2, 3], "--stall-after stops sending, and answers pings")
    with running("--ignore-pings", "--stall-after", 3, clients=[{}]) as (s, c):
        c.send(PING, b"?")
        c.send(CLOSE, struct.pack(">H", 1000))
        equal((seqs(c.all()), c.end), ([1, 2, 3], "eof"), "--ignore-pings")
    equal(s.log[-1]["pings"], 1, "but counts them")


def test_seq_faults():
    def run(*options, **kwargs):
        c, got, s = one("--close-at-end", *options, **kwargs)
        return seqs(got)

    equal(run("--dup-at", 3)[:5], [1, 2, 3, 3, 4], "--dup-at")
    equal(run("--swap-at", 3)[:5], [1, 2, 4, 3, 5], "--swap-at")
    equal(run("--skip-from", 3, "--skip-to", 8), [1, 2, 9, 10], "--skip-from, --skip-to")
    equal(run("--inject", f"{EXTRA}@3")[:6], [1, 2, 70, 71, 3, 4], "--inject")
    equal(run("--inject", f"{EXTRA}@999")[-3:], [10, 70, 71], "--inject beyond the end: after the last")
    equal(run("--inject", f"{EXTRA}@3", cursor=5), [6, 7, 8, 9, 10], "a fault before the cursor does not happen")
    equal(run("--inject", f"{EXTRA}@0", cursor=5)[:3], [70, 71, 6], "one at 0 happens on every connection")
    equal(run("--dup-at", 3, "--swap-at", 5, "--inject", f"{EXTRA}@5")[:9], [1, 2, 3, 3, 4, 70, 71, 6, 5], "several at once")
    with running("--dup-at", 3, "--fault-times", 1, "--close-at-end", clients=[{}, {}]) as (_, a, b):
        equal((len(a.all()), len(b.all())), (11, 10), "--fault-times")
    c, got, _ = one("--error", "ConsumerTooSlow@4")
    equal((seqs(got), c.closed), ([1, 2, 3, None], 1008), "--error: the error message, then close")
    ok(got[3].startswith(b"\xa1bop \xa2eerroroConsumerTooSlow"), "which is the canonical one")


def test_frames():
    c, got, _ = one("--oversize", "6000000@4", "--close-at-end")
    equal([len(m) for m in got if len(m) > 100], [6000000], "--oversize has exactly its size")
    with running("--text-at", 4, "--close-at-end", clients=[{}]) as (_, c):
        kinds = []
        while (m := c.message()) is not None:
            kinds.append(m[0])
        equal(kinds, [BINARY] * 3 + [TEXT] + [BINARY] * 7, "--text-at")
    c, got, s = one("--ping-at", 4, "--ping-at", 6, "--close-at-end")
    equal((len(got), c.pings, s.log[-1]["pongs"]), (10, 2, 2), "--ping-at, and the log counts pongs")
    with running("--fragment", 5, "--ping-at", 4, "--close-at-end", clients=[{}]) as (_, c):
        first = c.message()
        equal((seq_of(first[1]), c.frames), (1, -(-len(message(1)) // 5)), "--fragment")
        ok(c.seqs() == [*range(2, 11)] and c.pings == 1 and c.inside, "with a ping inside of a message")
    for option in (("--garbage-at", 3), ("--raw", "fffe@3")):
        with running(*option, clients=[{}]) as (_, c):
            c.message(), c.message()
            equal(c.file.read(2), b"\xff\xfe", f"{option[0]}: bytes that are no frame")
    with running("--garbage-at", 0, clients=[{}]) as (_, c):
        equal(c.file.read(2), b"\xff\xfe", "--garbage-at 0: right after the upgrade")
    c, got, _ = one("--trickle", "1:10", "--close-at-end")
    equal((c.good(), seqs(got)), (True, [*range(1, 11)]), "--trickle 1: one byte at a time")


def test_tls():
    with tempfile.TemporaryDirectory() as d:
        cert, key = os.path.join(d, "cert"), os.path.join(d, "key")
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
            + ["-keyout", key, "-out", cert, "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"],
            check=True,
            stderr=subprocess.DEVNULL,
        )
        trusting, strict = ssl.create_default_context(cafile=cert), ssl.create_default_context()
        with running("--tls", cert, key, "--close-at-end", capture=PDS) as (s,):
            c = Client(s, tls=trusting).reply()
            equal((c.good(), len(c.all()), c.closed), (True, 1600, 1000), "--tls replays all")
            c.close()
            try:
                Client(s, tls=strict)
                ok(False, "a client that does not trust the certificate refuses")
            except ssl.SSLError:
                ok(True, "a client that does not trust the certificate refuses")
        equal([e["how"] for e in s.log if e["event"] == "end"][1], "TLS failed", "which the log tells")
        with running("--tls", cert, key, "--cut-after", 4) as (s,):
            c = Client(s, tls=trusting).reply()
            equal((c.seqs(), c.end), ([1, 2, 3, 4], "eof"), "--cut-after on TLS")
            c.close()
        with running("--tls", cert, key, "--trickle", "7:10", "--fragment", 3, "--close-at-end") as (s,):
            c = Client(s, tls=trusting).reply()
            equal(c.seqs(), [*range(1, 11)], "--trickle and --fragment on TLS")
            c.close()


# --- Jetstream ---


def v1_texts():
    """Ten events; the times of 4 and 5 are equal, 7 is earlier than 6."""
    times = [1, 2, 3, 4, 4, 6, 5, 8, 9, 10]
    kinds = ["commit"] * 3 + ["identity", "commit", "account"] + ["commit"] * 4
    for i, (time, kind) in enumerate(zip(times, kinds), 1):
        body = {"commit": {"rev": "r", "operation": "create", "collection": f"com.example.c{i % 2}", "rkey": f"{i}"}}
        yield json.dumps({"did": f"did:plc:{i % 3}", "time_us": 10**15 + time, "kind": kind, "n": i, **(body if kind == "commit" else {kind: {}})})


def v2_texts():
    """The seqs 101 to 110, with a #sync."""
    kinds = ["commit"] * 3 + ["identity", "sync", "account"] + ["commit"] * 4
    for i, kind in enumerate(kinds, 1):
        payload = {"$type": f"{JETSTREAM}#{kind}", "seq": 100 + i, "did": f"did:plc:{i % 3}", "time": f"2026-01-01T00:00:00.{i:06}Z", "n": i}
        if kind == "commit":
            payload.update(rev="r", operation="create", collection=f"com.example.c{i % 2}", rkey=f"{i}", text='a "quoted\\" }')
        yield json.dumps({"$type": "message", "payload": payload})


def numbers(messages):
    """Which events they are; None of what is no event."""
    out = []
    for m in messages:
        m = json.loads(m)
        out.append(m.get("payload", m).get("n"))
    return out


def v1(query="", *options, **kwargs):
    c, got, s = one("--close-at-end", *options, capture=V1, cursor=None, path=f"/subscribe?{query}", **kwargs)
    return (numbers(got) if c.status == 101 else c.status), s


def v2(query="", *options, path=f"/xrpc/{JETSTREAM}", **kwargs):
    c, got, s = one("--close-at-end", *options, capture=V2, cursor=None, path=f"{path}?{query}", **kwargs)
    return (numbers(got) if c.status == 101 else c.status), s


def test_jetstream_v1():
    all_of_it = [*range(1, 11)]
    c, got, _ = one("--close-at-end", capture=V1, cursor=0, path="/subscribe")
    equal([m.decode() for m in got], list(v1_texts()), "the texts arrive as they are")
    with running("--close-at-end", capture=V1, clients=[{"path": "/subscribe"}, {}]) as (_, c, other):
        kinds = []
        while (m := c.message()) is not None:
            kinds.append(m[0])
        equal((kinds, other.status), ([TEXT] * 10, 404), "as text messages, on /subscribe alone")
    equal(v1()[0], [], "no cursor: nothing of the past")
    for cursor, want in ((0, all_of_it), (10**15 + 4, all_of_it[3:]), (10**15 + 5, all_of_it[5:]), (10**15, all_of_it), (10**15 + 11, []), (4, all_of_it[3:]), (99, [])):
        equal(v1(f"cursor={cursor}")[0], want, f"cursor={cursor}")
    got, s = v1(f"cursor={10**15 + 2}", "--oldest", 6)
    equal((got, s.log[-1]["told"]), (all_of_it[5:], "clamped"), "--oldest: clamped without a word")
    equal(v1("cursor=-1")[0], 400, "a cursor that is none")
    equal(v1("cursor=0&wantedCollections=com.example.c1")[0], [1, 3, 4, 5, 6, 7, 9], "wantedCollections: and all identities and accounts")
    equal(v1("cursor=0&wantedCollections=com.*&wantedDids=did:plc:1&wantedDids=did%3Aplc%3A2")[0], [1, 2, 4, 5, 7, 8, 10], "wantedDids")
    equal([v1(f"wantedCollections={name}")[0] for name in ("nonsense", "com.example.c*")], [400, 400], "patterns that are none")
    equal(v1("&".join(f"wantedCollections=com.example.n{i}" for i in range(101)))[0], 400, "too many")
    equal(numbers(one("--dup-at", 3, "--swap-at", 5, "--skip-from", 8, "--skip-to", 9, "--close-at-end", capture=V1, path="/subscribe")[1]), [1, 2, 3, 3, 4, 6, 5, 7, 10], "faults by position")
    c, got, _ = one("--error", "Name@4", capture=V1, path="/subscribe")
    equal((json.loads(got[3])["error"], c.closed), ("Name", 1008), "--error")
    c, got, _ = one("--oversize", "5000@4", "--text-at", 4, "--binary", "00ff@4", "--close-at-end", capture=V1, path="/subscribe")
    equal((len(got[3]), got[4][:7], got[5]), (5000, b'{"text"', b"\x00\xff"), "--oversize, --text-at, --binary")
    with running("--close-at-end", capture=V1, clients=[{"cursor": 0, "path": "/subscribe?requireHello=true"}] * 3) as (_, a, b, c):
        equal(a.all_so_far(), [], "requireHello: nothing before the client's options")
        a.send(TEXT, json.dumps({"type": "options_update", "payload": {"wantedCollections": ["com.example.c1"], "wantedDids": ["did:plc:1", "did:plc:0"]}}).encode())
        equal(numbers(a.all()), [1, 3, 4, 6, 7, 9], "options_update: then what they say")
        b.send(TEXT, b'{"type":"options_update","payload":{"wantedCollections":["x"]}}')
        equal((b.all(), b.closed), ([], 1007), "options that are none")
        c.send(TEXT, b'{"type":"options_update","payload":{}}')
        equal(numbers(c.all()), all_of_it, "none at all: everything")


def test_jetstream_v2():
    all_of_it = [*range(1, 11)]
    for cursor, want in ((101, all_of_it), (1, all_of_it), (104, all_of_it[3:]), (110, [10]), (111, []), (1767225600000004, all_of_it[3:]), (1767225600000011, [])):
        equal(v2(f"cursor={cursor}")[0], want, f"cursor={cursor}: inclusive")
    equal(v2(f"cursor={104}", "--oldest", 105)[0], 400, "--oldest: CursorTooOld")
    got, s = v2("cursor=1767225600000001", "--oldest", 105)
    equal((got, s.log[-1]["told"]), ([None, 5, 6, 7, 8, 9, 10], "OutdatedCursor"), "of a time: told, and the oldest")
    equal(v2("cursor=105", "--oldest", 105)[0], all_of_it[4:], "the oldest is there")
    with running("--oldest", 105, capture=V2, clients=[{"cursor": 1, "path": f"/xrpc/{JETSTREAM}"}]) as (_, c):
        equal(json.loads(c.file.read())["error"], "CursorTooOld", "before the upgrade, with its name")
    equal(v2("cursor=0&collections=com.example.c0")[0], [2, 4, 5, 6, 8, 10], "collections: commits alone")
    equal(v2("cursor=0&collections=com.example.c0&kinds=commit&kinds=sync")[0], [2, 5, 8, 10], "kinds")
    equal(v2("cursor=0&dids=did:plc:0")[0], [3, 6, 9], "dids")
    equal([v2(q)[0] for q in ("wantedDids=did:plc:1", "kinds=x", "kinds=sync&collections=com.example.c0", "cursor=x", "compress=true")], [400] * 5, "what it refuses")
    with running(capture=V2, clients=[{"path": f"/xrpc/{JETSTREAM}", "cursor": None}]) as (_, c):
        c.send(TEXT, b"{}")
        equal((c.all(), c.closed), ([], 1008), "a client has nothing to say")
    with running(capture=V2, clients=[{"path": f"/xrpc/{JETSTREAM}", "headers": "Sec-WebSocket-Protocol: xrpc.v1.json\r\n"}]) as (_, c):
        equal(c.headers.get("sec-websocket-protocol"), "xrpc.v1.json", "the subprotocol is agreed on")
    equal(v2("cursor=104", path="/xrpc/com.example.other")[0], all_of_it[4:], "another stream of this framing has the usual cursors")
    c, got, _ = one(capture=V2, cursor=999, path="/xrpc/com.example.other")
    equal((json.loads(got[0])["error"], c.closed), ("FutureCursor", 1008), "and errors")


def unzstd(data, dictionary):
    with tempfile.NamedTemporaryFile() as f:
        f.write(dictionary)
        f.flush()
        return subprocess.run(["zstd", "-dc", "-D", f.name], input=data, capture_output=True, check=True).stdout


def test_zstd():
    with tempfile.TemporaryDirectory() as d:
        many = capture(os.path.join(d, "many"), [t.encode() * 3 for t in [*v1_texts(), *v2_texts()] * 50])
        path = os.path.join(d, "dictionary")
        with open(path, "wb") as f:
            subprocess.run([TRAINER, many, "4096"], stdout=f, check=True)
        with open(path, "rb") as f:
            dictionary = f.read()
        number = int.from_bytes(dictionary[4:8], "little")
        ok(dictionary[:4] == b"\x37\xa4\x30\xec" and number > 0, "traindict makes a dictionary")
        options = ("--zstd-dictionary", path, "--close-at-end")
        has_zstd = subprocess.run(["which", "zstd"], stdout=subprocess.DEVNULL).returncode == 0
        for wire, want, where in ((V1, list(v1_texts()), "/subscribe?compress=true"), (V2, list(v2_texts()), f"/xrpc/{JETSTREAM}?zstdDictionary={number}")):
            for more in ((), ("--zstd-unsized",)):
                with running(*options, *more, capture=wire, clients=[{"path": where}]) as (_, c):
                    got = []
                    while (m := c.message()) is not None:
                        got.append(m)
                    ok([k for k, _ in got] == [BINARY] * 10 and all(m[:4] == b"\x28\xb5\x2f\xfd" for _, m in got), f"zstd frames {more}")
                    if has_zstd:
                        equal([unzstd(m, dictionary).decode() for _, m in got], want, "which are the texts")
        with running(*options, capture=V1, clients=[{"path": "/subscribe", "headers": "Socket-Encoding: zstd\r\n"}]) as (_, c):
            equal(c.message()[0], BINARY, "the first version is asked by a header, too")
        equal([v2(f"zstdDictionary={number + 1}", *options)[0], v1("compress=true")[0]], [400, 400], "a dictionary that is not there")
        get = "/xrpc/network.bsky.jetstream.getZstdDictionary"
        with running(*options, "--cut-after", 2, "--cut-times", 1, capture=V2) as (s,):
            for query, want in (("", 200), (f"?id={number}", 200), (f"?id={number + 1}", 400)):
                c = Client(s, cursor=None, path=get + query).reply()
                equal((c.status, c.file.read() == dictionary), (want, want == 200), f"getZstdDictionary{query and '?id'}")
                c.close()
            c = Client(s, path=f"/xrpc/{JETSTREAM}").reply()
            equal((numbers(c.all()), c.end), ([1, 2], "eof"), "and is no connection that faults count")
            c.close()
        c, got, _ = one("--bomb", "5000000@1", "--close-at-end", capture=V1, path="/subscribe")
        ok(got[0][:4] == b"\x28\xb5\x2f\xfd" and len(got[0]) < 5000, "--bomb")


def test_command_line():
    def fails(*options):
        return subprocess.run([SERVER, *options], capture_output=True, stdin=subprocess.DEVNULL, timeout=TIMEOUT).returncode == 2

    ok(fails(), "a capture is needed")
    ok(fails("--capture", "/nowhere"), "which exists")
    ok(fails("--capture", SERVER), "and is one")
    ok(fails("--capture", TEN, "--what"), "unknown options are refused")
    ok(fails("--capture", TEN, "--cut-after", "x"), "and numbers that are none")
    ok(fails("--capture", TEN, "--inject", EXTRA), "and faults without a seq")
    helped = subprocess.run([SERVER, "--help"], capture_output=True, text=True, timeout=TIMEOUT)
    readme = open(os.path.join(HERE, "README.md"), encoding="utf-8").read()
    options = set(re.findall(r"^  (--[a-z-]+)|, (--[a-z-]+)", helped.stdout, re.M))
    options = {a or b for a, b in options}
    ok(len(options) > 40, "--help lists the switches")
    equal(sorted(o for o in options if f"`{o}" not in readme), [], "README.md describes every switch")
    with tempfile.TemporaryDirectory() as d:
        portfile = os.path.join(d, "port")
        with running("--port-file", portfile) as (s,):
            equal(int(open(portfile).read()), s.port, "--port-file")
        if has_ipv6():
            with running("--bind", "::1", "--close-at-end") as (s,):
                s.host = "::1"
                c = Client(s).reply()
                equal(c.seqs(), [*range(1, 11)], "--bind ::1")
                c.close()


with tempfile.TemporaryDirectory() as files:
    TEN = capture(os.path.join(files, "ten"), [message(seq) for seq in range(1, 11)])
    EXTRA = capture(os.path.join(files, "extra"), [message(70), message(71)])
    V1 = capture(os.path.join(files, "v1"), [t.encode() for t in v1_texts()])
    V2 = capture(os.path.join(files, "v2"), [t.encode() for t in v2_texts()])
    NOSEQ = capture(os.path.join(files, "noseq"), [message(0)] * 3)
    for name, test in list(globals().items()):
        if name.startswith("test_"):
            test()
print(f"1..{count}")
sys.exit(1 if failed else 0)
