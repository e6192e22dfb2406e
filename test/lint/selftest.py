#!/usr/bin/env python3
"""A check that cannot fail is worth nothing: each fault planted here must be found,
and what stands beside it must not be."""
import os
import sys
import tempfile

import names
import script
import silence
import tree
import words

COMMENTED = "%s; COMMENT ON FUNCTION f(integer) IS 'x';"
PIN = "SET LOCAL search_path = pg_catalog, pg_temp;"

GOOD_SQL = {
    "a C function": COMMENTED % "CREATE FUNCTION f(a integer DEFAULT 1) RETURNS integer AS 'm', 'f' LANGUAGE C IMMUTABLE",
    "a parsed body": COMMENTED % "CREATE FUNCTION f(integer) RETURNS integer LANGUAGE sql BEGIN ATOMIC; SELECT $1; END",
    "a search_path of its own": COMMENTED % "CREATE FUNCTION f(integer) RETURNS integer LANGUAGE sql SET search_path = '' AS $$SELECT $1$$",
    "a definer that names schemas": COMMENTED % "CREATE FUNCTION f(integer) RETURNS integer LANGUAGE plpgsql SECURITY DEFINER SET search_path = '' "
                                    "AS $$ BEGIN RETURN $1 OPERATOR(pg_catalog.+) pg_catalog.abs($1); END $$",
    "a table after the search_path": PIN + "CREATE TABLE t (a integer CHECK (a > 0)); COMMENT ON TABLE t IS 'x';",
    "a word in a string": "COMMENT ON TYPE t IS 'CREATE OR REPLACE; -- it''s';",
}
BAD_SQL = {
    "takes over": COMMENTED % "CREATE OR REPLACE FUNCTION f(integer) RETURNS integer AS 'm' LANGUAGE C",
    "no COMMENT ON FUNCTION f(integer)": "CREATE FUNCTION f(integer) RETURNS integer AS 'm' LANGUAGE C;",
    "no COMMENT ON OPERATOR = (t, t)": "CREATE OPERATOR = (FUNCTION = f, LEFTARG = t, RIGHTARG = t);",
    "neither a parsed body": COMMENTED % "CREATE FUNCTION f(integer) RETURNS integer LANGUAGE sql AS $$SELECT abs($1)$$",
    "no search_path of its own": COMMENTED % "CREATE FUNCTION f(integer) RETURNS integer LANGUAGE plpgsql AS $$BEGIN RETURN 1; END$$",
    "SECURITY DEFINER without": COMMENTED % "CREATE FUNCTION f(integer) RETURNS integer LANGUAGE plpgsql SECURITY DEFINER AS $$BEGIN RETURN 1; END$$",
    "operator whose schema is not named": COMMENTED % "CREATE FUNCTION f(integer) RETURNS integer LANGUAGE plpgsql SECURITY DEFINER SET search_path = '' "
                                          "AS $$BEGIN RETURN $1 + 1; END$$",
    "search_path that others may write to": "CREATE TABLE t (a integer CHECK (a > 0)); COMMENT ON TABLE t IS 'x';",
    "no row security": PIN + "CREATE TABLE atproto.t (a integer); COMMENT ON TABLE atproto.t IS 'x';",
    "not revoked from PUBLIC": "CREATE FUNCTION atproto_internal.f() RETURNS void AS 'm' LANGUAGE C; COMMENT ON FUNCTION atproto_internal.f() IS 'x';",
    "DO block uses": "DO $$ BEGIN IF version() = '1' THEN NULL; END IF; END $$;",
}

HEAD = "/*\n * %s\n *\t\tWhat it is for.\n */\n%s"
META = '{\n    "version": "%s"\n}'

