#!/usr/bin/env python3
"""Lists the places of src where something is dropped, passed over, refused or given up, and
demands a row of the table of doc/operate/silence.md for each: what goes, and which row and which
counter tell of it.

    silence.py [--list]     --list prints all places, as the first column has them (several to a row, if all else is equal)

A place is
    skip NAME               a reason of AtpSkip, by the name that statistics have
    drop NAME               a reason of AtpDrop: why a connection is given up
    log FILE: TEXT          a message of level LOG or WARNING, without its values
    delete FILE: TABLE      a DELETE from a table
    conflict FILE: TABLE    an INSERT that passes over a row which is there already
    ignored FILE            a file where an event is marked as ignored
"""
import re
import sys

PAGE = "doc/operate/silence.md"
ROW = re.compile(r"^\| ((?:`[^`\n]+`(?:, )?)+) \|([^|\n]*)\|([^|\n]*)\|([^|\n]*)\|$", re.M)
NAMES = {"skip": ("src/stream/batch.c", "ATP_SKIP_"), "drop": ("src/net/drop.c", "ATP_DROP_")}
MESSAGE = re.compile(r'\b(?:ereport|elog)\(\s*(?:LOG|WARNING)\b(.*?);', re.S)
TEXT = re.compile(r'(?:errmsg|errmsg_internal|errmsg_plural)\(\s*(?:U?INT64_FORMAT\s*)?"((?:[^"\\]|\\.)*)"|^\s*,\s*"((?:[^"\\]|\\.)*)"', re.S)
DELETE = re.compile(r'\bDELETE\s+FROM\s+(?:ONLY\s+)?([#\w%.]+)', re.I)
CONFLICT = re.compile(r'\bINSERT\s+INTO\s+([#\w%.]+)(?:(?!\bINSERT\s+INTO\b)[^;])*?\bON\s+CONFLICT\b[^"]*\bDO\s+NOTHING\b', re.I)
IGNORED = re.compile(r'(?:->|\.)ignored = true|\batp_admission_ignore\(')


def code(text):
    """Without comments; strings stay."""
    return re.sub(r'"(?:[^"\\\n]|\\.)*"|/\*.*?\*/', lambda m: m.group(0) if m.group(0)[0] == '"' else " ", text, flags=re.S)


def words(text):
    """Its values are left out."""
    return re.sub(r"%[-*.\d]*[a-zA-Z]", "…", text.replace('\\"', '"'))[:70].strip()


def message(call):
    found = TEXT.search(call)
    return words(found.group(1) or found.group(2) or "") if found else ""


def places(read, files):
    """In the order of the files, each once; read(name) gives a file's text."""
    out = []
    for kind, (name, prefix) in NAMES.items():
        if name in files:
            out += ["%s %s" % (kind, reason) for reason in re.findall(r'\[%s(?!NONE\])\w+\] = "([^"]+)"' % prefix, read(name))]
    for name in sorted(files):
        if not re.match(r"^src/.*\.(c|sql)$", name):
            continue
        text = code(read(name)) if name.endswith(".c") else re.sub(r"--.*", "", read(name))
        short = name[len("src/"):]
        out += ["log %s: %s" % (short, message(call)) for call in MESSAGE.findall(text)]
        out += ["delete %s: %s" % (short, table) for table in DELETE.findall(text)]
        out += ["conflict %s: %s" % (short, table) for table in CONFLICT.findall(text)]
        out += ["ignored %s" % short for _ in IGNORED.findall(text)]
    return list(dict.fromkeys(out))


def faults(read, files):
    """One line for each that does not agree."""
    if PAGE not in files:
        yield "%s is not there" % PAGE
        return
    table = ROW.findall(read(PAGE))
    rows = {}
    for names, what, row, counter in table:
        for place in re.findall("`([^`]+)`", names):
            if place in rows:
                yield "%s: `%s` has two rows" % (PAGE, place)
            rows[place] = (what, row, counter)
        if not all(cell.strip() for cell in (what, row, counter)):
            yield "%s: %s has an empty cell: say what goes, which row tells of it, and which counter" % (PAGE, names)
    there = places(read, files)
    for place in there:
        if place not in rows:
            yield "%s has no row for `%s`: which row, which counter tells of it? (test/lint/silence.py)" % (PAGE, place)
    for place in rows:
        if place not in there:
            yield "%s: `%s` is not in the sources any more" % (PAGE, place)


def main():
    import tree

    def read(name):
        return tree.read(".", name)
    files = set(tree.tracked())
    if sys.argv[1:] == ["--list"]:
        print("\n".join(places(read, files)))
        return
    found = list(faults(read, files))
    print("\n".join(found))
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
