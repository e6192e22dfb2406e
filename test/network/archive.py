"""The archive of a Jetstream: what planSnapshot, listSegments, getSegment and getBlock answer, and how it changes.

Written from the description of the format and of the requests, never from the extension's reader.  Events come in the order of
their numbers; `seal` moves them into segments, `compact` rewrites segments under their names.  A request is answered from
the files as they are at that moment.
"""

import base64
import fnmatch
import json
import re
import threading

import segment
from segment import ACCOUNT, CREATE, CREATE_RESYNC, DELETE, IDENTITY, SYNC, UPDATE, Row

XRPC = "/xrpc/network.bsky.jetstream."
KINDS = {"commit": (CREATE, UPDATE, DELETE, CREATE_RESYNC), "identity": (IDENTITY,), "account": (ACCOUNT,), "sync": (SYNC,)}
MOST = {"kinds": 4, "collections": 100, "dids": 10000}


class Refused(Exception):
    """Status and name of an error."""


def row_of(line):
    """A row as a file of rows has it: a JSON array."""
    seq, at, kind, did, collection, rkey, rev, payload, *more = json.loads(line)
    return Row(seq, at, kind, did.encode(), collection.encode(), rkey.encode(), rev.encode(), base64.b64decode(payload), *more)


def line_of(r):
    texts = [t.decode() for t in (r.did, r.collection, r.rkey, r.rev)]
    return json.dumps([r.seq, r.witnessed_at, r.kind, *texts, base64.b64encode(r.payload).decode(), r.indexed_at])


def deletes_account(r):
    """Is the row an #account that says that the account is deleted?"""
    # found by the bytes of its members: "active": false, "status": "deleted"
    return r.kind == ACCOUNT and b"\x66active\xf4" in r.payload and b"\x66status\x67deleted" in r.payload


class Segment:
    """A sealed segment in its present generation, and those before."""

    def __init__(self, blocks):
        self.blocks = blocks
        self.bounds = [segment.bounds_of(rows) for rows in blocks]
        self.generations = []
        self.write()

    def write(self):
        self.generations.append(segment.segment_of(self.blocks, self.bounds, sized=len(self.generations) % 2 == 0))

    def rows(self):
        return sum(map(len, self.blocks))


