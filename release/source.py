#!/usr/bin/env python3
"""Checks the source archives of `make dist`, and writes the text of the tag.

    source.py check ATPROTO-X.tar.gz ATPROTO-X.zip    prints what is wrong with them, by their META.json (PGXN's description)
    source.py tag OUT                                 writes the tag's message from the first section of CHANGELOG.md
    source.py open                                    prints what prevents a publication
"""
import json
import os
import re
import sys
import tarfile
import zipfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from project import Project, UNKNOWN, faults as project_faults  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
REQUIRED = ("name", "version", "abstract", "maintainer", "license", "provides", "meta-spec")    # PGXN's meta-spec 1.0.0
NEEDED = ("Makefile", "META.json", "README.md", "LICENSE", "CHANGELOG.md", "atproto.control", "debian/control", "src/atproto.c")
UNWANTED = re.compile(r"\.(?:o|so|bc|d|pyc)$|(?:^|/)\.git(?:/|$)|^atproto--|(?:^|/)\.env$")


def of_tar(path):
    with tarfile.open(path, "r:gz") as archive:
        return {m.name: archive.extractfile(m).read() for m in archive if m.isfile()}


def of_zip(path):
    with zipfile.ZipFile(path) as archive:
        return {m.filename: archive.read(m) for m in archive.infolist() if not m.is_dir()}


def faults(tar, zipped):
    files = of_tar(tar)
    if files != of_zip(zipped):
        yield "the .zip and the .tar.gz have different files"
    folders = {name.split("/")[0] for name in files}
    if len(folders) != 1:
        yield "the files are in several folders: " + ", ".join(sorted(folders))
        return
    folder = folders.pop()
    files = {name[len(folder) + 1:]: content for name, content in files.items()}
    meta = json.loads(files.get("META.json", b"{}"))
    for key in REQUIRED:
        if not meta.get(key):
            yield "META.json has no " + key
    expected = "%s-%s" % (meta.get("name"), meta.get("version"))
    if folder != expected:
        yield "the folder is %s, and META.json says %s" % (folder, expected)
    for path in (tar, zipped):
        if re.sub(r"\.(?:tar\.gz|zip)$", "", os.path.basename(path)) != expected:
            yield "%s: META.json says %s" % (os.path.basename(path), expected)
    for name, provided in meta.get("provides", {}).items():
        if provided.get("version") != meta.get("version"):
            yield "META.json: %s has another version" % name
        for key in ("file", "docfile"):
            if provided.get(key) not in files:
                yield "META.json: %s of %s is not in the archive: %s" % (key, name, provided.get(key))
    for name in NEEDED:
        if name not in files:
            yield "missing: " + name
    for name in sorted(files):
        if UNWANTED.search(name):
            yield "does not belong here: " + name
        if not files[name] and not name.endswith((".in", "__init__.py", ".out", ".gitkeep")):
            yield "is empty: " + name


def section():
    with open(os.path.join(HERE, "../CHANGELOG.md"), encoding="utf-8") as f:
        return re.search(r"^## [^\n]*\n(.*?)(?=^## |\Z)", f.read(), re.M | re.S)[1].strip()


def described():
    with open(os.path.join(HERE, "../META.json"), encoding="utf-8") as f:
        return Project(f.read())


def tag():
    """git takes lines that begin with # out of a message; links lead nowhere there."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", section())
    return "atproto %s\n\n%s\n" % (described().version, re.sub(r"^#+ (.*)$", r"\1:", text, flags=re.M))


def prevents():
    project = described()
    if not project.address:
        yield "the public address is not known: release/project.py address URL MAINTAINER"
    if UNKNOWN in project.maintainer:
        yield "the maintainer has no address: release/project.py address URL MAINTAINER"
    if project.status != "stable":
        yield 'META.json: release_status is "%s"' % project.status
    with open(os.path.join(HERE, "../CHANGELOG.md"), encoding="utf-8") as f:
        if re.search(r"^## \S+ \(not released\)", f.read(), re.M):
            yield "CHANGELOG.md: the first section says (not released)"
    with open(os.path.join(HERE, "../debian/changelog"), encoding="utf-8") as f:
        if "UNRELEASED" in f.readline():
            yield "debian/changelog: the first entry says UNRELEASED"
    for name in ("upgrade/atproto--%s.sql" % project.sql, "test/data/state_of_%s.sql.gz" % project.sql.replace(".", "_")):
        if not os.path.exists(os.path.join(HERE, "..", name)):
            yield "%s is not there" % name
    with open(os.path.join(HERE, "../test/data/promised.txt"), encoding="utf-8") as f:
        if " of %s." % project.sql not in f.readline():
            yield "test/data/promised.txt: not the objects of %s (test/one promises)" % project.sql
    yield from project_faults(os.path.join(HERE, ".."), ["META.json", "atproto.control", "debian/control.in", "debian/control",
                                                          "debian/copyright", "debian/changelog", "CHANGELOG.md"])


def main():
    match sys.argv[1:]:
        case ["check", tar, zipped]:
            found = list(faults(tar, zipped))
            print("\n".join(found))
            sys.exit(1 if found else 0)
        case ["tag", out]:
            with open(out, "w", encoding="utf-8") as f:
                f.write(tag())
        case ["open"]:
            for fault in prevents():
                print(fault)
        case _:
            sys.exit(__doc__.strip())


if __name__ == "__main__":
    main()
