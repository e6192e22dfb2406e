"""Computes the rows that streams other than subscribeRepos must leave in the tables.

labels (F-30 to F-33): one row for each (src, uri, val).  The latest cts wins, and of equal
ones the greater seq, in whatever order they come.  Of a message, only an invalid label is
left out.

messages: every message of an unknown lexicon, in the order of the capture, with or
without seq (D30).
"""

import datetime
import re

import record
import wire

LABEL_FIELDS = ("src", "uri", "val", "cts")
DID = re.compile(r"did:[a-z]+:[A-Za-z0-9._:%-]*[A-Za-z0-9._-]")
SUBJECT = re.compile(r"at://[A-Za-z0-9.:_-]+(/[a-zA-Z0-9.-]+(/[A-Za-z0-9_~.:-]+)?)?")
DATETIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
CID = re.compile(r"b[a-z2-7]{58}")
UTC = datetime.timezone.utc
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=UTC)
# what each driver can read in each time zone
FIRST = datetime.datetime(1, 1, 2, tzinfo=UTC)
LAST = datetime.datetime(9999, 12, 30, 23, 59, 59, 999999, tzinfo=UTC)


def micros(text):
    """Microseconds since 1970, not before FIRST and not after LAST; digits beyond the sixth do not count."""
    if not DATETIME.fullmatch(text):
        raise wire.Malformed("datetime")
    text = re.sub(r"(\.\d{6})\d+", r"\1", text)
    text = re.sub(r"\.(\d{1,5})(?=\D)", lambda m: "." + m[1].ljust(6, "0"), text)
    year_0 = text.startswith("0000")
    if year_0:
        text = "0004" + text[4:]  # a leap year, too
    try:
        when = datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        raise wire.Malformed("datetime") from None
    when = FIRST if year_0 else min(max(when, FIRST), LAST)
    return (when - EPOCH) // datetime.timedelta(microseconds=1)


def typed(label, key, kind, default=None):
    value = label.get(key, default)
    if value is not default and type(value) is not kind:
        raise wire.Malformed("type")
    return value


def text(label, key, pattern):
    value = label[key]
    if type(value) is not str:
        raise wire.Malformed("type")
    if not pattern.fullmatch(value):
        raise wire.Malformed(key)
    return value


def label_row(label, seq):
    """cid, neg, cts, exp, ver, sig, seq of a label, behind its key."""
    if not isinstance(label, dict):
        raise wire.Malformed("type")
    if any(field not in label for field in LABEL_FIELDS):
        raise wire.Malformed("field")
    val = typed(label, "val", str)
    if not 1 <= len(val.encode()) <= 128 or "\0" in val:
        raise wire.Malformed("val")
    subject = DID if str(label["uri"]).startswith("did:") else SUBJECT
    key = text(label, "src", DID), text(label, "uri", subject), val
    exp = typed(label, "exp", str)
    sig = typed(label, "sig", bytes)
    return key, (
        text(label, "cid", CID) if "cid" in label else None,
        typed(label, "neg", bool, False),
        micros(typed(label, "cts", str)),
        None if exp is None else micros(exp),
        typed(label, "ver", int),
        None if sig is None else sig.hex(),
        seq,
    )


class Other:
    def __init__(self):
        self.labels = {}  # (src, uri, val) -> the rest of the row
        self.messages = []  # (seq or None, type, JSON or None)
        self.dead = []  # (seq, path, class)

    def run(self, path, first=1, last=None):
        for message in wire.messages(path):
            header, payload = wire.frame(message)
            seq = payload.get("seq")
            if header.get("op") != 1 or (seq is not None and (seq < first or (last and seq > last))):
                continue
            self.message(seq, header["t"], payload)
            if header["t"] == "#labels":
                self.label_message(seq, payload)

    def message(self, seq, kind, payload):
        try:
            self.messages.append((seq, kind, record.json_text(payload)))
        except record.NoJson:
            self.messages.append((seq, kind, None))

    def label_message(self, seq, payload):
        if not isinstance(payload.get("labels"), list):
            self.dead.append((seq, "", "labels"))
            return
        for i, label in enumerate(payload["labels"]):
            try:
                key, row = label_row(label, seq)
            except wire.Malformed as e:
                self.dead.append((seq, f"labels/{i}", str(e)))
                continue
            old = self.labels.get(key)
            if old is None or (row[2], seq) > (old[2], old[6]):
                self.labels[key] = row

    def label_rows(self, now=None):
        """All of them; or those that hold at a time, in microseconds."""
        for key, row in self.labels.items():
            if now is None or (not row[1] and (row[3] is None or row[3] > now)):
                yield *key, *row
