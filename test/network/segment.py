"""Writes the files of a Jetstream's archive: blocks, zstd frames, segments.

Written from the description of the format, never from the extension's reader, and with Python's standard library only.
Two parts of a file are formally right and say nothing: the checksum of the header is not XXH3, and each filter has all
bits set, so that it excludes nobody.  No reader that is tested here reads them.
"""
import hashlib
import struct
from dataclasses import dataclass

CREATE, UPDATE, DELETE, IDENTITY, ACCOUNT, SYNC, CREATE_RESYNC = range(1, 8)
HEADER_LEN = 256
DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


@dataclass
class Row:
    seq: int
    witnessed_at: int
    kind: int
    did: bytes
    collection: bytes = b""
    rkey: bytes = b""
    rev: bytes = b""
    payload: bytes = b""
    indexed_at: int = 0


def name_of(index):
    digits = ""
    for _ in range(10):
        digits = DIGITS[index % 36] + digits
        index //= 36
    return f"seg_{digits}.jss"


def column(form, values):
    return struct.pack(f"<{len(values)}{form}", *values)


def block_of(rows):
    """The columns of a block."""
    out = struct.pack("<I", len(rows))
    for form, values in (
        ("Q", [r.seq for r in rows]),
        ("q", [r.witnessed_at for r in rows]),
        ("q", [r.indexed_at for r in rows]),
        ("B", [r.kind for r in rows]),
        ("B", [len(r.collection) for r in rows]),
        ("H", [len(r.did) for r in rows]),
        ("B", [len(r.rkey) for r in rows]),
        ("B", [len(r.rev) for r in rows]),
        ("I", [len(r.payload) for r in rows]),
    ):
        out += column(form, values)
    for texts in ("collection", "did", "rkey", "rev", "payload"):
        out += b"".join(getattr(r, texts) for r in rows)
    return out


# ---- zstd (RFC 8878): frames of blocks that are not compressed

P1, P2, P3, P4, P5 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
MASK = (1 << 64) - 1


def rotated(x, n):
    return (x << n | x >> (64 - n)) & MASK


def rounded(acc, lane):
    return rotated((acc + lane * P2) & MASK, 31) * P1 & MASK


def xxh64(data):
    at = 0
    if len(data) >= 32:
        acc = [(P1 + P2) & MASK, P2, 0, -P1 & MASK]
        for at in range(0, len(data) - 31, 32):
            acc = [rounded(a, lane) for a, lane in zip(acc, struct.unpack_from("<4Q", data, at))]
        at += 32
        h = sum(rotated(a, n) for a, n in zip(acc, (1, 7, 12, 18))) & MASK
        for a in acc:
            h = ((h ^ rounded(0, a)) * P1 + P4) & MASK
    else:
        h = P5
    h = (h + len(data)) & MASK
    for at in range(at, len(data) - 7, 8):
        h = (rotated(h ^ rounded(0, int.from_bytes(data[at : at + 8], "little")), 27) * P1 + P4) & MASK
    at = len(data) - len(data) % 8
    if len(data) % 8 >= 4:
        h = (rotated(h ^ int.from_bytes(data[at : at + 4], "little") * P1 & MASK, 23) * P2 + P3) & MASK
        at += 4
    for byte in data[at:]:
        h = rotated(h ^ byte * P5 & MASK, 11) * P1 & MASK
    for shift, prime in ((33, P2), (29, P3), (32, 1)):
        h = (h ^ h >> shift) * prime & MASK
    return h


def frame_of(data, sized=True, checksum=True):
    """One frame, with or without the length of its content."""
    descriptor = 0x04 if checksum else 0
    if sized:
        head = bytes([descriptor | 0xA0]) + struct.pack("<I", len(data))
    else:
        head = bytes([descriptor, 7 << 3])  # a window of 128 kB
    out = b"\x28\xb5\x2f\xfd" + head
    parts = [data[i : i + 65536] for i in range(0, len(data), 65536)] or [b""]
    for i, part in enumerate(parts):
        out += (len(part) << 3 | (i == len(parts) - 1)).to_bytes(3, "little") + part
    return out + (xxh64(data) & 0xFFFFFFFF).to_bytes(4, "little") * checksum


# ---- segments


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ 0x82F63B78 * (crc & 1)
    return crc ^ 0xFFFFFFFF


def open_filter(count):
    out = struct.pack("<BIQQ", 1, 3, 1, count) + b"\xff" * 64
    return out + struct.pack("<I", crc32c(out))


SENTINELS = {IDENTITY: b"$identity", ACCOUNT: b"$account", SYNC: b"$sync"}


def collection_index(blocks, sized):
    counts = {}
    for rows in blocks:
        for r in rows:
            counts.setdefault(SENTINELS.get(r.kind, r.collection), 0)
            counts[SENTINELS.get(r.kind, r.collection)] += r.kind not in SENTINELS
    names = sorted(counts)
    width = (len(names) + 7) // 8
    table = b"".join(struct.pack("<BI", len(n), counts[n]) + n for n in names)
    for rows in blocks:
        bits = sum(1 << i for i, n in enumerate(names) if any(SENTINELS.get(r.kind, r.collection) == n for r in rows))
        table += bits.to_bytes(width, "little")
    return struct.pack("<4I", len(names), len(blocks), width, len(table)) + frame_of(table, sized)


@dataclass
class Bounds:
    """What compaction keeps of a block, or of a segment."""

    min_seq: int
    max_seq: int
    min_at: int
    max_at: int


def bounds_of(rows):
    return Bounds(rows[0].seq, rows[-1].seq, rows[0].witnessed_at, rows[-1].witnessed_at) if rows else Bounds(0, 0, 0, 0)


def segment_of(blocks, bounds=None, sized=True):
    """A sealed segment of lists of rows; bounds: of each block, as of the sealing."""
    bounds = bounds or [bounds_of(rows) for rows in blocks]
    frames = [frame_of(block_of(rows), sized) for rows in blocks]
    body, index = b"", b""
    for rows, frame, b in zip(blocks, frames, bounds):
        index += struct.pack("<QIIIQQqq", HEADER_LEN + len(body), len(frame), len(block_of(rows)), len(rows), b.min_seq, b.max_seq, b.min_at, b.max_at)
        body += struct.pack("<Q", len(frame)) + frame
    dids = [{r.did for r in rows} for rows in blocks]
    everyone = open_filter(len(set().union(*dids)))
    by_block = [open_filter(len(some)) for some in dids]
    by_block = struct.pack("<II", len(blocks), len(open_filter(0))) + b"".join(by_block)
    offsets = [HEADER_LEN + len(body)]  # of the footer, which begins with the block index
    for part in (index, everyone, by_block):
        offsets.append(offsets[-1] + len(part))
    footer = index + everyone + by_block + collection_index(blocks, sized)
    header = struct.pack(
        "<HIIIQQqqQQQQQ",
        1,
        len(blocks),
        sum(map(len, blocks)),
        len(set().union(*dids)),
        bounds[0].min_seq,
        bounds[-1].max_seq,
        bounds[0].min_at,
        bounds[-1].max_at,
        offsets[0],
        offsets[1],
        offsets[2],
        offsets[3],
        offsets[0],
    ).ljust(HEADER_LEN - 12, b"\0")
    checksum = hashlib.sha256(header + body + footer).digest()[:8]
    return b"jss0" + checksum + header + body + footer


def checksum_of(segment):
    """As plans and ETags write it: 16 hexadecimal digits."""
    return f"{int.from_bytes(segment[4:12], 'little'):016x}"
