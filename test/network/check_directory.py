#!/usr/bin/python3
"""Tries the simulated did:plc directory of the network, with clients of its own; prints TAP.

check_directory.py: the log it serves is made by test/oracle/plc.py.
"""

import json
import os
import socket
import ssl
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

import check_network  # noqa: E402
from check_network import equal, ok  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
HOST = "plc.example.com"


class Stream:
    """A WebSocket client."""

    def __init__(self, net, path, tls=False):
        raw = socket.create_connection(("127.0.0.1", net.ports["https" if tls else "http"]), check_network.TIMEOUT)
        if tls:
            context = ssl.create_default_context(cafile=net.ca)
            context.check_hostname = False
            raw = context.wrap_socket(raw, server_hostname=HOST)
        self.socket = raw
        raw.sendall(
            f"GET {path} HTTP/1.1\r\nHost: {HOST}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n".encode()
        )
        self.file = raw.makefile("rb")
        self.status = int(self.file.readline().split()[1])
        self.headers = {}
        while (line := self.file.readline().decode().strip()) != "":
            name, _, value = line.partition(": ")
            self.headers[name] = value

    def frame(self):
        """(opcode, final, payload); None: the connection is over."""
        head = self.file.read(2)
        if len(head) < 2:
            return None
        size = head[1] & 127
        if size > 125:
            size = int.from_bytes(self.file.read(2 if size == 126 else 8), "big")
        return head[0] & 15, bool(head[0] & 128), self.file.read(size)

    def lines(self, n):
        return [json.loads(self.frame()[2]) for _ in range(n)]

    def end(self):
        """The close frame's code and reason."""
        while (frame := self.frame()) and frame[0] != 8:
            pass
        return frame and (int.from_bytes(frame[2][:2], "big"), frame[2][2:].decode())

    def send(self, opcode, body=b""):
        mask = b"\1\2\3\4"
        self.socket.sendall(bytes([128 | opcode, 128 | len(body)]) + mask + bytes(b ^ mask[i % 4] for i, b in enumerate(body)))

    def close(self):
        self.file.close()
        self.socket.close()


def lines_of(body):
    return [json.loads(line) for line in body.split(b"\n")] if body else []


def pages(net, log):
    """All pages: the log, in its order; the last page is empty."""
    found, after = [], 0
    while got := lines_of(net.get(HOST, f"/export?after={after}&count=70")[2]):
        found += got
        after = got[-1]["seq"]
    equal([line["seq"] for line in found], [line["seq"] for line in log], "pages have every entry once, in order")
    want = {"type", "seq", "did", "operation", "cid", "createdAt"}
    ok(all(line.keys() == want and line["type"] == "sequenced_op" for line in found), "an entry's members")
    equal(len(lines_of(net.get(HOST, "/export?after=0")[2])), min(1000, len(log)), "without count: up to 1,000")
    status, headers, body = net.get(HOST, "/export?after=0&count=2")
    equal((status, headers["Content-Type"], body.count(b"\n")), (200, "application/jsonlines", 1), "no line feed at the end")
    equal(lines_of(net.get(HOST, f"/export?after={log[-1]['seq'] + 5}")[2]), [], "after the end: nothing, and no error")
    for query in ("count=0", "count=x", "after=x", "count=-1&after=0"):
        equal(net.get(HOST, "/export?" + query)[0], 400, f"refused: {query}")
    return found


def legacy(net, log):
    status, _, body = net.get(HOST, "/export?count=5")
    first = lines_of(body)
    equal(set(first[0]), {"did", "operation", "cid", "createdAt", "nullified"}, "without after: the former form")
    equal([e["createdAt"] for e in first], sorted(e["createdAt"] for e in log)[:5], "... in the order of createdAt")
    after = first[-1]["createdAt"]
    rest = lines_of(net.get(HOST, f"/export?after={after}")[2])
    ok(rest[0]["createdAt"] > after, "... and goes on after a time")
    marks = sum(len(line["nullifies"]) for line in log)
    everything = lines_of(net.get(HOST, "/export?count=1000")[2])
    equal(sum(entry["nullified"] for entry in everything), marks, "... with what was nullified")
    ok(marks > 0, "something was nullified")


