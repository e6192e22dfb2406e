"""The name server of the fake network: UDP and TCP on one port, answers as a test tells them.

What is known of a name is a dict: record types with their values ("TXT": lists of strings, each the strings of
one record; "A", "AAAA": addresses; "CNAME": a name) and faults ("rcode": a number or name, "silent", "wrong_id",
"truncate": UDP says that TCP has the rest, "garbage": no DNS message, "others": [[owner, class, string], …], TXT records
before all others, of any name and class).  A list of such dicts is taken one a query;
the last stays.  A name that is not known is NXDOMAIN.
"""

import os
import socket
import socketserver
import struct
import threading

TYPES = {"A": 1, "NS": 2, "CNAME": 5, "SOA": 6, "TXT": 16, "AAAA": 28, "OPT": 41}
NAMES = {number: name for name, number in TYPES.items()}
RCODES = {"NOERROR": 0, "FORMERR": 1, "SERVFAIL": 2, "NXDOMAIN": 3, "NOTIMP": 4, "REFUSED": 5}


def encode_name(name):
    out = b""
    for label in name.rstrip(".").split("."):
        raw = label.encode("latin-1")
        if raw:
            out += bytes([len(raw)]) + raw
    return out + b"\0"


def encode_data(kind, value):
    if kind == "TXT":
        strings = [value] if isinstance(value, str) else value
        return b"".join(bytes([len(s.encode())]) + s.encode() for s in strings)
    if kind == "A":
        return socket.inet_aton(value)
    if kind == "AAAA":
        return socket.inet_pton(socket.AF_INET6, value)
    return encode_name(value)


def question(message):
    """Name, type and the bytes of the first question."""
    labels, at = [], 12
    while message[at]:
        labels.append(message[at + 1 : at + 1 + message[at]].decode("latin-1"))
        at += 1 + message[at]
    kind = struct.unpack_from(">H", message, at + 1)[0]
    return ".".join(labels).lower(), kind, message[12 : at + 5]


class Names:
    """What the server knows, and the log of what it was asked."""

    def __init__(self, log):
        self.lock = threading.Lock()
        self.names = {}
        self.asked = {}
        self.log = log

    def tell(self, names):
        with self.lock:
            for name, known in names.items():
                self.names[name.lower()] = known
                self.asked.pop(name.lower(), None)

    def reset(self):
        with self.lock:
            self.names, self.asked = {}, {}

    def known(self, name, count=True):
        with self.lock:
            known = self.names.get(name)
            if isinstance(known, list):
                n = self.asked.get(name, 0)
                self.asked[name] = n + count
                known = known[min(n, len(known) - 1)]
            return known

    def records(self, name, kind):
        """The records of an answer, aliases followed (a loop is told a few times)."""
        found = []
        for _ in range(8):
            known = self.known(name, count=not found) or {}
            found += [(name, NAMES.get(kind), value) for value in known.get(NAMES.get(kind), [])]
            if "CNAME" not in known or kind == TYPES["CNAME"]:
                break
            found.append((name, "CNAME", known["CNAME"]))
            name = known["CNAME"].lower()
        return found

    def answer(self, message, tcp):
        """The answer's bytes, or None where there is silence."""
        if len(message) < 17:
            return None
        name, kind, asked = question(message)
        self.log.add({"kind": "dns", "name": name, "type": NAMES.get(kind, kind), "tcp": tcp})
        with self.lock:
            there = name in self.names
        known = self.known(name, count=False) or {}
        if known.get("silent"):
            self.known(name)
            return None
        if known.get("garbage"):
            return os.urandom(40)
        rcode = known.get("rcode", 0 if there else "NXDOMAIN")
        rcode = RCODES.get(rcode, rcode)
        records = self.records(name, kind) if there else []
        truncated = bool(known.get("truncate")) and not tcp
        body = b""
        for owner, record, value in [] if truncated or rcode else records:
            data = encode_data(record, value)
            body += encode_name(owner) + struct.pack(">HHIH", TYPES[record], 1, 0, len(data)) + data
        if len(body) > 1200 and not tcp:
            truncated, body = True, b""
        number = struct.unpack_from(">H", message)[0] ^ (0x5555 if known.get("wrong_id") else 0)
        flags = 0x8180 | (0x0200 if truncated else 0) | rcode
        count = len(records) if body else 0
        for owner, kind_class, value in known.get("others", []):
            data = encode_data("TXT", value)
            body = encode_name(owner) + struct.pack(">HHIH", TYPES["TXT"], kind_class, 0, len(data)) + data + body
            count += 1
        return struct.pack(">HHHHHH", number, flags, 1, count, 0, 0) + asked + body


class Udp(socketserver.BaseRequestHandler):
    def handle(self):
        message, sock = self.request
        reply = self.server.names.answer(message, False)
        if reply is not None:
            sock.sendto(reply, self.client_address)


class Tcp(socketserver.StreamRequestHandler):
    def handle(self):
        while len(head := self.rfile.read(2)) == 2:
            reply = self.server.names.answer(self.rfile.read(struct.unpack(">H", head)[0]), True)
            if reply is not None:
                self.wfile.write(struct.pack(">H", len(reply)) + reply)


class UdpServer(socketserver.ThreadingUDPServer):
    daemon_threads = True
    max_packet_size = 65535


class TcpServer(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True


def serve(names):
    """Starts both on one free port, which is returned."""
    while True:
        tcp = TcpServer(("127.0.0.1", 0), Tcp)
        try:
            udp = UdpServer(tcp.server_address, Udp)
            break
        except OSError:
            tcp.server_close()
    for server in (tcp, udp):
        server.names = names
        threading.Thread(target=server.serve_forever, daemon=True).start()
    return tcp.server_address[1]