class Archive:
    def __init__(self, rows=None, block_rows=100, segment_blocks=10, page=100000, whole=0.75, token=None, lag=0, generous=0, unavailable=False, etag=True, matched=None, part=None, most=None):
        self.lock = threading.RLock()
        self.block_rows = block_rows
        self.segment_blocks = segment_blocks
        self.page = page  # units of a plan's page
        self.whole = whole  # share of blocks from which on a segment is planned whole
        self.token = token
        self.lag = lag  # files are served so many generations old, as a CDN may
        self.generous = generous  # each so manieth block is planned although nothing in it fits
        self.unavailable = unavailable
        self.etag = etag
        self.part = part  # most bytes of a range that is answered
        self.most = {**MOST, **(most or {})}  # values of a list that a request may have
        self.says_matched = matched  # what each plan says of blocksMatched
        self.open = []  # events that are not sealed
        self.segments = []
        self.requests = 0
        self.waiting = []  # [number of a request, what is done before it]
        if rows:
            self.append(rows)

    # --- how it changes

    def append(self, path):
        """Events of a file of rows; their numbers go on."""
        with open(path, encoding="ascii") as f:
            self.open += map(row_of, f)

    def seal(self, segments=None):
        """All events that fill whole segments, or so many segments of them; 0: all events, with a last segment that is short."""
        size = self.block_rows * self.segment_blocks
        number = -(-len(self.open) // size) if segments == 0 else min(len(self.open) // size, segments or len(self.open))
        for _ in range(number):
            rows, self.open = self.open[:size], self.open[size:]
            self.segments.append(Segment([rows[i : i + self.block_rows] for i in range(0, len(rows), self.block_rows)]))

    def compact(self, through=None):
        """What events up to this number supersede goes, in all segments."""
        keys, accounts = {}, {}
        for r in (r for s in self.segments for rows in s.blocks for r in rows):
            if through is not None and r.seq > through:
                continue
            if r.kind in (UPDATE, DELETE):
                keys[r.did, r.collection, r.rkey] = r.seq
            if r.kind == SYNC or deletes_account(r):
                accounts[r.did] = r.seq

        def stays(r):
            return r.kind not in (CREATE, UPDATE, CREATE_RESYNC) or r.seq >= max(keys.get((r.did, r.collection, r.rkey), 0), accounts.get(r.did, 0))

        for s in self.segments:
            kept = [[r for r in rows if stays(r)] for rows in s.blocks]
            if kept != s.blocks:
                s.blocks = kept
                s.write()

    def rewrite(self):
        """New generations of all segments with the same rows, as after an import of times."""
        for s in self.segments:
            s.write()

    def do(self, what):
        """What a test tells: {"seal": 0}, {"compact": number or null}, {"append": FILE}, {"rewrite": true}, {"set": {…}}; with
        "before": before the so manieth request from now on."""
        with self.lock:
            before = what.pop("before", None)
            if before is not None:
                self.waiting.append([self.requests + before, what])
                return
            for name, value in what.items():
                if name == "set":
                    for option, to in value.items():
                        setattr(self, option, to)
                elif name == "rewrite":
                    self.rewrite()
                else:
                    {"seal": self.seal, "compact": self.compact, "append": self.append}[name](value)

    def state(self):
        """For assertions: what the segments hold."""
        with self.lock:
            return {
                "requests": self.requests,
                "open": len(self.open),
                "segments": [
                    {"name": segment.name_of(i), "rows": [len(rows) for rows in s.blocks], "generations": len(s.generations), "max_seq": s.bounds[-1].max_seq}
                    for i, s in enumerate(self.segments)
                ],
            }

    # --- plans

    def plan(self, body):
        """The answer to planSnapshot; Refused for a request that a server refuses."""
        try:
            asked = json.loads(body or b"{}")
        except ValueError:
            asked = None
        if not isinstance(asked, dict):
            raise Refused(400, "InvalidRequest")
        lists = {name: asked.get(name) or [] for name in MOST}
        after, before = asked.get("afterSeq"), asked.get("beforeSeq")
        for name, most in self.most.items():
            if not isinstance(lists[name], list) or len(lists[name]) > most or not all(isinstance(v, str) for v in lists[name]):
                raise Refused(400, "InvalidRequest")
        if any(n is not None and (not isinstance(n, int) or n < 0) for n in (after, before)):
            raise Refused(400, "InvalidRequest")
        if any(k not in KINDS for k in lists["kinds"]) or (None not in (after, before) and before <= after):
            raise Refused(400, "InvalidRequest")
        if lists["collections"] and lists["kinds"] and "commit" not in lists["kinds"]:
            raise Refused(400, "InvalidRequest")
        return self.planned(lists, after or 0, before)

    def fits(self, r, kinds, collections, dids):
        """Does a row fit the filter?  Collections constrain commits only."""
        if kinds and not any(r.kind in KINDS[k] for k in kinds):
            return False
        if dids and r.did.decode() not in dids:
            return False
        return not collections or r.kind in (IDENTITY, ACCOUNT, SYNC) or any(fnmatch.fnmatchcase(r.collection.decode(), c) for c in collections)

    def matched(self, s, lists, after, before):
        """Numbers of the blocks that a plan names: all that have a row that fits, and some others."""
        dids = set(lists["dids"])
        for n, (rows, bounds) in enumerate(zip(s.blocks, s.bounds)):
            if not rows or bounds.max_seq <= after or (before is not None and bounds.min_seq > before):
                continue
            if any(self.fits(r, lists["kinds"], lists["collections"], dids) for r in rows) or (self.generous and n % self.generous == 0):
                yield n

    def planned(self, lists, after, before):
        tip = self.segments[-1].bounds[-1].max_seq if self.segments else 0
        tip = tip if before is None else min(tip, before)
        segments, through, units, blocks = [], tip, 0, 0
        for index, s in enumerate(self.segments):
            ranges = []
            for n in self.matched(s, lists, after, before):
                if ranges and ranges[-1]["last"] == n - 1:
                    ranges[-1]["last"] = n
                else:
                    ranges.append({"first": n, "last": n})
            count = sum(r["last"] - r["first"] + 1 for r in ranges)
            if count == 0:
                continue
            is_whole = count / len(s.blocks) >= self.whole
            wanted = 1 if is_whole else len(ranges)
            taken = min(wanted, self.page - units)
            if taken > 0:
                of = {"name": segment.name_of(index), "index": index, "checksum": segment.checksum_of(s.generations[-1])}
                of.update(minSeq=s.bounds[0].min_seq, maxSeq=s.bounds[-1].max_seq, mode="segment" if is_whole else "blocks")
                if not is_whole:
                    of["blocks"] = ranges[:taken]
                    count = sum(r["last"] - r["first"] + 1 for r in of["blocks"])
                segments.append(of)
                units += taken
                blocks += count
                last_unit = s.bounds[-1 if is_whole else of["blocks"][-1]["last"]].max_seq
            if taken < wanted:
                through = last_unit
                break
        stats = {"segmentsExamined": len(self.segments), "segmentsMatched": len(segments), "blocksMatched": blocks if self.says_matched is None else self.says_matched, "entries": units}
        return {"sealedTipSeq": tip, "plannedThroughSeq": through, "segments": segments, "stats": stats}

    # --- files

    def file(self, name):
        index = next((i for i in range(len(self.segments)) if segment.name_of(i) == name), None)
        if not re.fullmatch(r"seg_[0-9a-z]{10}\.jss", name or ""):
            raise Refused(400, "InvalidRequest")
        if index is None:
            raise Refused(404, "SegmentNotFound")
        generations = self.segments[index].generations
        return generations[max(0, len(generations) - 1 - self.lag)]

    def frame(self, file, number):
        at, footer = segment.HEADER_LEN, int.from_bytes(file[58:66], "little")
        while at < footer:
            length = int.from_bytes(file[at : at + 8], "little")
            if number == 0:
                return file[at + 8 : at + 8 + length]
            at += 8 + length
            number -= 1
        raise Refused(404, "BlockNotFound")

    def list_segments(self, query):
        first, limit = int(query.get("cursor") or 0), int(query.get("limit") or 100)
        entries = []
        for i, s in list(enumerate(self.segments))[first : first + limit]:
            file = s.generations[-1]
            entries.append({"name": segment.name_of(i), "index": i, "sizeBytes": len(file), "checksum": segment.checksum_of(file)})
            entries[-1].update(eventCount=s.rows(), minSeq=s.bounds[0].min_seq, maxSeq=s.bounds[-1].max_seq)
        return {"segments": entries, **({"cursor": str(first + limit)} if first + limit < len(self.segments) else {})}

    # --- requests

    def begin_request(self):
        self.requests += 1
        due = [what for number, what in self.waiting if number <= self.requests]
        self.waiting = [w for w in self.waiting if w[0] > self.requests]
        for what in due:
            self.do(what)

    def answer(self, method, what, query, headers, body):
        """(status, headers, body) of a request."""
        with self.lock:
            self.begin_request()
            try:
                if self.token is not None and headers.get("authorization") != "Bearer " + self.token:
                    raise Refused(401, "AuthenticationRequired")
                if self.unavailable:
                    raise Refused(503, "ServiceUnavailable")
                if method != ("POST" if what == "planSnapshot" else "GET"):
                    raise Refused(405, "InvalidRequest")
                if what == "planSnapshot":
                    return 200, {"Content-Type": "application/json"}, json.dumps(self.plan(body)).encode()
                if what == "listSegments":
                    return 200, {"Content-Type": "application/json"}, json.dumps(self.list_segments(query)).encode()
                if what == "getSegment":
                    file = self.file(query.get("name"))
                    return self.serve(file, segment.checksum_of(file), headers)
                if what == "getBlock":
                    number = query.get("blockIndex", "")
                    file = self.file(query.get("segment"))
                    if not number.isdigit():
                        raise Refused(400, "InvalidRequest")
                    return self.serve(self.frame(file, int(number)), f"{segment.checksum_of(file)}:{number}", headers)
                raise Refused(404, "MethodNotImplemented")
            except Refused as refused:
                status, name = refused.args
                return status, {"Content-Type": "application/json"}, json.dumps({"error": name, "message": name}).encode()

    def serve(self, content, tag, headers):
        """The content, or the range of it that is asked for (RFC 9110)."""
        tag = f'"{tag}"'
        out = {"Content-Type": "application/octet-stream", "Accept-Ranges": "bytes", "Cache-Control": "public, no-cache"}
        if self.etag:
            out["ETag"] = tag
        if headers.get("if-none-match") in (tag, "*"):
            return 304, out, b""
        asked = re.fullmatch(r"bytes=(\d*)-(\d*)", headers.get("range", ""))
        if not asked or asked.groups() == ("", "") or ("if-range" in headers and headers["if-range"] != tag):
            return 200, out, content
        first, last = asked.groups()
        if first == "":
            first, last = max(0, len(content) - int(last)), len(content) - 1
        else:
            first, last = int(first), min(int(last or len(content)), len(content) - 1)
        if self.part:
            last = min(last, first + self.part - 1)
        if first >= len(content) or last < first:
            return 416, {**out, "Content-Range": f"bytes */{len(content)}"}, b""
        return 206, {**out, "Content-Range": f"bytes {first}-{last}/{len(content)}"}, content[first : last + 1]
