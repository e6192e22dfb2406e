#!/usr/bin/env python3
"""Measures how much of the words of comments and pages are stand-ins (it, that, who, one, other, likewise ...)
in place of the names of things, and holds limits for each room, for SQL COMMENTs, and for each page of PAGES.

    words.py [--list] [FILE...]     --list prints a line for each room and page; with files, the worst of their texts

A text of which a quarter or more are stand-ins is a riddle that only its author can solve.  A limit is a symptom,
not an aim: a comment that loses its pronouns and keeps no reason is worse than before.
"""
import re
import subprocess
import sys
from collections import defaultdict

STAND_INS = re.compile(r"\b(?:it|its|that|those|these|what|who|whose|whom|whoever|ones?|others?|another|they|them|he|him|his|there"
                       r"|such|none|nobody|somebody|anybody|likewise)\b", re.I)
WORD = re.compile(r"[A-Za-z][A-Za-z'-]*")
C_COMMENT = re.compile(r'"(?:[^"\\\n]|\\.)*"|(/\*.*?\*/|//[^\n]*)', re.S)
PERL_COMMENT = re.compile(r"^[ \t]*#(?!!)([^\n]*(?:\n[ \t]*#[^\n]+)*)", re.M)
SQL_COMMENT = re.compile(r"COMMENT ON [^;]*? IS '((?:[^']|'')*)'|--([^\n]*(?:\n[ \t]*--[^\n]*)*)")

PERCENT = 4.5       # of the words of a room or page
RIDDLES = 1.0       # of its texts, in percent
FEWEST = 4          # words; a text of fewer is not looked at

# Pages that keep the limits: one a line, in the order of the alphabet.  A page is entered when it passes.
PAGES = [
    "CONTRIBUTING.md",
    "README.md",
    "bench/README.md",
    "doc/develop/architecture.md",
    "doc/develop/conformance.md",
    "doc/develop/drafts.md",
    "doc/develop/races.md",
    "doc/operate/backfill.md",
    "doc/operate/citus.md",
    "doc/operate/consumer.md",
    "doc/operate/fetcher.md",
    "doc/operate/identities.md",
    "doc/operate/managed.md",
    "doc/operate/operations.md",
    "doc/operate/deployment.md",
    "doc/operate/platforms.md",
    "doc/operate/scale.md",
    "doc/operate/security.md",
    "doc/operate/silence.md",
    "doc/operate/sources.md",
    "doc/operate/verification.md",
    "doc/use/clients.md",
    "doc/use/comparison.md",
    "doc/use/cookbook.md",
    "doc/use/data.md",
    "doc/use/faq.md",
    "doc/use/getting-started.md",
    "doc/use/graph.md",
    "doc/use/lexicons.md",
    "doc/use/queries.md",
    "doc/use/reference.md",
    "doc/use/simulator.md",
    "doc/use/triggers.md",
    "doc/use/types.md",
]

# Texts that may stay, by their beginning.
MAY_STAY = {
    "bytes; one root takes 60",
}


def c_texts(text):
    for found in C_COMMENT.findall(text):
        if found and not re.search("copyright", found, re.I):
            yield re.sub(r"\s*\n\s*\*?\s*", " ", found).strip("/* ")


def sql_texts(text):
    for comment, dashes in SQL_COMMENT.findall(text):
        yield comment.replace("''", "'") or re.sub(r"\s*\n\s*--", " ", dashes).strip(" -")


def perl_texts(text):
    for found in PERL_COMMENT.findall(text):
        yield re.sub(r"\s*\n\s*#\s*", " ", found).strip(" -#")


def page_texts(text):
    return re.sub(r"```.*?```|`[^`]*`", "", text, flags=re.S).split("\n\n")


def texts(name, text):
    """The texts of a file that people read, and the room or page that they count for."""
    if name in PAGES:
        return name, page_texts(text)
    if re.match(r"test/(unit|fuzz)/\w+\.[ch]$", name):
        return name.rsplit("/", 1)[0], c_texts(text)
    if re.match(r"test/t/.*\.pl$", name):
        return "test/t", perl_texts(text)
    place = re.match(r"src/(.*)/|(src)/", name)
    if place and re.search(r"\.[ch]$", name):
        return place.group(1) or place.group(2), c_texts(text)
    if place and re.search(r"\.sql(\.in)?$", name):
        return "SQL", sql_texts(text)
    return None, ()


def share(text):
    """How many words a text has, and how many of them are stand-ins."""
    return len(WORD.findall(text)), len(STAND_INS.findall(text))


def is_riddle(text):
    words, stand_ins = share(text)
    return stand_ins >= words / 4 and not any(text.startswith(begin) for begin in MAY_STAY)


def measure(read, files):
    """Room or page -> [words, stand-ins, texts, riddles]; read(name) gives a file's text."""
    sums = defaultdict(lambda: [0, 0, 0, 0])
    for name in files:
        room, found = texts(name, read(name)) if re.search(r"\.([ch]|pl|sql|in|md)$", name) else (None, ())
        for text in found:
            words, stand_ins = share(text)
            if words >= FEWEST:
                sums[room] = [a + b for a, b in zip(sums[room], (words, stand_ins, 1, is_riddle(text)))]
    return sums


def faults(read, files):
    for room, (words, stand_ins, number, riddles) in sorted(measure(read, files).items()):
        if 100 * stand_ins > PERCENT * words:
            yield "%s: %.1f %% of the words are stand-ins, %.1f %% may be (test/lint/words.py %s)" % (
                room, 100 * stand_ins / words, PERCENT, "FILE" if room not in PAGES else room)
        if 100 * riddles > RIDDLES * number:
            yield "%s: %d of %d texts are riddles, %.0f %% may be (test/lint/words.py FILE)" % (room, riddles, number, RIDDLES)


def read_file(name):
    with open(name, encoding="utf-8") as f:
        return f.read()


def main():
    names = [arg for arg in sys.argv[1:] if not arg.startswith("--")]
    files = subprocess.run(["git", "ls-files"], capture_output=True, text=True, check=True).stdout.split()
    if "--list" in sys.argv:
        for room, (words, stand_ins, number, riddles) in sorted(measure(read_file, files).items()):
            print("%-28s %6d words, %4.1f %% stand-ins; %5d texts, %4.1f %% riddles" % (
                room, words, 100 * stand_ins / words, number, 100 * riddles / number))
    elif names:
        found = [(share(text)[1] / share(text)[0], name, text) for name in names for text in texts(name, read_file(name))[1] if share(text)[0] >= FEWEST]
        for part, name, text in sorted(found, reverse=True)[:20]:
            print("%3.0f %%  %s: %s" % (100 * part, name, text[:300]))
    else:
        found = list(faults(read_file, files))
        for fault in found:
            print(fault)
        sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
