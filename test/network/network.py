#!/usr/bin/python3
"""A network for tests: PLC directory, did:web and handle servers, PDSs, relays and a name server in one program.

Python's standard library only.  README.md says what it serves and how a test tells it what; AtprotoTest::Network
starts it.
"""

import argparse
import http.server
import json
import os
import signal
import socket
import socketserver
import ssl
import sys
import threading
import time
import urllib.parse

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

import directory  # noqa: E402
import dns  # noqa: E402
from answers import World  # noqa: E402
from faults import Faults, Stop, send  # noqa: E402


class Log:
    """Each request, in the order of arrival; an entry is completed when the answer has been sent."""

    def __init__(self):
        self.lock = threading.Lock()
        self.entries = []

    def add(self, entry):
        with self.lock:
            self.entries.append({"n": len(self.entries), "time": time.time(), **entry})
            return self.entries[-1]

    def find(self, since=0, **want):
        """Of the entries from a number on, as JSON, those with these members."""
        with self.lock:
            return json.dumps([e for e in self.entries[int(since) :] if all(e.get(name) == value for name, value in want.items())]).encode()


class Network:
    """All that the servers share."""

    def __init__(self, cars):
        self.log = Log()
        self.world = World(cars)
        self.faults = Faults()
        self.names = dns.Names(self.log)
        self.lock = threading.Lock()
        self.connections = 0
        self.running = {}

    def connected(self):
        with self.lock:
            self.connections += 1
            return self.connections

    def begin(self, host):
        """How many requests the host serves now, this one included."""
        with self.lock:
            self.running[host] = self.running.get(host, 0) + 1
            return self.running[host]

    def end(self, host):
        with self.lock:
            self.running[host] -= 1


class Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 1024

    def __init__(self, handler, network, tls=None):
        super().__init__(("127.0.0.1", 0), handler)
        self.network = network
        self.tls = tls

    def shutdown_request(self, request):
        """The handler has closed it."""

    def handle_error(self, request, client_address):
        """A client that goes away is nothing to speak of."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


class Handler(http.server.BaseHTTPRequestHandler):
    """One connection of a client that is tested."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def setup(self):
        self.number = self.server.network.connected()
        self.sni = None
        self.failed = None
        if self.server.tls:
            try:
                self.request = self.server.tls.wrap_socket(self.request, server_side=True)
                self.sni = self.request.context.asked.pop(id(self.request), None)
            except OSError as e:
                self.failed = str(e)
                self.server.network.log.add({"kind": "tls", "connection": self.number, "error": self.failed})
        super().setup()

    def handle(self):
        if self.failed is None:
            super().handle()

    def finish(self):
        super().finish()
        self.request.close()  # at once, and with a reset where one was asked for

    def tunnel(self, port):
        """All that comes goes to a stream server, and back."""

        def copy(source, sink):
            try:
                while data := source.recv(65536):
                    sink.sendall(data)
                sink.shutdown(socket.SHUT_WR)
            except OSError:
                pass

        self.close_connection = True
        with socket.create_connection(("127.0.0.1", port)) as stream:
            lines = [self.requestline, *(f"{name}: {value}" for name, value in self.headers.items()), "", ""]
            stream.sendall("\r\n".join(lines).encode("latin-1"))
            back = threading.Thread(target=copy, args=(stream, self.request), daemon=True)
            back.start()
            copy(self.request, stream)
            back.join()

    def do_GET(self):
        network = self.server.network
        host = (self.headers.get("Host") or "").rsplit(":", 1)[0].lower()
        if self.headers.get("Upgrade", "").lower() == "websocket" and not self.server.tls and network.world.stream(host):
            self.tunnel(network.world.stream(host))
            return
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers = {name.lower(): value for name, value in self.headers.items()}
        entry = network.log.add(
            {
                "kind": "http",
                "connection": self.number,
                "sni": self.sni,
                "tls": self.server.tls is not None,
                "host": host,
                "method": self.command,
                "path": self.path,
                "headers": headers,
                **({"body": body.decode(errors="replace")} if body else {}),
                "parallel": network.begin(host),
            }
        )
        how, sent = "broken", 0
        try:
            fault = network.faults.find(host, self.path)
            if fault:
                entry["fault"] = fault["id"]
            stream = network.world.directory(host, self.path.partition("?")[0]) if "websocket" in headers.get("upgrade", "") else None
            if stream and not fault:
                self.close_connection = True
                raise Stop(*directory.serve_stream(stream, self, entry))
            answer = network.world.answer(host, self.path, {"method": self.command, "headers": headers, "body": body})
            entry["status"] = answer.status
            sent, keep = send(self.request, answer, fault, network.faults)
            entry["status"], how = answer.status, "sent"
            self.close_connection = not keep
        except Stop as stop:
            how, sent = stop.args
            self.close_connection = True
        except OSError:
            self.close_connection = True
        finally:
            network.end(host)
            entry.update({"end": how, "bytes": sent, "seconds": time.time() - entry["time"]})

    do_HEAD = do_POST = do_GET

    def log_message(self, *args):
        """The log is the network's."""


