#!/usr/bin/python3
"""Tries what the fake network serves, its faults and its log, with clients of its own; prints TAP.

Standard library only.  Where something must not come, the log or a gate tells, not the time.
"""

import gzip
import http.client
import json
import os
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

import archive  # noqa: E402
import segment  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
TIMEOUT = 60  # a hang becomes a failure
DID = "did:plc:" + "a" * 24
OTHER = "did:plc:" + "b" * 24
WEB = "did:web:web.example.com"
SYNC = "/xrpc/com.atproto.sync."

count = failed = 0


def ok(condition, name):
    global count, failed
    count += 1
    failed += not condition
    print(f"{'ok' if condition else 'not ok'} {count} - {name}", flush=True)


def equal(got, want, name):
    ok(got == want, name)
    if got != want:
        print(f"#      got: {str(got)[:300]}\n# expected: {str(want)[:300]}")


class Network:
    def __init__(self, folder):
        pem = [os.path.join(folder, name) for name in ("crt", "key", "other.crt", "other.key")]
        for at, name in ((0, "a.example.com"), (2, "b.example.com")):
            subprocess.run(
                ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
                + ["-config", "/dev/null", "-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name}"]
                + ["-out", pem[at], "-keyout", pem[at + 1]],
                check=True,
                capture_output=True,
            )
        self.ca = pem[0]
        self.cars = os.path.join(folder, "cars")
        os.makedirs(os.path.join(self.cars, "pds.example.com"))
        with open(os.path.join(self.cars, "pds.example.com", OTHER + ".car"), "wb") as f:
            f.write(b"car of the other" * 10000)
        with open(os.path.join(self.cars, "pds.example.com", OTHER + ".json"), "w", encoding="ascii") as f:
            json.dump({"rev": "3kother", "head": "bafyother", "collections": ["a.b.c"]}, f)
        self.process = subprocess.Popen(
            [sys.executable, "-B", os.path.join(HERE, "network.py"), "--exit-on-eof", "--cars", self.cars]
            + ["--tls", f"{pem[0]},{pem[1]}", "--tls", f"b.example.com={pem[2]},{pem[3]}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.ports = json.loads(self.process.stdout.readline())

    def tell(self, what, value):
        connection = http.client.HTTPConnection("127.0.0.1", self.ports["control"], timeout=TIMEOUT)
        connection.request("POST", "/" + what, json.dumps(value))
        answer = connection.getresponse()
        body = json.loads(answer.read())
        connection.close()
        assert answer.status == 200, body
        return body

    def log(self, **want):
        connection = http.client.HTTPConnection("127.0.0.1", self.ports["control"], timeout=TIMEOUT)
        connection.request("GET", "/log")
        entries = json.loads(connection.getresponse().read())
        connection.close()
        return [e for e in entries if all(e.get(k) == v for k, v in want.items())]

    def wait_log(self, n, **want):
        while len(self.log(**want)) < n:
            time.sleep(0.01)
        return self.log(**want)

    def begin(self, host, path, headers=None, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.ports["http"], timeout=TIMEOUT)
        connection.request("GET" if body is None else "POST", path, body, headers={"Host": host, **(headers or {})})
        return connection

    def get(self, host, path, headers=None, body=None):
        """Status, headers and body; or the exception's name in place of the body."""
        connection = self.begin(host, path, headers, body)
        status, headers, body = None, {}, None
        try:
            answer = connection.getresponse()
            status, headers = answer.status, dict(answer.getheaders())
            body = answer.read()
        except (OSError, http.client.HTTPException) as e:
            body = type(e).__name__
        connection.close()
        return status, headers, body

    def json(self, host, path):
        status, _, body = self.get(host, path)
        return status, json.loads(body)

    def tls(self, name):
        """The name of the certificate that a name gets, or the error."""
        context = ssl.create_default_context(cafile=self.ca)
        with socket.create_connection(("127.0.0.1", self.ports["https"]), TIMEOUT) as raw:
            try:
                with context.wrap_socket(raw, server_hostname=name) as s:
                    s.sendall(f"GET /{DID} HTTP/1.1\r\nHost: {name}\r\n\r\n".encode())
                    s.recv(1)
                    return s.getpeercert()["subjectAltName"][0][1]
            except ssl.SSLError as e:
                return e.reason

    def dns(self, name, kind=16, tcp=False):
        """(rcode, truncated, [data of the answers of that type], number right?), or None for silence."""
        labels = b"".join(bytes([len(p)]) + p.encode() for p in name.split(".")) + b"\0"
        query = struct.pack(">HHHHHH", 77, 0x0100, 1, 0, 0, 0) + labels + struct.pack(">HH", kind, 1)
        sort = socket.SOCK_STREAM if tcp else socket.SOCK_DGRAM
        with socket.socket(socket.AF_INET, sort) as s:
            s.settimeout(TIMEOUT)
            s.connect(("127.0.0.1", self.ports["dns"]))
            s.sendall(struct.pack(">H", len(query)) + query if tcp else query)
            if tcp:
                file = s.makefile("rb")
                reply = file.read(struct.unpack(">H", file.read(2))[0])
            else:
                reply = s.recv(65535)
        number, flags, _, answers, _, _ = struct.unpack_from(">HHHHHH", reply)
        at, found = len(query), []
        for _ in range(answers):
            while reply[at]:
                at += 1 + reply[at]
            of, _, _, size = struct.unpack_from(">HHIH", reply, at + 1)
            at += 11
            if of == kind:
                found.append(reply[at : at + size])
            at += size
        return flags & 15, bool(flags & 0x0200), found, number == 77


def documents(net):
    net.tell("documents", {DID: {"id": DID}, WEB: "not {json", OTHER: 410})
    equal(net.json("plc.example.com", "/" + DID), (200, {"id": DID}), "a document of the directory")
    equal(net.get("plc.example.com", "/" + OTHER)[0], 410, "a tombstone")
    equal(net.get("plc.example.com", "/did:plc:none")[0], 404, "an unknown DID")
    equal(net.get("web.example.com", "/.well-known/did.json")[2], b"not {json", "did:web: any text")
    net.tell("documents", {DID: None})
    equal(net.get("plc.example.com", "/" + DID)[0], 404, "a document is taken away")
    net.tell("handles", {"alice.example.com": DID + "\n"})
    equal(net.get("alice.example.com", "/.well-known/atproto-did")[2], DID.encode() + b"\n", "a handle")
    equal(net.get("bob.example.com", "/.well-known/atproto-did")[0], 404, "not a handle")


def repositories(net):
    car = os.path.join(net.cars, "told.car")
    with open(car, "wb") as f:
        f.write(b"told")
    pds, relay = "pds.example.com", "relay.example.com"
    net.tell("repos", {pds: {DID: {"car": car, "rev": "3ktold", "head": "bafytold"}}})
    equal(net.get(pds, f"{SYNC}getRepo?did={DID}")[2], b"told", "getRepo: told")
    equal(len(net.get(pds, f"{SYNC}getRepo?did={OTHER}")[2]), 160000, "getRepo: of the directory")
    equal(net.json(pds, f"{SYNC}getRepo?did=did:plc:x")[1]["error"], "RepoNotFound", "getRepo: not there")
    equal(net.json(pds, f"{SYNC}getLatestCommit?did={OTHER}")[1], {"cid": "bafyother", "rev": "3kother"}, "latest")
    equal(
        net.json(pds, f"{SYNC}getRepoStatus?did={DID}")[1], {"did": DID, "active": True, "rev": "3ktold"}, "getRepoStatus"
    )
    status, first = net.json(pds, SYNC + "listRepos?limit=1")
    equal([r["did"] for r in first["repos"]], [DID], "listRepos: first page")
    second = net.json(pds, f"{SYNC}listRepos?limit=1&cursor={first['cursor']}")[1]
    equal(([r["did"] for r in second["repos"]], "cursor" in second), ([OTHER], False), "listRepos: last page")
    net.tell("hosts", {pds: {"list": [{"did": DID}] * 3, "page": 2}})
    equal(len(net.json(pds, SYNC + "listRepos")[1]["repos"]), 2, "listRepos: entries as told, and size of pages")
    equal(
        net.json(pds, SYNC + "listReposByCollection?collection=a.b.c")[1], {"repos": [{"did": OTHER}]}, "by collection"
    )
    net.tell("hosts", {relay: {"hosts": [pds], "pds": {DID: pds}}})
    equal(net.json(relay, SYNC + "listHosts")[1], {"hosts": [{"hostname": pds}]}, "listHosts")
    status, headers, _ = net.get(relay, f"{SYNC}getRepo?did={DID}")
    equal((status, headers["Location"]), (302, f"https://{pds}{SYNC}getRepo?did={DID}"), "a relay redirects")
    net.tell("repos", {pds: {DID: {"active": False, "status": "deactivated"}, OTHER: None}})
    equal(net.json(pds, f"{SYNC}getRepo?did={DID}")[1]["error"], "RepoDeactivated", "getRepo: deactivated")
    equal(net.get(pds, f"{SYNC}getRepo?did={OTHER}")[0], 400, "a repository is taken away")


def faults(net):
    host, path = "f.example.com", "/.well-known/atproto-did"
    body = DID * 10
    net.tell("handles", {host: body})

    def with_fault(**fault):
        number = net.tell("fault", {"host": host, **fault})
        answer = net.get(host, path)
        net.tell("unfault", number)
        return answer

    status, headers, _ = with_fault(status=429, headers={"Retry-After": "7", "Content-Type": None}, body="<html>")
    equal((status, headers.get("Retry-After"), headers.get("Content-Type")), (429, "7", None), "status and headers")
    equal(with_fault(status=429, headers={"Content-Type": "text/html"}, body="<html>")[2], b"<html>", "body")
    equal(with_fault(redirect="https://x.example.com/")[1]["Location"], "https://x.example.com/", "redirect")
    status, headers, got = with_fault(gzip=True)
    equal((headers["Content-Encoding"], gzip.decompress(got)), ("gzip", body.encode()), "gzip")
    status, headers, got = with_fault(bomb=3)
    ok(len(got) < 10000 and gzip.decompress(got) == bytes(3 << 20), "a gzip bomb")
    equal(len(with_fault(size=100000)[2]), 100000, "size")
    equal(with_fault(base64="AAE=")[2], b"\0\1", "base64")
    equal(with_fault(xor=0)[2][1:], body.encode()[1:], "xor: the rest is as it was")
    ok(with_fault(xor=0)[2][0] != body.encode()[0], "xor: one byte is not")
    equal(with_fault(truncate=100)[2], "IncompleteRead", "truncated")
    equal(with_fault(reset=0)[2], "ConnectionResetError", "reset before all")
    ok(with_fault(reset=300)[2] in ("ConnectionResetError", "IncompleteRead"), "reset in the middle")
    start = time.monotonic()
    equal(with_fault(rate=1000)[2], body.encode(), "slow: all of it comes")
    ok(time.monotonic() - start > 0.3, "slow: but not at once")
    equal(with_fault(rate=1000, rate_after=50)[2], body.encode(), "slow from there on: likewise")
    start = time.monotonic()
    with_fault(delay=0.2)
    ok(time.monotonic() - start > 0.2, "delay")

    number = net.tell("fault", {"host": host, "endless": True})
    connection = net.begin(host, path)
    equal(len(connection.getresponse().read(3 << 20)), 3 << 20, "endless")
    connection.close()
    net.tell("unfault", number)
    number = net.tell("fault", {"host": host, "repeat": "AAE="})
    connection = net.begin(host, path)
    equal(connection.getresponse().read(len(body) + 5), body.encode() + b"\0\1\0\1\0", "endless, behind what it would be")
    connection.close()
    net.tell("unfault", number)
    number = net.tell("fault", {"host": host, "endless_headers": True})
    equal(net.get(host, path)[2], "HTTPException", "endless headers")
    net.tell("unfault", number)

    number = net.tell("fault", {"host": host, "times": 1, "after": 1, "status": 500})
    equal([net.get(host, path)[0] for _ in range(3)], [200, 500, 200], "after, times")
    net.tell("unfault", number)
    number = net.tell("fault", {"did": DID, "path": "getRepo\\b", "status": 500})
    asked = [f"{SYNC}getRepo?did={DID.replace(':', '%3A')}", f"{SYNC}getRepo?did={OTHER}", f"{SYNC}listRepos?did={DID}"]
    equal([net.get(host, p)[0] for p in asked], [500, 400, 200], "did, path")
    net.tell("unfault", number)


def gates(net):
    host, path = "g.example.com", "/.well-known/atproto-did"
    net.tell("handles", {host: DID})
    net.tell("fault", {"host": host, "hold": "gate", "times": 2})
    waiting = [net.begin(host, path) for _ in range(2)]
    entries = net.wait_log(2, host=host)
    equal(sorted(e["parallel"] for e in entries), [1, 2], "hold: both arrived, and are counted")
    ok(all("end" not in e for e in entries), "hold: neither was answered")
    net.tell("release", "gate")
    equal([c.getresponse().read() for c in waiting], [DID.encode()] * 2, "release")
    number = net.tell("fault", {"host": host, "hang": 5})
    connection = net.begin(host, path)
    answer = connection.getresponse()
    equal(answer.read(5), DID.encode()[:5], "hang: what comes before")
    ok("end" not in net.log(host=host)[-1], "hang: it is not over")
    net.tell("unfault", number)
    equal(net.wait_log(1, host=host, end="cut")[0]["fault"], number, "hang: until the fault is gone")


def log(net):
    equal(net.tls("a.example.com"), "a.example.com", "TLS")
    equal(net.tls("b.example.com"), "CERTIFICATE_VERIFY_FAILED", "TLS: another certificate for another name")
    ok(net.wait_log(1, kind="tls"), "the log has what TLS refused")
    entry = net.log(sni="a.example.com")[0]
    equal([entry[k] for k in ("host", "tls", "path")], ["a.example.com", True, "/" + DID], "the log of a TLS request")
    connection = net.begin("l.example.com", "/one", {"User-Agent": "tester"})
    connection.getresponse().read()
    connection.request("GET", "/two", headers={"Host": "l.example.com"})
    connection.getresponse().read()
    connection.close()
    one, two = net.log(host="l.example.com")
    equal((one["path"], one["headers"]["user-agent"], one["status"]), ("/one", "tester", 404), "the log of a request")
    ok(one["connection"] == two["connection"] and one["time"] <= two["time"], "two of one connection")


def names(net):
    did = [["did=" + DID]]
    net.tell(
        "dns",
        {
            "one.x": {"TXT": did},
            "several.x": {"TXT": did + [["v=spf1"], ["did=", OTHER]]},
            "many.x": {"TXT": [["s" * 20] * 300]},
            "big.x": {"TXT": [["did=" + DID]] * 300},
            "cut.x": {"TXT": did, "truncate": True},
            "fail.x": {"rcode": "SERVFAIL"},
            "wrong.x": {"TXT": did, "wrong_id": True},
            "alias.x": {"CNAME": "one.x"},
            "loop.x": {"CNAME": "loop.x"},
            "turn.x": [{"A": ["1.2.3.4"]}, {"A": ["127.0.0.1"], "AAAA": ["::1"]}],
            "quiet.x": [{"silent": True}, {"TXT": did}],
        },
    )
    text = b"did=" + DID.encode()
    record = bytes([len(text)]) + text
    equal(net.dns("one.x"), (0, False, [record], True), "TXT: one")
    equal(len(net.dns("several.x")[2]), 3, "TXT: several")
    equal(net.dns("several.x")[2][2], b"\4did=" + bytes([32]) + OTHER.encode(), "TXT: split strings")
    equal(net.dns("many.x")[:3], (0, True, []), "TXT: too much for UDP")
    equal(len(net.dns("many.x", tcp=True)[2][0]), 300 * 21, "TXT: 300 strings by TCP")
    equal(len(net.dns("big.x", tcp=True)[2]), 300, "TXT: 300 records by TCP")
    equal((net.dns("cut.x")[1:3], net.dns("cut.x", tcp=True)[2]), ((True, []), [record]), "truncated")
    equal((net.dns("fail.x")[0], net.dns("none.x")[0]), (2, 3), "SERVFAIL, NXDOMAIN")
    equal(net.dns("one.x", 1)[:3], (0, False, []), "no record of that type")
    equal(net.dns("wrong.x")[3], False, "a wrong id")
    equal(net.dns("alias.x")[2], [record], "an alias")
    equal(net.dns("loop.x")[2], [], "an alias of itself ends")
    equal([net.dns("turn.x", 1)[2] for _ in range(3)], [[b"\1\2\3\4"]] + [[b"\x7f\0\0\1"]] * 2, "answers that change")
    equal(net.dns("turn.x", 28)[2], [bytes(15) + b"\1"], "AAAA")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.connect(("127.0.0.1", net.ports["dns"]))
        s.send(struct.pack(">HHHHHH", 1, 0, 1, 0, 0, 0) + b"\5quiet\1x\0" + struct.pack(">HH", 16, 1))
        net.wait_log(1, kind="dns", name="quiet.x")
        equal(net.dns("quiet.x")[2], [record], "silence, and then an answer")
        s.setblocking(False)
        try:
            ok(not s.recv(100), "silence")
        except BlockingIOError:
            ok(True, "silence")
    net.tell("reset", None)
    equal(net.dns("one.x")[0], 3, "reset")


JETSTREAM = "jetstream.example.com"


def archives(net):
    rows = []

    def add(kind, did, collection=b"", rkey=b"", payload=b"", gap=1):
        seq = (rows[-1].seq if rows else 0) + gap
        rows.append(segment.Row(seq, 1000 * seq, kind, did, collection, rkey, b"3jzfcijpj2z2a", payload))

    def ask(what, headers=None, body=None):
        return net.get(JETSTREAM, archive.XRPC + what, headers, body)

    def plan(**request):
        status, _, body = ask("planSnapshot", body=json.dumps(request))
        return json.loads(body) if status == 200 else status

    def units(**request):
        return [(s["index"], *([(r["first"], r["last"]) for r in s["blocks"]] if s["mode"] == "blocks" else ["whole"])) for s in plan(**request)["segments"]]

    def do(**what):
        return net.tell("archives", {JETSTREAM: {"do": what}})[JETSTREAM]

    def block(index, number, headers=None):
        return ask(f"getBlock?segment={segment.name_of(index)}&blockIndex={number}", headers)

    a, b, post, like = DID.encode(), OTHER.encode(), b"app.bsky.feed.post", b"app.bsky.feed.like"
    for n in range(10):  # ten blocks of two rows, with numbers that have gaps
        add(segment.CREATE, a, post if n < 9 else like, b"%d" % n, b"\xa0", gap=5)
        add(segment.CREATE if n else segment.IDENTITY, b, post, b"%d" % n, b"\xa0")
    add(segment.UPDATE, a, post, b"1", b"\xa0")
    add(segment.DELETE, a, post, b"2")
    add(segment.SYNC, b)
    add(segment.CREATE_RESYNC, b, post, b"0", b"\xa0")
    add(segment.ACCOUNT, a, payload=b"\xa1\x66active\xf5")
    file = os.path.join(net.cars, "rows")
    with open(file, "w", encoding="ascii") as f:
        f.writelines(archive.line_of(r) + "\n" for r in rows)

    status, _, _ = ask("planSnapshot", body="{}")
    equal(status, 404, "a host without an archive")
    state = net.tell("archives", {JETSTREAM: {"rows": file, "block_rows": 2, "segment_blocks": 5, "whole": 0.9}})[JETSTREAM]
    equal((state["open"], state["segments"]), (25, []), "nothing is sealed")
    equal(plan(), {"sealedTipSeq": 0, "plannedThroughSeq": 0, "segments": [], "stats": {"segmentsExamined": 0, "segmentsMatched": 0, "blocksMatched": 0, "entries": 0}}, "the plan of an empty archive")
    equal((len(do(seal=1)["segments"]), plan()["sealedTipSeq"]), (1, rows[9].seq), "a segment is sealed")
    state = do(seal=None)
    equal((state["open"], [s["rows"] for s in state["segments"]]), (5, [[2] * 5] * 2), "as many as are full")
    state = do(seal=0)
    equal((state["open"], state["segments"][2]["rows"], plan()["plannedThroughSeq"]), (0, [2, 2, 1], rows[-1].seq), "and the rest")

    equal(units(), [(0, "whole"), (1, "whole"), (2, "whole")], "the plan for everything")
    equal(units(collections=["app.bsky.feed.like"], kinds=["commit"]), [(1, (4, 4))], "a collection alone")
    equal(units(collections=["app.bsky.feed.like"]), [(0, (0, 0)), (1, (4, 4)), (2, (1, 2))], "with the markers of anybody")
    equal(units(collections=["app.*"], dids=[OTHER], kinds=["commit", "sync"]), [(0, (1, 4)), (1, "whole"), (2, (1, 1))], "an account, and a pattern")
    equal(units(afterSeq=rows[3].seq, beforeSeq=rows[6].seq), [(0, (2, 3))], "numbers, with rows outside of them")
    equal([plan(afterSeq=5, beforeSeq=5), plan(kinds=["other"]), plan(collections=["a.b.c"], kinds=["sync"]), plan(dids=[DID] * 10001)], [400] * 4, "requests that are refused")
    do(set={"page": 2, "generous": 3})
    pages, after = [], 0
    while after < rows[-1].seq:
        page = plan(afterSeq=after, beforeSeq=rows[-1].seq, collections=["app.bsky.feed.like"], kinds=["commit"])
        pages.append([(s["index"], [(r["first"], r["last"]) for r in s["blocks"]]) for s in page["segments"]])
        ok(page["plannedThroughSeq"] > after and page["stats"]["entries"] <= 2, f"a page up to {page['plannedThroughSeq']}")
        after = page["plannedThroughSeq"]
    equal(pages, [[(0, [(0, 0), (3, 3)])], [(1, [(0, 0), (3, 4)])], [(2, [(0, 0)])]], "small pages, with blocks in which nothing fits")
    do(set={"page": 100, "generous": 0})

    status, headers, body = ask("getSegment?name=" + segment.name_of(0))
    tag = headers["ETag"]
    equal((status, body, tag), (200, segment.segment_of([rows[i : i + 2] for i in range(0, 10, 2)]), f'"{plan()["segments"][0]["checksum"]}"'), "a segment")
    equal(block(1, 3)[2], segment.frame_of(segment.block_of(rows[16:18])), "a block")
    equal(block(1, 3)[1]["ETag"], '"%s:3"' % plan()["segments"][1]["checksum"], "its ETag")
    equal([block(7, 0)[0], block(0, 5)[0], block(0, "x")[0], ask("getSegment?name=../seg")[0]], [404, 404, 400, 400], "none of these")
    status, headers, part = ask("getSegment?name=" + segment.name_of(0), {"Range": "bytes=100-199", "If-Range": tag})
    equal((status, part, headers["Content-Range"]), (206, body[100:200], f"bytes 100-199/{len(body)}"), "a range")
    equal(ask("getSegment?name=" + segment.name_of(0), {"Range": f"bytes={len(body)}-"})[0], 416, "a range behind the end")
    equal(block(0, 0, {"If-None-Match": block(0, 0)[1]["ETag"]})[0::2], (304, b""), "what is there already")
    listed = json.loads(ask("listSegments?limit=2")[2])
    equal(([s["sizeBytes"] for s in listed["segments"]][0], listed["cursor"]), (len(body), "2"), "the list")

    do(before=2, compact=rows[20].seq)
    equal(ask("getSegment?name=" + segment.name_of(0), {"Range": "bytes=0-99", "If-Range": tag})[0], 206, "a request, before which nothing is compacted")
    status, headers, body = ask("getSegment?name=" + segment.name_of(0), {"Range": "bytes=100-199", "If-Range": tag})
    equal((status, headers["ETag"] == tag, int.from_bytes(body[18:22], "little")), (200, False, 9), "the next one gets a new generation, whole")
    state = do(compact=None)
    equal([s["rows"] for s in state["segments"]], [[2, 0, 0, 1, 1], [1] * 5, [2, 2, 1]], "compaction of everything: blocks stay, also empty ones")
    equal(json.loads(ask("listSegments")[2])["segments"][1]["maxSeq"], rows[19].seq, "as do the bounds")
    do(set={"lag": 2})
    equal(ask("getSegment?name=" + segment.name_of(0))[1]["ETag"], tag, "old generations")
    ok(plan()["segments"][0]["checksum"] != tag.strip('"'), "which the plan does not know")
    do(set={"lag": 0, "token": "secret"})
    equal((plan(), ask("listSegments", {"Authorization": "Bearer other"})[0], ask("listSegments", {"Authorization": "Bearer secret"})[0]), (401, 401, 200), "a token")
    do(set={"token": None, "unavailable": True})
    equal(plan(), 503, "unavailable")
    do(set={"unavailable": False, "etag": False})
    ok("ETag" not in block(0, 0)[1], "no ETag")
    n = len(net.log(kind="http", host=JETSTREAM))
    net.tell("fault", {"host": JETSTREAM, "path": "getBlock", "after": 1, "times": 1, "xor": 20})
    equal(len({block(0, 0)[2] for _ in range(3)}), 2, "a fault at the second block")
    plan(afterSeq=1)
    equal([e.get("body") for e in net.log(kind="http", host=JETSTREAM)[n:]], [None] * 3 + ['{"afterSeq": 1}'], "the log has what was asked")
    net.tell("reset", None)


def main():
    with tempfile.TemporaryDirectory() as folder:
        net = Network(folder)
        for part in (documents, repositories, archives, faults, gates, log, names):
            print(f"# {part.__name__}")
            part(net)
        net.process.stdin.close()
        equal(net.process.wait(TIMEOUT), 0, "it ends with its standard input")
    print(f"1..{count}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
