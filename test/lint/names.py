#!/usr/bin/env python3
"""Checks the names of src, so that a reader can search for one and finds one thing.

  - A static function is a verb and an object: its name has two words or more, and stands in at most three files.
  - A type (struct, enum, union or typedef) has its name alone.
  - Files of different folders have different names, whatever they end with.
"""
import os
import re
import subprocess
import sys
from collections import defaultdict

FILES_MAX = 3
NOT_CODE = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'', re.S)
STATIC = re.compile(r"^static\b[^;{}=()]*?\b(\w+)\s*\([^;{}]*\)\s*\{", re.M)
TYPE = re.compile(r"^typedef\b[^;{}]*?\b(\w+);|^\} (\w+);|^(?:struct|enum|union) (\w+)\s*\{", re.M)

# Statements of the language that STATIC would take for a name, and files that are one for each folder.
NO_FUNCTION = {"if", "for", "while", "switch", "return"}


def faults(read, files):
    statics, types, stems = defaultdict(set), defaultdict(set), defaultdict(set)
    for name in files:
        folder, base = os.path.split(name)
        stems[base.split(".")[0]].add(folder)
        if not name.endswith((".c", ".h")):
            continue
        code = NOT_CODE.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), read(name))
        for found in STATIC.findall(code):
            if found not in NO_FUNCTION:
                statics[found].add(name)
        # a header may declare the type (typedef struct X X;) that one file defines
        for groups in TYPE.findall(code):
            types["".join(groups)].add(name)
    for function, where in sorted(statics.items()):
        if "_" not in function:
            yield "%s: the static function %s() has a name of one word: a verb needs an object" % (sorted(where)[0], function)
        if len(where) > FILES_MAX:
            yield "the static function %s() stands in %d files: %s" % (function, len(where), ", ".join(sorted(where)))
    for name, where in sorted(types.items()):
        if len(where) > 1 and not declared_and_defined(name, where, read):
            yield "two types are called %s: %s" % (name, ", ".join(sorted(where)))
    for stem, folders in sorted(stems.items()):
        if len(folders) > 1:
            yield "files of %d folders are called %s: %s" % (len(folders), stem, ", ".join(sorted(folders)))


def declared_and_defined(name, where, read):
    """A header has typedef struct X X; and one file has struct X {."""
    defined = [f for f in where if re.search(r"^(?:typedef )?(?:struct|enum|union)(?: %s)?\s*\{|^\} %s;" % (name, name), read(f), re.M) and
               re.search(r"^(?:typedef )?(?:struct|enum|union) %s\s*\{" % name, read(f), re.M)]
    return len(defined) <= 1 and all(f in defined or re.search(r"^typedef (?:struct|enum|union) %s %s;" % (name, name), read(f), re.M) for f in where)


def main():
    files = [f for f in subprocess.run(["git", "ls-files", "src"], check=True, capture_output=True, text=True).stdout.split()]

    def read(name):
        with open(name, encoding="utf-8") as f:
            return f.read()
    found = list(faults(read, [f for f in files if os.path.exists(f)]))
    for line in found:
        print(line)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
