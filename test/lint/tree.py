#!/usr/bin/env python3
"""Reads the files of the tree and tells what does not agree in them.

    tree.py [--write]   --write fills in the files of doc/develop/conformance.md

What it wants:
  - Links between the pages lead to a file, and to a heading of it.
  - A C file begins with its own name and what it is for.
  - doc/develop/conformance.md has every rule that a comment cites (B-10), with the files that cite
    it.  A range (B-20 to B-28) is prose: it says of no rule that it is enforced or tested.
  - Each rule of this page is cited in a source and in a test, or its row says "**planned**: what", or
    "**decided otherwise**, 2026-11-22: why".
  - What runs in the consumer's processes asks clock.c for the time, nothing else.
  - Each row of doc/develop/drafts.md names rules of conformance.md and tests that cite one of these rules,
    or says "not ours: why"; and when the row was compared with the draft.
  - doc/develop/races.md has every injection point of the sources, and no other, each with a test
    that stops a process there.
  - Why a repository waits: the words of repo.hold stand in hold.h, and only hold.c changes the state.
  - Only config/watch.c registers a callback for invalidations of relations: PostgreSQL has ten places in a process.
  - No room of src includes what is above it (rooms.py has the plan).
  - What a header of src/core declares, something in src uses; what only tests need is in test/protocol.
  - The version, the maintainer and the address are those of META.json (release/project.py).
"""
import collections
import os
import re
import subprocess
import sys

import rooms

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../release"))
import project  # noqa: E402

PAGE = "doc/develop/conformance.md"
RACES = "doc/develop/races.md"
DRAFTS = "doc/develop/drafts.md"
ROW = re.compile(r"^\| ([A-Z]-?\d+) \|([^|\n]*)\|([^|\n]*)\|([^|\n]*)\|$", re.M)
DRAFT_ROW = re.compile(r"^\| (?!draft |no\. )([^|\n]*)" + 5 * r"\|([^|\n]*)" + r"\|$", re.M)
RULE = re.compile(r"\b([ABEFHIJKLMNOPRSTVW])-(\d\d)\b")
DECISION = re.compile(r"\b([DN])(\d{1,2})\b")
# "B-20 to B-28", also when the line ends within it and the next one begins as one of a comment
TO = r"(?:\s|\*|#|--)+to(?:\s|\*|#|--)+"
RANGE = re.compile(r"\b(?:[A-Z]-\d\d%s(?:[A-Z]-)?\d\d|[DN]\d{1,2}%s[DN]?\d{1,2})\b" % (TO, TO))
MARK = re.compile(r"\*\*(?:planned\*\*: \S|decided otherwise\*\*, \d{4}-\d\d-\d\d: \S)")
SOURCE = re.compile(r"^src/.*\.(c|h|sql|in)$")
CLOCK = re.compile(r"\b(GetCurrentTimestamp|GetSQLCurrentTimestamp|INSTR_TIME_SET_CURRENT|gettimeofday|clock_gettime|time)(?=\((?:NULL|0|\)|&|CLOCK|\w+\)))")
TEST = re.compile(r"^(sql/.*\.sql|test/(unit|fuzz|t/[^/]*|oracle)/[^/]*\.(c|h|pl|py))$")


def tracked():
    out = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], capture_output=True, text=True, check=True)
    return [f for f in out.stdout.split("\n") if f and os.path.isfile(f)]


def read(root, name):
    with open(os.path.join(root, name), encoding="utf-8", errors="replace") as f:
        return f.read()


def anchors(page):
    """The headings, as the usual renderers name them in links."""
    for heading in re.findall(r"^#+ (.*)$", page, re.M):
        heading = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()
        yield re.sub(r"[^\w\- ]", "", heading).replace(" ", "-")


def link_faults(root, files):
    for name in files:
        if not name.endswith(".md"):
            continue
        text = re.sub(r"^```.*?^```", "", read(root, name), flags=re.M | re.S)
        for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`]*`", "", text)):
            # "../../actions" and the like are pages of the forge that shows this one.
            if re.match(r"[a-z]+:|\.\./\.\./(actions|issues|security)/", target):
                continue
            path, _, anchor = target.partition("#")
            path = os.path.normpath(os.path.join(os.path.dirname(name), path)) if path else name
            if not os.path.exists(os.path.join(root, path)):
                yield "%s: no such file: %s" % (name, target)
            elif anchor and anchor not in anchors(read(root, path)):
                yield "%s: no such heading: %s" % (name, target)