class Control(http.server.BaseHTTPRequestHandler):
    """What tests tell and ask."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def finish(self):
        super().finish()
        self.request.close()

    def reply(self, body, status=200):
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        path, _, query = self.path.partition("?")
        network = self.server.network
        if path == "/log":
            self.reply(network.log.find(**dict(urllib.parse.parse_qsl(query))))
        elif path == "/faults":
            self.reply(json.dumps(network.faults.faults).encode())
        else:
            self.reply(b'{"error":"unknown"}', 404)

    def do_POST(self):
        network = self.server.network
        what = self.path[1:]
        value = json.loads(self.rfile.read(int(self.headers["Content-Length"])) or b"null")
        result = None
        if what in ("documents", "handles", "repos", "hosts"):
            network.world.tell(what, value)
        elif what == "archives":
            result = network.world.tell_archives(value)
        elif what == "directories":
            result = network.world.tell_directories(value)
        elif what == "dns":
            network.names.tell(value)
        elif what == "fault":
            result = network.faults.add(value)
        elif what == "unfault":
            network.faults.remove(value)
        elif what == "release":
            network.faults.release(value)
        elif what == "reset":
            network.faults.remove(None)
            network.world.reset()
            network.names.reset()
        else:
            return self.reply(b'{"error":"unknown"}', 404)
        return self.reply(json.dumps(result).encode())

    def log_message(self, *args):
        """Nothing."""


def tls_context(pairs):
    """A context that has each name's own certificate (NAME=CERT,KEY), and the first one for all others."""
    contexts, default = {}, None
    for pair in pairs:
        name, _, files = pair.rpartition("=")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*files.split(","))
        context.set_alpn_protocols(["http/1.1"])
        default = default or context
        contexts[name] = context
    default.asked = {}

    def choose(connection, name, _):
        default.asked[id(connection)] = name
        if name in contexts:
            contexts[name].asked = default.asked
            connection.context = contexts[name]

    default.sni_callback = choose
    return default


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tls", action="append", default=[], metavar="[NAME=]CERT,KEY")
    parser.add_argument("--cars", help="directory with HOST/DID.car and HOST/DID.json")
    parser.add_argument("--port-file", help="where the ports go, as JSON")
    parser.add_argument("--exit-on-eof", action="store_true")
    options = parser.parse_args()

    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    network = Network(options.cars)
    servers = {"http": Server(Handler, network), "control": Server(Control, network)}
    if options.tls:
        servers["https"] = Server(Handler, network, tls_context(options.tls))
    ports = {name: server.server_address[1] for name, server in servers.items()}
    ports["dns"] = dns.serve(network.names)
    for server in servers.values():
        threading.Thread(target=server.serve_forever, daemon=True).start()
    if options.port_file:
        with open(options.port_file + ".new", "w", encoding="ascii") as f:
            json.dump(ports, f)
        os.rename(options.port_file + ".new", options.port_file)
    print(json.dumps(ports), flush=True)
    if options.exit_on_eof:
        sys.stdin.read()
    else:
        threading.Event().wait()
    os._exit(0)  # whatever still hangs


if __name__ == "__main__":
    main()