def accounts(net, log):
    by_did = {}
    for line in log:
        by_did.setdefault(line["did"], []).append(line)
    gone = {cid for line in log for cid in line["nullifies"]}
    did, entries = next((did, of) for did, of in by_did.items() if any(line["nullifies"] for line in of))
    status, audit = net.json(HOST, f"/{did}/log/audit")
    equal([(e["cid"], e["nullified"]) for e in audit], [(e["cid"], e["cid"] in gone) for e in entries], "/log/audit")
    equal(set(audit[0]), {"did", "operation", "cid", "createdAt", "nullified"}, "... and its members")
    present = [e["operation"] for e in entries if e["cid"] not in gone]
    equal(net.json(HOST, f"/{did}/log")[1], present, "/log: the chain that holds")
    equal(net.json(HOST, f"/{did}/log/last")[1], present[-1], "/log/last")
    last = {did: [e for e in of if e["cid"] not in gone][-1]["operation"] for did, of in by_did.items()}
    did, operation = next((did, of) for did, of in last.items() if of["type"] == "plc_operation" and of["services"])
    data = net.json(HOST, f"/{did}/data")[1]
    equal(data, {"did": did, **{k: v for k, v in operation.items() if k not in ("type", "prev", "sig")}}, "/data")
    document = net.json(HOST, f"/{did}")[1]
    equal((document["id"], document["alsoKnownAs"]), (did, operation["alsoKnownAs"]), "the document")
    equal([of["serviceEndpoint"] for of in document["service"]], [of["endpoint"] for of in operation["services"].values()], "... its services")
    did = next(did for did, of in last.items() if of["type"] == "plc_tombstone")
    equal(net.json(HOST, f"/{did}"), (404, {"message": f"DID not available: {did}"}), "a tombstone")
    equal(net.json(HOST, f"/{did}/data"), (404, {"message": f"DID not available: {did}"}), "... its data")
    ok(len(net.json(HOST, f"/{did}/log")[1]) > 0, "... its log is there")
    did = "did:plc:" + "x" * 24
    equal(net.json(HOST, f"/{did}/log/audit"), (404, {"message": f"DID not registered: {did}"}), "an unknown account")