def head_faults(root, files):
    for name in files:
        if re.match(r"^src/.*\.[ch]$", name):
            if not re.match(r"/\*\n \* %s\n \*\t\t\S" % re.escape(os.path.basename(name)), read(root, name)):
                yield "%s: does not begin with its name and what it is for" % name


def citations(root, files, listed):
    """rule -> files that cite it, by its own number.  D3 could be anything: D and N numbers count only if they are listed."""
    cited = {}
    for name in files:
        if not (SOURCE.match(name) or TEST.match(name)):
            continue
        text = RANGE.sub(" ", read(root, name))
        for letter, number in RULE.findall(text):
            cited.setdefault("%s-%s" % (letter, number), set()).add(name)
        for rule in ("%s%d" % (letter, int(number)) for letter, number in DECISION.findall(text)):
            if rule in listed:
                cited.setdefault(rule, set()).add(name)
    return cited


def listing(names):
    return ", ".join("`%s`" % n for n in sorted(names))


def rows(root, cited, page):
    """The page's rows with the files filled in."""
    def fill(match):
        rule, words, places, tests = match.groups()
        files = cited.get(rule, set())
        if not MARK.match(places.strip()):
            places = listing(f for f in files if SOURCE.match(f))
        return "| %s | %s | %s | %s |" % (rule, words.strip(), places.strip(), listing(f for f in files if TEST.match(f)))
    return ROW.sub(fill, page)


def rule_faults(root, files):
    if PAGE not in files:
        return
    page = read(root, PAGE)
    listed = {m[0]: (set(re.findall(r"`([^`]+)`", m[2] + m[3])), m[2].strip()) for m in ROW.findall(page)}
    cited = citations(root, files, listed)
    for rule in sorted(cited):
        if rule not in listed:
            yield "the rule %s is cited, but not in %s: %s" % (rule, PAGE, ", ".join(sorted(cited[rule])))
            continue
        there, places = listed[rule]
        for name in sorted(cited[rule] - there):
            if not (MARK.match(places) and SOURCE.match(name)):
                yield "%s cites %s, but is not listed in %s (tree.py --write)" % (name, rule, PAGE)
    for rule, (there, places) in sorted(listed.items()):
        if places.startswith("**"):
            if not MARK.match(places):
                yield "%s: %s says neither what is planned, nor when and why it was decided otherwise" % (PAGE, rule)
            continue
        for pattern, lack in ((SOURCE, "enforced"), (TEST, "tested")):
            if not any(pattern.match(name) for name in cited.get(rule, ())):
                yield "%s: %s is not %s by its own number, and neither planned nor decided otherwise" % (PAGE, rule, lack)
        for name in sorted(there - cited.get(rule, set())):
            yield "%s is listed for %s, but does not cite it (tree.py --write)" % (name, rule)


def draft_faults(root, files):
    if DRAFTS not in files:
        return
    listed = {m[0] for m in ROW.findall(read(root, PAGE))} if PAGE in files else set()
    cited = citations(root, files, listed)
    for number, asked, rules, tests, here, date in DRAFT_ROW.findall(read(root, DRAFTS)):
        row = "%s: %s, %s" % (DRAFTS, number.strip(), asked.strip())
        names = [rule for rule in re.split(r", ", rules.strip()) if rule]
        for rule in sorted(set(names) - listed):
            yield "%s: there is no rule %s" % (row, rule)
        if not re.match(r"^ \d{4}-\d\d-\d\d $", date):
            yield "%s: says not when the row was compared" % row
        if not (names and tests.strip()) and not here.strip().startswith("not ours: "):
            yield "%s: has no rule and test, and says not why it is not ours" % row
        for test in re.findall(r"`([^`]+)`", tests):
            if not any(test in cited.get(rule, ()) for rule in names):
                yield "%s: %s cites no rule of the row" % (row, test)


