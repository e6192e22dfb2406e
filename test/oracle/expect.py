#!/usr/bin/python3
"""Computes the rows that the tables must have after a capture, without any code of the extension.

    expect.py MODE CAPTURE [--first SEQ] [--last SEQ] [--collection PATTERN]... [--did DID]...
                           [--action ACTION]... [--after SEQ PATTERNS]... [--now MICROSECONDS] [--no-records]
    expect.py MODE CAPTURE --compare < COPY-OUTPUT
    expect.py canon < COPY-OUTPUT

MODE: record   did, collection, rkey, cid, rev, JSON (keys sorted; \\N: jsonb cannot hold it)
      repo     did, rev, commit, data, active (t/f), status, handle
      count    collection, rows
      events   messages by type, operations by action, ignored messages
      dead     seq, path ("" for a whole message), class of the fault
      special  how many of the written records are unusual
      event    seq, action, did, collection, rkey, rev, cid, JSON of each applied operation; with
               --no-records without the removals of a deleted account's records
      label    src, uri, val, cid, neg, cts, exp, ver, sig, seq; times in microseconds since 1970;
               with --now only the labels in force at this time
      message  seq, type, JSON of each message of an unknown lexicon
      bad      as dead, of labels

MODE may be several modes of one capture with commas between them: before the lines of each, a line has a form feed
and the mode.

The filters are --collection, --did and --action; --after: from the event after SEQ on, the
collections are these, separated by commas, or all: ALL.

Lines are tab-separated with PostgreSQL's COPY escapes, sorted bytewise.  --compare reads
the same columns of the database, as COPY (SELECT ...) TO STDOUT writes them, in any
order, and prints the first differences; the exit status tells whether rows differ.
canon prints the normalized lines.  A column that holds a JSON object is compared as JSON, with exact integers.
"""

import argparse
import re
import sys

import other
import record
import state
import wire

ESCAPES = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"}
UNESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
SHOWN = 20


def field(value):
    """A column as COPY writes it."""
    if value is None:
        return "\\N"
    if isinstance(value, bool):
        return "t" if value else "f"
    return re.sub(r"[\\\t\n\r]", lambda m: ESCAPES[m[0]], str(value))


def unfield(text):
    if text == "\\N":
        return None
    return re.sub(r"\\(.)", lambda m: UNESCAPES.get(m[1], m[1]), text, flags=re.S)


def lines(rows):
    return sorted("\t".join(map(field, row)) for row in rows)


def json_or_none(value):
    try:
        return record.json_text(value)
    except record.NoJson:
        return None


def record_rows(st):
    for did, repo in st.repos.items():
        for (collection, rkey), (cid, rev, value) in repo.records.items():
            yield did, collection, rkey, wire.cid_text(cid), rev, json_or_none(value)


def operation_rows(st):
    for seq, action, did, collection, rkey, rev, cid, value in st.operations:
        json = None if cid is None else json_or_none(value)
        yield seq, action, did, collection, rkey, rev, cid and wire.cid_text(cid), json


def repo_rows(st):
    for did, repo in st.repos.items():
        if st.dids is not None and did not in st.dids:
            continue
        commit, data = (c and wire.cid_text(c) for c in (repo.commit, repo.data))
        yield did, repo.rev, commit, data, repo.active, repo.status, repo.handle


def count_rows(st):
    counts = state.Counter(c for repo in st.repos.values() for c, _ in repo.records)
    return counts.items()


def event_rows(st):
    for what, counts in (("message", st.types), ("op", st.actions), ("ignored", st.ignored)):
        for name, n in counts.items():
            yield what, name, n


MODES = {
    "record": record_rows,
    "repo": repo_rows,
    "count": count_rows,
    "events": event_rows,
    "dead": lambda st: st.dead,
    "special": lambda st: st.special.items(),
    "event": operation_rows,
}
OTHER_MODES = {
    "label": lambda st, now: st.label_rows(now),
    "message": lambda st, now: st.messages,
    "bad": lambda st, now: st.dead,
}


def canon(stream):
    """Lines of COPY output, their JSON in the canonical form."""
    rows = []
    for line in stream:
        columns = [unfield(text) for text in line.rstrip("\n").split("\t")]
        rows.append(
            record.canonical_of_text(c) if c is not None and c[:1] == "{" else c for c in columns
        )
    return lines(rows)


def compare(expected, found):
    """Prints the first differences; True when there are none."""
    want, have = state.Counter(expected), state.Counter(found)
    missing, unexpected = sorted((want - have).elements()), sorted((have - want).elements())
    for title, rows in (("missing", missing), ("unexpected", unexpected)):
        for row in rows[:SHOWN]:
            print(f"{title}: {row[:1000]}")
        if len(rows) > SHOWN:
            print(f"... {len(rows)} rows {title}")
    return not missing and not unexpected


def expected_rows(modes, args):
    """The rows of each mode."""
    if modes[0] in OTHER_MODES:
        st = other.Other()
        st.run(args.capture, args.first, args.last)
        return [OTHER_MODES[mode](st, args.now) for mode in modes]
    changes = {int(seq): None if patterns == "ALL" else patterns.split(",") for seq, patterns in args.after}
    st = state.State(args.collection, args.did, args.action, changes, not args.no_records, "special" in modes)
    st.run(args.capture, args.first, args.last)
    return [MODES[mode](st) for mode in modes]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("mode")
    parser.add_argument("capture", nargs="?")
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--last", type=int)
    parser.add_argument("--collection", action="append")
    parser.add_argument("--did", action="append")
    parser.add_argument("--action", action="append")
    parser.add_argument("--after", action="append", nargs=2, default=[])
    parser.add_argument("--now", type=int)
    parser.add_argument("--no-records", action="store_true")
    parser.add_argument("--compare", action="store_true")
    args = parser.parse_args()

    for stream in (sys.stdin, sys.stdout):
        stream.reconfigure(encoding="utf-8", newline="\n")
    modes = args.mode.split(",")
    if args.mode == "canon":
        expected = [canon(sys.stdin)]
    else:
        if not (set(modes) <= set(MODES) or set(modes) <= set(OTHER_MODES)):
            parser.error("which mode?")
        if args.capture is None:
            parser.error("which capture?")
        expected = [lines(rows) for rows in expected_rows(modes, args)]
        if args.compare:
            sys.exit(0 if compare(expected[0], canon(sys.stdin)) else 1)
    for mode, rows in zip(modes, expected):
        if len(modes) > 1:
            print("\f" + mode)
        for line in rows:
            print(line)


if __name__ == "__main__":
    main()