def stream(net, log, tell):
    half = log[len(log) // 2]["seq"]
    before = [line for line in log if line["seq"] <= half]
    tell({"file": log, "upto": half})
    for tls in (False, True):
        s = Stream(net, "/export/stream?cursor=0", tls)
        equal((s.status, s.headers["Sec-WebSocket-Accept"]), (101, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), f"a stream begins, tls {tls}")
        equal([line["seq"] for line in s.lines(len(before))], [line["seq"] for line in before], "all after the cursor")
        s.send(9, b"are you there")
        equal(s.frame(), (10, True, b"are you there"), "a ping is answered")
        net.tell("directories", {HOST: {"do": {"publish": log[len(before)]["seq"]}}})
        equal(s.lines(1)[0]["seq"], log[len(before)]["seq"], "what is published comes")
        s.send(8, b"\x03\xe8")
        equal(s.end(), (1000, ""), "the client's end is answered")
        s.close()
        tell({"file": log, "upto": half})
    s = Stream(net, "/export/stream")
    while net.tell("directories", {HOST: {"do": {}}})[HOST]["streams"] == 0:
        pass
    net.tell("directories", {HOST: {"do": {"publish": None}}})
    equal(s.lines(1)[0]["seq"], log[len(before)]["seq"], "without cursor: from now on")
    s.close()
    equal(Stream(net, f"/export/stream?cursor={log[-1]['seq'] + 1}").end(), (1000, "FutureCursor"), "a cursor of the future")
    s = Stream(net, f"/export/stream?cursor={log[-1]['seq']}")
    s.send(9)
    equal(s.frame()[0], 10, "the newest is none")
    s.close()
    net.tell("directories", {HOST: {"do": {"set": {"oldest": log[10]["seq"]}}}})
    equal(Stream(net, f"/export/stream?cursor={log[8]['seq']}").end(), (1000, "OutdatedCursor"), "a cursor of long ago")
    s = Stream(net, f"/export/stream?cursor={log[9]['seq']}")
    equal(s.lines(1)[0]["seq"], log[10]["seq"], "the oldest that can be had")
    s.close()
    equal(Stream(net, "/export/stream?cursor=x").status, 400, "a cursor that is no number")
    equal(net.get(HOST, "/export/stream")[0], 426, "without WebSocket")
    ended = net.wait_log(1, end="1000 OutdatedCursor")[0]
    equal((ended["status"], ended["path"]), (101, f"/export/stream?cursor={log[8]['seq']}"), "the log of a stream")


def page_changes(net, log, tell):
    tell({"file": log})
    seqs = [line["seq"] for line in log[:6]]

    def page(**change):
        net.tell("directories", {HOST: {"do": {"forget": True, "change": change}}})
        return net.get(HOST, "/export?after=0&count=6")[2]

    def changed(**change):
        return [line["seq"] for line in lines_of(page(**change))]

    body = page(what="cut", line=3)
    ok(lines_of(b"\n".join(body.split(b"\n")[:-1])) and body.count(b"\n") == 3, "cut within a line")
    equal(changed(what="empty"), [], "an empty page, and the log is not over")
    equal(changed(), seqs, "the next is as it should be")
    equal(changed(what="short", line=2), seqs[:2], "fewer lines")
    equal(changed(what="drop", line=2, count=2), seqs[:2] + seqs[4:], "lines are left out")
    equal(changed(what="repeat", line=1), seqs[:2] + seqs[1:], "a line comes twice")
    equal(changed(what="swap", line=1), [seqs[0], seqs[2], seqs[1], *seqs[3:]], "two change places")
    equal(changed(what="reverse"), seqs[::-1], "the other way round")
    equal(changed(what="same_seq", line=1), [*seqs[:2], seqs[1], *seqs[3:]], "two with one number")
    equal(changed(what="seq", line=2, value=0), [*seqs[:2], 0, *seqs[3:]], "a number that goes back")
    equal(lines_of(page(what="did", line=2, value="did:plc:x"))[2]["did"], "did:plc:x", "another account's")
    equal(lines_of(page(what="cid", line=-1, value="x"))[5]["cid"], "x", "another CID; from behind")
    ok("cid" not in lines_of(page(what="without", line=0, value="cid"))[0], "a member is absent")
    equal(lines_of(page(what="type", line=0))[0]["type"], "another_type", "a line of another type")
    ok(b"\n{\n" in page(what="line", line=1, value="{"), "any line")
    ok(page(what="html").startswith(b"<html"), "a page that is none")
    equal(len(page(what="long", line=1, size=3)) >> 20, 3, "a line of some megabytes")
    equal(page(what="line_feed")[-1:], b"\n", "a line feed at the end")
    net.tell("directories", {HOST: {"do": {"forget": True, "change": {"what": "empty", "nth": 2, "times": 2}}}})
    equal([len(net.get(HOST, "/export?after=0&count=3")[2]) > 0 for _ in range(4)], [True, False, False, True], "nth, times")
    number = net.tell("fault", {"host": HOST, "path": "^/export", "status": 429, "headers": {"Retry-After": "1"}, "times": 1})
    equal([net.get(HOST, "/export?after=0&count=3")[0] for _ in range(2)], [429, 200], "and any fault of the network")
    net.tell("unfault", number)


def stream_changes(net, log, tell):
    tell({"file": log})
    seqs = [line["seq"] for line in log]

    def begin(**change):
        net.tell("directories", {HOST: {"do": {"forget": True, "change": {"on": "stream", **change}}}})
        return Stream(net, "/export/stream?cursor=0")

    s = begin(what="close", line=3, code=1000, reason="ConsumerTooSlow")
    equal(([line["seq"] for line in s.lines(3)], s.end()), (seqs[:3], (1000, "ConsumerTooSlow")), "an end after some")
    s = begin(what="reset", line=2)
    equal(([line["seq"] for line in s.lines(2)], s.frame()), (seqs[:2], None), "an end without a close frame")
    s = begin(what="drop", line=550)
    equal([line["seq"] for line in s.lines(560)], seqs[:550] + seqs[551:561], "left out, far behind")
    s.close()
    s = begin(what="binary", line=1)
    equal([s.frame()[0] for _ in range(3)], [1, 2, 1], "a binary message")
    s.close()
    s = begin(what="fragments", line=0)
    equal(s.frame()[:2], (1, False), "a message in parts")
    s.close()
    s = begin(what="large", line=1, size=2)
    equal([len(s.frame()[2]) >> 20 for _ in range(3)], [0, 2, 0], "a large message")
    s.close()


def others(net, log, tell):
    """What an operator does, and a second directory."""
    tell({"file": log})
    wrong = log[7]["did"]
    net.tell("directories", {HOST: {"do": {"remove": {"did": wrong}}}})
    ok(wrong not in {line["did"] for line in lines_of(net.get(HOST, "/export?after=0")[2])}, "an account's log is removed")
    tell({"file": log, "renumber": (5, 3)})
    equal([line["seq"] for line in lines_of(net.get(HOST, "/export?after=0&count=3")[2])], [5, 8, 11], "other numbers")
    net.tell("documents", {log[0]["did"]: {"id": "told"}})
    equal(net.json(HOST, "/" + log[0]["did"])[1], {"id": "told"}, "a document that was told comes first")
    net.tell("directories", {HOST: None})
    equal(net.get(HOST, "/export?after=0")[0], 404, "the directory is taken away")


def main():
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "log")
        subprocess.run([sys.executable, "-B", os.path.join(HERE, "../oracle/plc.py"), "export", file, "--operations", "700"], check=True)
        with open(file, encoding="ascii") as f:
            log = [json.loads(line) for line in f]
        net = check_network.Network(folder)

        def tell(what):
            renumber = what.get("renumber")
            net.tell("directories", {HOST: {"log": file, **{k: v for k, v in what.items() if k == "upto"}}})
            if renumber:
                net.tell("directories", {HOST: {"do": {"renumber": renumber}}})

        tell({})
        pages(net, log)
        legacy(net, log)
        accounts(net, log)
        for part in (stream, page_changes, stream_changes, others):
            part(net, log, tell)
        net.process.stdin.close()
        net.process.wait()
    print(f"1..{check_network.count}")
    sys.exit(min(check_network.failed, 1))


if __name__ == "__main__":
    main()