def race_faults(root, files):
    points = set()
    for name in files:
        if re.match(r"^src/.*\.c$", name):
            points.update(re.findall(r'ATP_INJECTION_POINT\("([^"]+)"\)', read(root, name)))
    rows = re.findall(r"^\| `([^`]+)` \|.*\| ([^|]*) \|$", read(root, RACES), re.M) if RACES in files else []
    for point in sorted(points ^ {point for point, _ in rows}):
        yield "the injection point \"%s\" is not in both, the sources and %s" % (point, RACES)
    for point, tests in rows:
        for test in re.findall(r"`([^`]+)`", tests) or ["?"]:
            paths = [name for name in files if re.match(r"test/t/[^/]+/%s\.pl$" % re.escape(test), name)]
            if not any("'%s'" % point in read(root, path) for path in paths):
                yield "%s: the test %s does not name the point \"%s\"" % (RACES, test, point)


def clock_faults(root, files):
    for name in files:
        if re.match(r"^src/(net|config|stream|tables|process)/.*\.[ch]$", name):
            for asked in sorted(set(CLOCK.findall(read(root, name)))):
                yield "%s asks the time by %s: that is for clock.c" % (name, asked)


HOLD = "src/tables/repos/hold."
HOLDS = re.compile(r"""\bhold (?:=|<>|IN|NOT IN|IS DISTINCT FROM|IS NOT DISTINCT FROM) \(?'|\bhold(?:\.|->)(?:word|state) = """)


def hold_faults(root, files):
    for name in files:
        if re.match(r"^src/.*\.(c|h|sql)$", name) and not name.startswith(HOLD):
            for found in sorted(set(HOLDS.findall(read(root, name)))):
                yield "%s: \"%s\" is for %sh and %sc" % (name, found, HOLD, HOLD)


# Processes follow the settings in one way; the output plugin follows the tables of the time that it decodes.
WATCH = ["src/config/watch.c", "src/changes/change_table.c"]


def watch_faults(root, files):
    for name in files:
        if re.match(r"^src/.*\.c$", name) and name not in WATCH and "CacheRegisterRelcacheCallback" in read(root, name):
            yield "%s: CacheRegisterRelcacheCallback is for %s" % (name, ", ".join(WATCH))


def room_faults(root, files):
    return rooms.faults(lambda name: read(root, name), files)


# What the processes to come are for: each goes from here when it is used.
AHEAD = {"atp_diddoc_parse",
         "atp_car_push_begin", "atp_car_push", "atp_car_push_end", "atp_export_commit", "atp_export_begin", "atp_export_next",
         # fetches of some collections
         "atp_key_range", "atp_key_range_compare", "atp_key_ranges_join", "atp_key_probe_first", "atp_key_probe_last",
         "atp_sparse_begin", "atp_sparse_next", "atp_sparse_estimate",
         "atp_get_blocks_begin", "atp_get_blocks_add", "atp_get_blocks_query", "atp_get_blocks_take",
         # archives
         "atp_segment_blocks_begin", "atp_segment_blocks_next", "atp_segment_name_format", "atp_archive_block_open", "atp_archive_block_next",
         "atp_archive_row_check", "atp_plan_parse", "atp_plan_request_write"}


def declaration_faults(root, files):
    code = {name: re.sub(r"/\*.*?\*/", " ", read(root, name), flags=re.S) for name in files if re.match(r"^src/.*\.[ch]$", name)}
    words = collections.Counter(re.findall(r"\w+", " ".join(code.values())))
    pasted = tuple(re.findall(r"\w+(?=##)", " ".join(code.values())))
    for name, text in sorted(code.items()):
        for declared in re.findall(r"^(?:\w+ )?extern [^;{=]*?(\w+)(?:\(|\[|;)", text, re.M) if re.match(r"src/core/.*\.h$", name) else ():
            # once here, once where it is defined
            if words[declared] < 3 and declared not in AHEAD and not (pasted and declared.startswith(pasted)):
                yield "%s: nothing in src uses %s" % (name, declared)


def faults(root, files):
    for check in (link_faults, head_faults, rule_faults, draft_faults, race_faults, clock_faults, hold_faults, watch_faults, room_faults, declaration_faults, project.faults):
        yield from check(root, files)


def main():
    files = tracked()
    if "--write" in sys.argv:
        page = read(".", PAGE)
        cited = citations(".", files, {m[0] for m in ROW.findall(page)})
        with open(PAGE, "w", encoding="utf-8") as f:
            f.write(rows(".", cited, page))
    found = list(faults(".", files))
    for fault in found:
        print(fault)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
