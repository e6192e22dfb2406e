"""The server's side of a WebSocket (RFC 6455) for the simulated directory: frames out, and what the client sends."""

import base64
import hashlib
import select
import socket
import struct

TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10


def accept(key):
    """The value of Sec-WebSocket-Accept."""
    return base64.b64encode(hashlib.sha1((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()).decode()


def head(opcode, size, final=True):
    first = opcode | final << 7
    if size < 126:
        return bytes([first, size])
    if size < 1 << 16:
        return struct.pack(">BBH", first, 126, size)
    return struct.pack(">BBQ", first, 127, size)


def frame(opcode, body, final=True):
    return head(opcode, len(body), final) + body


def fragments(body, n):
    """A text message in frames of so many bytes."""
    parts = [body[at : at + n] for at in range(0, len(body), n)] or [b""]
    for at, part in enumerate(parts):
        yield frame(TEXT if at == 0 else 0, part, at == len(parts) - 1)


def close(code, reason):
    return frame(CLOSE, struct.pack(">H", code) + reason.encode() if code else b"")


class Peer:
    """The client of a stream: frames to it, and what comes from it, in one thread (TLS connections allow no other way)."""

    def __init__(self, connection):
        self.connection, self.data, self.bytes = connection, b"", 0
        self.ended = None  # "closed" (with a close frame), "gone"
        self.mine, self.theirs = socket.socketpair()

    def send(self, data):
        self.connection.sendall(data)
        self.bytes += len(data)

    def wake(self):
        """Ends wait(), from another thread."""
        self.theirs.send(b"!")

    def wait(self, seconds):
        """Until something comes, wake(), or the time is over.  Pings are answered, a close frame is noted."""
        readable = select.select([self.connection, self.mine], [], [], seconds)[0]
        if self.mine in readable:
            self.mine.recv(4096)
        if self.connection in readable and self.ended is None:
            try:
                got = self.connection.recv(65536)
            except OSError:
                got = b""
            self.data += got
            while self.take():
                pass
            if not got:
                self.ended = self.ended or "gone"

    def take(self):
        """One frame of what has come; false: there is no whole one."""
        data = self.data
        if len(data) < 2:
            return False
        size, at = data[1] & 127, 2
        if size > 125:
            at += 2 if size == 126 else 8
            size = int.from_bytes(data[2:at], "big")
        mask = data[at : at + 4] if data[1] & 128 else bytes(4)
        at += 4 if data[1] & 128 else 0
        if len(data) < at + size:
            return False
        body = bytes(b ^ mask[i % 4] for i, b in enumerate(data[at : at + size]))
        self.data = data[at + size :]
        if data[0] & 15 == PING:
            self.send(frame(PONG, body))
        elif data[0] & 15 == CLOSE:
            self.ended = "closed"
        return True

    def end(self):
        self.mine.close()
        self.theirs.close()