BAD_TREE = {
    "no such file": {"doc/a.md": "[b](b.md)"},
    "no such heading": {"doc/a.md": "[b](b.md#two)", "doc/b.md": "# One\n"},
    "does not begin with its name": {"src/a.c": "/*\n * b.c\n *\t\tWhat it is for.\n */\n"},
    "the rule A-99 is cited, but not in": {"doc/develop/conformance.md": "| A-01 | a rule | `src/a.c` | |\n", "src/a.c": "/*\n * a.c\n *\t\tA-01, A-99\n */\n"},
    "is listed for A-01, but does not cite it": {"doc/develop/conformance.md": "| A-01 | a rule | `src/a.c` | |\n", "src/a.c": "/*\n * a.c\n *\t\tNothing.\n */\n"},
    "cites A-01, but is not listed": {"doc/develop/conformance.md": "| A-01 | a rule | `src/b.c` | |\n", "src/a.c": "/*\n * a.c\n *\t\tA-01\n */\n",
                                      "src/b.c": "/*\n * b.c\n *\t\tA-01\n */\n"},
    "A-01 is not enforced by its own number": {"doc/develop/conformance.md": "| A-01 | a rule | `src/a.c` | `test/unit/a.c` |\n",
                                              "src/a.c": "/*\n * a.c\n *\t\tA-01 to A-03, N1 to\n *\t\tN3\n */\n", "test/unit/a.c": "A-01\n"},
    "A-02 is not enforced by its own number": {"doc/develop/conformance.md": "| A-02 | a rule | `src/a.c` | `test/unit/a.c` |\n",
                                              "src/a.c": "/*\n * a.c\n *\t\tA-01 to A-03\n */\n", "test/unit/a.c": "A-02\n"},
    "A-01 is not tested by its own number": {"doc/develop/conformance.md": "| A-01 | a rule | `src/a.c` | `test/t/a/1_one.pl` |\n",
                                            "src/a.c": "/*\n * a.c\n *\t\tA-01\n */\n", "test/t/a/1_one.pl": "# 1_one.pl\n#\t\tA-01\n#\t\tto A-03\n"},
    "A-04 says neither": {"doc/develop/conformance.md": "| A-04 | a rule | **not done**: why | |\n"},
    "A-05 says neither": {"doc/develop/conformance.md": "| A-05 | a rule | **decided otherwise**: why | |\n"},
    "A-06 says neither": {"doc/develop/conformance.md": "| A-06 | a rule | **planned** | |\n"},
    "3.1, asked: there is no rule A-02": {"doc/develop/drafts.md": "| 3.1 | asked | A-02 | `test/unit/a.c` | | 2026-11-26 |\n"},
    "3.2, asked: says not when": {"doc/develop/drafts.md": "| 3.2 | asked | | | not ours: why | |\n"},
    "3.3, asked: has no rule and test": {"doc/develop/drafts.md": "| 3.3 | asked | A-01 | | otherwise | 2026-11-26 |\n", "doc/develop/conformance.md": "| A-01 | a rule | `src/a.c` | `test/unit/a.c` |\n", "src/a.c": HEAD % ("a.c", "/* A-01 */\n"), "test/unit/a.c": "A-01\n"},
    "3.4, asked: test/unit/b.c cites no rule": {"doc/develop/drafts.md": "| 3.4 | asked | A-01 | `test/unit/b.c` | | 2026-11-26 |\n", "test/unit/b.c": "A-03\n", "doc/develop/conformance.md": "| A-01 | a rule | `src/a.c` | `test/unit/a.c` |\n", "src/a.c": HEAD % ("a.c", "/* A-01 */\n"), "test/unit/a.c": "A-01\n"},
    "the injection point \"two\" is not in both": {"src/a.c": "/*\n * a.c\n *\t\tOne.\n */\nATP_INJECTION_POINT(\"two\");\n"},
    "the test 1_one does not name the point": {"doc/develop/races.md": "| `two` | between | `1_one` |\n", "test/t/stream/1_one.pl": "# 'one'\n",
                                              "src/a.c": "/*\n * a.c\n *\t\tOne.\n */\nATP_INJECTION_POINT(\"two\");\n"},
    "src/net/a.c asks the time by time:": {"src/net/a.c": HEAD % ("a.c", "t = time(NULL);\n")},
    "src/stream/a.c asks the time by GetCurrentTimestamp:": {"src/stream/a.c": HEAD % ("a.c", "t = GetCurrentTimestamp();\n")},
    "src/a.c: \"hold = '\" is for": {"src/a.c": HEAD % ("a.c", "\"UPDATE t SET hold = 'gap'\"\n")},
    "src/a.c: CacheRegisterRelcacheCallback is for": {"src/a.c": HEAD % ("a.c", "CacheRegisterRelcacheCallback(f, 0);\n")},
    "src/a.c: \"hold.state = \" is for": {"src/a.c": HEAD % ("a.c", "repo->hold.state = 1;\n")},
    "src/net/a.c includes config/b.h: net may not": {"src/net/a.c": HEAD % ("a.c", '#include "config/b.h"\n'), "src/config/b.h": HEAD % ("b.h", "")},
    "src/core/a.c includes common/clock.h: core may not": {"src/core/a.c": HEAD % ("a.c", '#include "common/clock.h"\n'), "src/common/clock.h": HEAD % ("clock.h", "")},
    "src/common/clock.h includes net/b.h: common may not": {"src/common/clock.h": HEAD % ("clock.h", '# include "net/b.h"\n'), "src/net/b.h": HEAD % ("b.h", "")},
    "src/core/a.c includes postgres.h: core has only": {"src/core/a.c": HEAD % ("a.c", '#include "postgres.h"\n')},
    "src/core/a.h includes unistd.h: core has only": {"src/core/a.h": HEAD % ("a.h", "#include <unistd.h>\n")},
    "src/tables/base/a.c includes curl/curl.h: that is for": {"src/tables/base/a.c": HEAD % ("a.c", "#include <curl/curl.h>\n")},
    "src/tables/base/a.c includes tables/repos/b.h: tables/base may not": {
        "src/tables/base/a.c": HEAD % ("a.c", '#include "tables/repos/b.h"\n'), "src/tables/repos/b.h": HEAD % ("b.h", "")},
    "src/core/wire/a.c includes unistd.h: core has only": {"src/core/wire/a.c": HEAD % ("a.c", "#include <unistd.h>\n")},
    "src/attic/a.c is in a room that is not on the plan": {"src/attic/a.c": HEAD % ("a.c", "")},
    "headers include each other: src/net/a.h > src/net/b.h > src/net/a.h": {
        "src/net/a.h": HEAD % ("a.h", '#include "net/b.h"\n'), "src/net/b.h": HEAD % ("b.h", '#include "a.h"\n')},
    "src/core/a.h: nothing in src uses atp_a": {"src/core/a.h": HEAD % ("a.h", "extern bool atp_a(int *b); /* atp_a */\n"),
                                               "src/core/a.c": HEAD % ("a.c", "bool\natp_a(int *b)\n{\n}\n"), "test/unit/a.c": "atp_a(0);\n"},
    "atproto.control: the version": {"META.json": META % "1.1.0", "atproto.control": "default_version = '1.0'\n"},
    "META.json: the version": {"META.json": META % '1.1.0",\n    "provides": {\n        "version": "1.0.0"\n    },\n    "x": "y'},
    "debian/control: the version": {"META.json": META % "1.0.0", "debian/control": "Maintainer: a <b@c.example>\n"},
    "CHANGELOG.md: the first section is not of version 1.0.0": {"META.json": META % "1.0.0", "CHANGELOG.md": "# Changes\n\n## 0.9.0\n\n## 1.0.0\n"},
}
GOOD_TREE = {
    "doc/a.md": "[b](b.md#two-words) [c](../src/a.c) `[x](y)`\n", "doc/b.md": "# One\n## Two `words`\n",
    "doc/develop/conformance.md": (
        "| A-01 | a rule | `src/a.c` | `test/unit/a.c` |\n| A-02 | a rule | **decided otherwise**, 2026-11-22: why | |\n"
        "| A-03 | a rule | **planned**: a directory of keys | |\n| N1 | a rule | `src/a.c` | `test/unit/a.c` |\n"),
    "doc/develop/drafts.md": "| draft | read | of |\n| 3.1 | asked | A-01, N1 | `test/unit/a.c` | | 2026-11-26 |\n| 3.2 | asked | | | not ours: why | 2026-11-26 |\n",
    "test/unit/a.c": "A-01, N1\n",
    "src/a.c": "/*\n * a.c\n *\t\tA-01, N1 (as A-05 to A-07 and N5 to N7 say)\n */\n",
    "src/atproto.c": HEAD % ("atproto.c", '#include "postgres.h"\n#include "process/status/b.h"\n'),
    "src/process/status/b.h": HEAD % ("b.h", '#include "tables/base/c.h"\n#include "common/clock.h"\n'),
    "src/tables/base/c.h": HEAD % ("c.h", '#include "common/clock.h"\n#include "core/d.h"\n'),
    "src/common/clock.h": HEAD % ("clock.h", '#include "core/d.h"\nGetCurrentTimestamp();\n'),
    "src/tables/repos/hold.c": HEAD % ("hold.c", "h->hold.state = 1;\n"),
    "src/net/e.c": HEAD % ("e.c", "#include <curl/curl.h>\natp_now(); /* time (of the day) */ runtime(NULL);\n"),
    "src/core/d.h": HEAD % ("d.h", '#include <cbor.h>\n#include <stdint.h>\nextern int atp_d[3];\nextern int atp_in(void);\n'),
    "src/core/d.c": HEAD % ("d.c", 'int atp_d[3];\nint\natp_in(void)\n{\n\treturn atp_d[0];\n}\n#define IN(x) atp_##x()\n'),
}


