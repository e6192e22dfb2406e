"""The plan of src: which of its folders may include which, and which libraries.

What is called from below climbs a step back; what both need lies below both.  A table, and
no more; tree.py reads it.
"""
import os
import re

# A room and the rooms that it may include, beside itself.  Lowest first: none includes one that
# comes after it.  The files of src itself may be included by all but core.
ROOMS = {
    "core": [],
    "types": ["core"],
    "net": ["core"],
    "data": ["core", "types"],
    "config": ["core", "types", "net"],
    "lexicon": ["core", "types", "data", "config"],
    "identity": ["core", "types", "data", "config"],
    "stream": ["core", "types", "net", "data", "config"],
    "tables": ["core", "types", "data", "config", "lexicon", "identity", "stream"],
    "fetch": ["core", "types", "net", "data", "config", "identity", "stream", "tables"],
    "process": ["core", "types", "net", "data", "config", "identity", "stream", "tables", "fetch"],
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
    "openssl/": ["net", "src"],
    "secp256k1": ["src"],
}
# core is plain C11, without I/O.
PLAIN = {"ctype.h", "float.h", "inttypes.h", "limits.h", "math.h", "stdalign.h", "stdarg.h", "stdbool.h",
         "stddef.h", "stdint.h", "stdnoreturn.h", "string.h"}

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.M)


def room(name):
    """src/net/wait.c is in net, src/clock.c in src."""
    return os.path.dirname(name)[len("src/"):] or "src"


def resolve(name, included, files):
    """The file of src that an include names, if it is one."""
    for path in (os.path.join(os.path.dirname(name), included), os.path.join("src", included)):
        path = os.path.normpath(path)
        if path in files:
            return path
    return None


def may_include(name, other):
    own, its = room(name), room(other)
    if name in ALL or own == its:
        return True
    if its == "src":
        return own != "core"
    return its in (["core"] if own == "src" else ROOMS.get(own, []))


def include_faults(name, quote, included, files):
    own = room(name)
    other = resolve(name, included, files) if quote == '"' else None

    if other is not None:
        if not may_include(name, other):
            yield "%s includes %s: %s may not (test/lint/rooms.py)" % (name, included, own)
        return
    for header, rooms in LIBRARIES.items():
        if included.startswith(header):
            if own not in rooms:
                yield "%s includes %s: that is for %s (test/lint/rooms.py)" % (name, included, ", ".join(rooms))
            return
    if own == "core" and (quote == '"' or included not in PLAIN):
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
