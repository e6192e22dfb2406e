"""The plan of src: which of its folders may include which, and which libraries.

What is called from below climbs a step back; what both need lies below both.  A table, and
no more; tree.py reads it.
"""
import os
import re

# Each room with the rooms that its files may include, beside those of the room itself.  A room below
# stands above in this table: no room includes one that comes after it.  "tables" as a permission means
# all rooms inside tables.  The files of src itself (source.h) may be included by every room but core.
PROTOCOL = ["core", "core/syntax", "core/codec", "core/repo", "core/lexicon", "core/packed", "core/wire", "core/archive", "core/plc"]
GLUE = PROTOCOL + ["common", "types", "data", "config"]
TABLES = GLUE + ["changes", "lexicon", "identity", "stream"]
ROOMS = {
    "core": [],
    "core/syntax": ["core"],
    "core/codec": ["core", "core/syntax"],
    "core/repo": ["core", "core/syntax", "core/codec"],
    "core/lexicon": ["core", "core/syntax", "core/codec"],
    "core/packed": ["core", "core/syntax", "core/codec", "core/repo", "core/lexicon"],
    "core/wire": ["core", "core/syntax", "core/codec", "core/repo", "core/lexicon"],
    "core/archive": ["core", "core/syntax", "core/codec", "core/repo", "core/wire"],
    "core/plc": ["core", "core/syntax", "core/codec", "core/repo", "core/lexicon"],
    "common": PROTOCOL,
    "types": PROTOCOL + ["common"],
    "net": PROTOCOL + ["common"],
    "archive": PROTOCOL + ["common", "net"],
    "data": PROTOCOL + ["common", "types"],
    "config": PROTOCOL + ["common", "types", "net"],
    "changes": GLUE,
    "lexicon": GLUE,
    "identity": GLUE,
    "stream": GLUE + ["net"],
    "tables/base": TABLES,
    "tables/direct": TABLES + ["tables/base"],
    "tables/records": TABLES + ["tables/base", "tables/direct"],
    "tables/audit": TABLES + ["tables/base"],
    "tables/out": TABLES + ["tables/base", "tables/audit"],
    "tables/repos": TABLES + ["tables/base", "tables/direct", "tables/records"],
    "tables/plc": TABLES + ["tables/base", "tables/repos"],
    "tables/apply": TABLES + ["tables/base", "tables/direct", "tables/records", "tables/plc", "tables/repos"],
    "tables/export": TABLES + ["tables/base", "tables/direct", "tables/records", "tables/repos", "tables/apply"],
    "tables/commands": TABLES + ["tables/base", "tables/records", "tables/apply"],
    "tables/check": TABLES + ["tables/base", "tables/records", "tables/plc", "tables/repos"],
    "tables/erase": TABLES + ["tables/base", "tables/records"],
    "fetch/engine": GLUE + ["net", "identity", "stream"],
    "fetch/identities": GLUE + ["net", "identity", "fetch/engine", "tables/repos"],
    "fetch/repositories": GLUE + ["net", "changes", "identity", "stream", "tables", "fetch/engine"],
    "fetch/servers": GLUE + ["net", "identity", "fetch/engine", "tables/plc"],
    "process/status": GLUE + ["net", "identity", "stream", "tables", "fetch/engine"],
    "process/workers": GLUE + ["net", "stream", "tables", "process/status"],
    "process/consumer": GLUE + ["net", "archive", "identity", "stream", "tables", "process/status", "process/workers"],
    "process/manager": GLUE + ["net", "identity", "tables", "fetch/engine", "process/status", "process/consumer"],
}
# The module, and the table of the kinds of streams: what puts the rooms together.
ALL = ["src/atproto.c", "src/source.c"]

# Libraries: header, and who may include it.
LIBRARIES = {
    "cbor.h": ["core"],
    "curl/": ["net"],
    "ares.h": ["net"],
    "wslay/": ["net"],
    "zlib.h": ["net"],
    "zstd.h": ["net"],
    "openssl/": ["net", "common"],
    "secp256k1": ["common"],
}
# core is plain C11, without I/O.
PLAIN = {"ctype.h", "float.h", "inttypes.h", "limits.h", "math.h", "stdalign.h", "stdarg.h", "stdbool.h",
         "stddef.h", "stdint.h", "stdnoreturn.h", "string.h"}

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.M)


def room(name):
    """src/net/wait.c is in net, src/common/clock.c in src."""
    return os.path.dirname(name)[len("src/"):] or "src"


def resolve(name, included, files):
    """The file of src that an include names, if it is one."""
    for path in (os.path.join(os.path.dirname(name), included), os.path.join("src", included)):
        path = os.path.normpath(path)
        if path in files:
            return path
    return None


def is_core(name):
    return name.split("/")[0] == "core"


def may_include(name, other):
    own, its = room(name), room(other)
    if name in ALL or own == its:
        return True
    if its == "src":
        return not is_core(own)
    allowed = PROTOCOL if own == "src" else ROOMS.get(own, [])
    return its in allowed or its.split("/")[0] in allowed and not is_core(its)


def include_faults(name, quote, included, files):
    own = room(name)
    other = resolve(name, included, files) if quote == '"' else None

    if other is not None:
        if not may_include(name, other):
            yield "%s includes %s: %s may not (test/lint/rooms.py)" % (name, included, own)
        return
    for header, rooms in LIBRARIES.items():
        if included.startswith(header):
            if own.split("/")[0] not in rooms:
                yield "%s includes %s: that is for %s (test/lint/rooms.py)" % (name, included, ", ".join(rooms))
            return
    if is_core(own) and (quote == '"' or included not in PLAIN):
        yield "%s includes %s: core has only itself, plain C and libcbor" % (name, included)


def circle_faults(graph):
    """Headers that include each other, each circle once."""
    done = set()

    def walk(name, way):
        if name in way:
            yield "headers include each other: " + " > ".join(way[way.index(name):] + [name])
        elif name not in done:
            for other in sorted(graph[name]):
                yield from walk(other, way + [name])
            done.add(name)
    for name in sorted(graph):
        yield from walk(name, [])


def faults(read, files):
    """read(name) gives a file's text."""
    sources = {name for name in files if re.match(r"^src/.*\.[ch]$", name)}
    graph = {}
    for name in sorted(sources):
        if room(name) not in ROOMS and room(name) != "src":
            yield "%s is in a room that is not on the plan (test/lint/rooms.py)" % name
        includes = INCLUDE.findall(read(name))
        for quote, included in includes:
            yield from include_faults(name, quote, included, sources)
        if name.endswith(".h"):
            others = {resolve(name, included, sources) for quote, included in includes if quote == '"'}
            graph[name] = {other for other in others if other is not None and other.endswith(".h")}
    yield from circle_faults(graph)