def found_in_tree(files):
    with tempfile.TemporaryDirectory() as root:
        for name, content in files.items():
            path = os.path.join(root, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as f:
                f.write(content)
        return list(tree.faults(root, sorted(files)))


SILENT = "| `%s` | what | a row | a counter |\n"
LOUD_TREE = {
    "src/stream/batch.c": '[ATP_SKIP_OLD] = "old",\n', "src/net/drop.c": '[ATP_DROP_NONE] = "none",\n[ATP_DROP_SEQ] = "seq",\n',
    "src/tables/a.c": 'ereport(LOG,\n\t(errcode(1), errmsg("it \\"%s\\" ends", x)));\nevent->ignored = true;\n"DELETE FROM atproto.t"\n/* DELETE FROM atproto.u */\nereport(ERROR, (errmsg("x")));\n',
    "src/tables/a.sql": "-- DELETE FROM x\nDELETE FROM y;\n",
    "src/tables/b.c": '"INSERT INTO atproto.v VALUES (1)"\n"INSERT INTO #.w (a) SELECT 1"\n" ON CONFLICT (a) DO NOTHING"\n"INSERT INTO z VALUES (1) ON CONFLICT (a) DO UPDATE SET a = 1"\n',
}
LOUD = ["skip old", "drop seq", 'log tables/a.c: it "…" ends', "delete tables/a.c: atproto.t", "ignored tables/a.c", "delete tables/a.sql: y",
        "conflict tables/b.c: #.w"]


def found_silent(page):
    files = dict(LOUD_TREE, **{silence.PAGE: page})
    return list(silence.faults(lambda name: files[name], files))


def silence_wrong():
    page = "".join(SILENT % place for place in LOUD)
    yield from ("a page with a row for each place: " + fault for fault in found_silent(page))
    yield from ("a page with one row for all places: " + fault for fault in found_silent(SILENT % "`, `".join(LOUD)))
    if not any("two rows" in fault for fault in found_silent(page + SILENT % "skip old`, `drop seq")):
        yield "not found: a place with two rows"
    for place in LOUD:
        if not any("no row for `%s`" % place in fault for fault in found_silent(page.replace(SILENT % place, ""))):
            yield "not found: no row for " + place
    if not any("not in the sources" in fault for fault in found_silent(page + SILENT % "skip new")):
        yield "not found: a row of a place that is gone"
    if not any("empty cell" in fault for fault in found_silent(page.replace("| a counter |", "| |", 1))):
        yield "not found: an empty cell"


# Ten words, of which as many as a text is given are stand-ins.
def wordy(stand_ins, more=""):
    return " ".join(["it"] * stand_ins + ["word"] * (10 - stand_ins)) + more


def found_wordy(files):
    return list(words.faults(lambda name: files[name], files))


def words_wrong():
    plain = ["/* %s */\n" % wordy(0)] * 99
    page = words.PAGES[0]
    good = {
        "src/net/a.c": "".join(plain) + "/* %s */\nchar *s = \"/* it is what that is */\";\n/* it it it */\n" % wordy(4),
        "src/a.sql": "COMMENT ON TABLE t IS '%s';\n-- %s\n" % (wordy(0), wordy(0)),
        page: wordy(0) + "\n\n```\n%s\n```\n\n`%s`\n" % (wordy(9), wordy(9)),
        "doc/unlisted.md": wordy(9), "test/network/a.c": "/* %s */\n" % wordy(9),
        "test/unit/a.c": "/* %s */\n" % wordy(0), "test/fuzz/a.h": "/* %s */\n" % wordy(0),
        "test/t/a/1_a.pl": "#!/usr/bin/perl it it it\n# %s\n#\t\t%s\nmy $x = '# %s';\tcall();\t# it it it it\n" % (wordy(0), wordy(0), wordy(9)),
    }
    yield from ("good words: " + fault for fault in found_wordy(good))
    for place, bad, fault in (
            ("src/net/b.c", "/* %s */\n// %s\n" % (wordy(1), wordy(0)), "net: 5.0 % of the words"),
            ("src/net/b.h", "/* %s */\n" % wordy(3) * 2 + "".join(plain), "net: 2 of 101 texts are riddles"),
            ("src/tables/base/b.c", "/* %s,\n * %s */\n" % (wordy(1), wordy(1)), "tables/base: 10.0 %"),
            ("src/b.sql", "COMMENT ON TABLE t IS '%s';\n" % wordy(1, " it''s"), "SQL: "),
            ("src/b.sql.in", "-- %s\n" % wordy(2), "SQL: 20.0 %"),
            ("test/unit/b.c", "/* %s */\n" % wordy(1), "test/unit: 10.0 %"),
            ("test/fuzz/b.h", "/* %s */\n" % wordy(1), "test/fuzz: 10.0 %"),
            ("test/t/a/2_b.pl", "# %s\n" % wordy(2) + "\t# %s\n" % wordy(0), "test/t: 10.0 %"),
            ("test/t/a/2_b.pl", "# %s\n\n" % wordy(0) * 99 + "# %s\n\n" % wordy(3) * 2, "test/t: 2 of 101 texts are riddles"),
            (page, wordy(2), page + ": 20.0 %")):
        if not any(found.startswith(fault) for found in found_wordy({place: bad})):
            yield "not found: " + fault


STATIC = "static int\n%s(int x)\n{\n\treturn x;\n}\n"
GOOD_NAMES = {
    "src/a/a.h": "typedef struct AtpA AtpA;\ntypedef enum AtpB\n{\n\tB\n} AtpB;\n",
    "src/a/a.c": "struct AtpA\n{\n\tint x;\n};\n/* typedef enum AtpB { } AtpB; */\n" + STATIC % "find_row",
    "src/a/a.sql": "", "src/a/b.c": STATIC % "find_row", "src/b/c.c": STATIC % "find_row",
    "src/b/d.c": "static int\tfind_row;\nstatic int find(int x);\n",
}
BAD_NAMES = {
    "find() has a name of one word": {"src/a/a.c": STATIC % "find"},
    "find_row() stands in 4 files": {"src/b/d.c": STATIC % "find_row"},
    "two types are called AtpB": {"src/b/d.c": "typedef struct\n{\n\tint x;\n} AtpB;\n"},
    "two types are called AtpA": {"src/b/d.c": "typedef struct AtpA\n{\n\tint x;\n} AtpA;\n"},
    "called a: src/a, src/b": {"src/b/a.sql": ""},
}


def found_names(files):
    return list(names.faults(lambda name: files[name], files))


def names_wrong():
    yield from ("good names: " + fault for fault in found_names(GOOD_NAMES))
    for words, files in BAD_NAMES.items():
        if not any(words in fault for fault in found_names(dict(GOOD_NAMES, **files))):
            yield "not found: " + words


def main():
    wrong = list(silence_wrong()) + list(words_wrong()) + list(names_wrong())
    for name, sql in GOOD_SQL.items():
        wrong += ["%s: %s" % (name, fault) for fault in script.faults(sql)]
    for words, sql in BAD_SQL.items():
        if not any(words in fault for fault in script.faults(sql)):
            wrong.append("not found: " + words)
    wrong += ["a good tree: " + fault for fault in found_in_tree(GOOD_TREE)]
    for words, files in BAD_TREE.items():
        if not any(words in fault for fault in found_in_tree(files)):
            wrong.append("not found: " + words)
    for line in wrong:
        print("lint itself: " + line)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
