"""Captures, messages, CAR files and CIDs: from bytes to Python values.

Shares nothing with the extension: CBOR is read by python3-cbor2, strictness is
checked by encoding again.
"""

import base64
import gzip
import hashlib
import io
import struct

import cbor2


class Malformed(Exception):
    """Something on the wire is not what it should be; str() is its class."""


def messages(path):
    """The messages of a capture file, plain or gzip: repeated [u32 BE length][bytes]."""
    opener = gzip.open if open(path, "rb").read(2) == b"\x1f\x8b" else open
    with opener(path, "rb") as f:
        while head := f.read(4):
            (length,) = struct.unpack(">I", head)
            message = f.read(length)
            if len(message) != length:
                raise SystemExit(f"{path}: cut off inside a message")
            yield message


def decode(data, strict=True):
    """One DAG-CBOR value; Malformed("cbor") when it is none, or not canonical."""
    try:
        value = cbor2.loads(data)
        check_types(value)
        # Canonical CBOR has the shortest floats where DAG-CBOR has 64 bits.
        if strict and not has_float(value) and cbor2.dumps(value, canonical=True) != data:
            raise Malformed("cbor")
    except (cbor2.CBORError, ValueError, OverflowError, RecursionError):
        raise Malformed("cbor") from None
    return value


def frame(message):
    """A message is two objects, header and payload, and nothing else."""
    stream = io.BytesIO(message)
    try:
        header, payload = cbor2.load(stream), cbor2.load(stream)
    except (cbor2.CBORError, ValueError):
        raise Malformed("frame") from None
    if stream.read() or not isinstance(header, dict) or not isinstance(payload, dict):
        raise Malformed("frame")
    return header, payload


def check_types(value):
    """Is everything in it something that DAG-CBOR has?"""
    if isinstance(value, dict):
        for key, member in value.items():
            if type(key) is not str:
                raise Malformed("cbor")
            check_types(member)
    elif isinstance(value, list):
        for member in value:
            check_types(member)
    elif isinstance(value, cbor2.CBORTag):
        cid(value)
    elif value is not None and type(value) not in (bool, int, float, str, bytes):
        raise Malformed("cbor")


def has_float(value):
    if isinstance(value, dict):
        return any(map(has_float, value.values()))
    if isinstance(value, list):
        return any(map(has_float, value))
    return isinstance(value, float)


def cid(tag):
    """The binary CID of a link."""
    if (
        not isinstance(tag, cbor2.CBORTag)
        or tag.tag != 42
        or type(tag.value) is not bytes
        or tag.value[:2] != b"\x00\x01"
    ):
        raise Malformed("cbor")
    return tag.value[1:]


def cid_text(binary):
    return "b" + base64.b32encode(binary).decode().lower().rstrip("=")


def varint(data, pos):
    value = shift = 0
    while True:
        if pos >= len(data) or shift > 63:
            raise Malformed("car")
        byte = data[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, pos


def cid_length(data):
    """How long is the CID at the start of data?  version codec hash length digest"""
    pos = 0
    for field in range(4):
        value, pos = varint(data, pos)
        if field == 0 and value != 1:
            raise Malformed("car")
    if pos + value > len(data):
        raise Malformed("car")
    return pos + value


def car(data):
    """Roots and blocks of a CAR file: ([binary CID], {binary CID: block}), hashes checked."""
    size, pos = varint(data, 0)
    header = decode(data[pos : pos + size])
    if not isinstance(header, dict) or header.get("version") != 1:
        raise Malformed("car")
    pos += size
    blocks = {}
    while pos < len(data):
        size, pos = varint(data, pos)
        section = data[pos : pos + size]
        if len(section) != size:
            raise Malformed("car")
        pos += size
        n = cid_length(section)
        key, block = section[:n], section[n:]
        if key[2:4] != b"\x12\x20" or hashlib.sha256(block).digest() != key[4:]:
            raise Malformed("hash")
        blocks[key] = block
    return [cid(root) for root in header["roots"]], blocks
