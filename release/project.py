#!/usr/bin/env python3
"""The project's version, maintainer and address stand in META.json.  This program copies them to all other files.

    release/project.py                          copies META.json's version, maintainer and address
    release/project.py version 1.0.1            enters a version in META.json first
    release/project.py address https://forge.example/owner/atproto 'Name <name@example.org>'
                                                enters the address and the maintainer in META.json first
    release/project.py released                 takes what says "not released" out of META.json and both changelogs
    release/project.py show version             prints version, sql (the version of the SQL interface), maintainer or address

The other files are atproto.control, debian/control.in, debian/control, debian/copyright and the newest entry of
debian/changelog.  The heading of CHANGELOG.md is compared only, because a person writes the section.
`make lint` (tree) names each file that differs.
"""
import datetime
import email.utils
import json
import os
import re
import sys
import time

META = "META.json"
ADDRESS = re.compile(r"https://[^\s\"<>]+[^\s\"<>/]")
MAINTAINER = re.compile(r"[^<>\"\n]+ <[^<>@\s\"]+@[^<>@\s\"]+>")
VERSION = re.compile(r"\d+\.\d+\.\d+")
UNKNOWN = "maintainers@atproto.invalid"


def now():
    """The present time, or that of SOURCE_DATE_EPOCH, as debian/changelog has it."""
    seconds = float(os.environ.get("SOURCE_DATE_EPOCH") or time.time())
    return email.utils.format_datetime(datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc))


class Project:
    """What META.json says."""

    def __init__(self, text):
        meta = json.loads(text)
        self.version = meta["version"]
        self.sql = ".".join(self.version.split(".")[:2])
        maintainer = meta.get("maintainer", "")
        self.maintainer = maintainer if MAINTAINER.fullmatch(maintainer) else "%s <%s>" % (maintainer or "atproto maintainers", UNKNOWN)
        self.address = meta.get("resources", {}).get("homepage")
        self.status = meta.get("release_status")

    def lines(self, form):
        """The lines of a Debian file that contain the address; none while the address is unknown."""
        return form.replace("%", self.address) if self.address else ""

    def control(self, text):
        text = re.sub(r"^(Homepage|Vcs-\w+): .*\n", "", text, flags=re.M)
        return re.sub(r"^Maintainer: .*\n", lambda m: "Maintainer: %s\n%s" % (
            self.maintainer, self.lines("Homepage: %\nVcs-Git: %.git\nVcs-Browser: %\n")), text, flags=re.M)

    def copyright(self, text):
        text = re.sub(r"^(Source|Upstream-Contact): .*\n", "", text, flags=re.M)
        return re.sub(r"^(Upstream-Name: .*\n)", lambda m: m[1] + self.lines("Source: %\n"), text, flags=re.M)

    def changelog(self, text):
        """An entry that is not released takes the version and the maintainer; else a new entry begins."""
        first, rest = re.match(r"(.*?\n -- .*?\n)(.*)\Z", text, re.S).groups()
        version, state = re.match(r"atproto \((\S+)-\d+\) (\S+);", first).groups()
        if state != "UNRELEASED":
            if version == self.version:
                return text
            rest = "\n" + text
            first = "atproto (%s-1) UNRELEASED; urgency=medium\n\n  * New version: see CHANGELOG.md.\n\n -- x  %s\n" % (
                self.version, now())
        first = re.sub(r"^atproto \(\S+?-", "atproto (%s-" % self.version, first)
        return re.sub(r"^ -- .*?  ", lambda m: " -- %s  " % self.maintainer, first, flags=re.M) + rest

    def extension(self, text):
        return re.sub(r"^default_version = .*", "default_version = '%s'" % self.sql, text, flags=re.M)

    def image(self, text):
        return re.sub(r"\b((?:postgres-)?atproto[:-])\d+\.\d+\.\d+-", r"\g<1>%s-" % self.version, text)

    def meta(self, text):
        return re.sub(r'^(\s+"version": )"\d+\.\d+\.\d+"', r'\1"%s"' % self.version, text.replace('"meta-spec": {\n        "version"', "\0"),
                      flags=re.M).replace("\0", '"meta-spec": {\n        "version"')


# The files with a copy, and the function that makes each of them.
COPIES = (("META.json", Project.meta), ("atproto.control", Project.extension), ("debian/control.in", Project.control),
          ("debian/control", Project.control), ("debian/copyright", Project.copyright), ("debian/changelog", Project.changelog),
          ("contrib/docker/README.md", Project.image))


def read(root, name):
    with open(os.path.join(root, name), encoding="utf-8") as f:
        return f.read()


def write(name, text):
    if read(".", name) != text:
        with open(name, "w", encoding="utf-8") as f:
            f.write(text)


def faults(root, files):
    """The files of root that differ from its META.json."""
    if META not in files:
        return
    project = Project(read(root, META))
    for name, made in COPIES:
        if name in files and made(project, read(root, name)) != read(root, name):
            yield "%s: the version, the maintainer or the address differs from META.json (release/project.py copies them)" % name
    if "CHANGELOG.md" in files:
        newest = re.search(r"^## (\S+)", read(root, "CHANGELOG.md"), re.M)
        if not newest or newest[1] != project.version:
            yield "CHANGELOG.md: the first section is not of version %s, as META.json says" % project.version


def enter_version(version):
    text = read(".", META)
    if Project(text).version != version:
        text = re.sub(r'^(    "release_status": )".*?"', r'\1"unstable"', text, flags=re.M)
    write(META, re.sub(r'^(    "version": )".*?"', r'\1"%s"' % version, text, flags=re.M))


def enter_address(address, maintainer):
    resources = '''"resources": {
        "homepage": "%s",
        "bugtracker": { "web": "%s/issues" },
        "repository": { "url": "%s.git", "web": "%s", "type": "git" }
    }''' % (address, address, address, address)
    text = re.sub(r'^    "resources": \{.*?^    \},\n', "", read(".", META), flags=re.M | re.S)
    text = re.sub(r'^    "maintainer": .*\n', lambda m: '    "maintainer": %s,\n    %s,\n' % (json.dumps(maintainer), resources), text, flags=re.M)
    json.loads(text)
    write(META, text)


def enter_release():
    """The version is released: META.json and both changelogs say so, debian/changelog with the time of the release."""
    write(META, re.sub(r'^(    "release_status": )".*?"', r'\1"stable"', read(".", META), flags=re.M))
    write("CHANGELOG.md", re.sub(r"^(## \S+) \(not released\)$", r"\1", read(".", "CHANGELOG.md"), count=1, flags=re.M))
    write("debian/changelog", re.sub(r"\A(atproto \(\S+\)) UNRELEASED;(.*?\n -- [^\n]*>  )[^\n]*", lambda m: "%s unstable;%s%s" % (m[1], m[2], now()),
                                     read(".", "debian/changelog"), flags=re.S))


def main():
    match sys.argv[1:]:
        case []:
            pass
        case ["released"]:
            enter_release()
        case ["show", ("version" | "sql" | "maintainer" | "address") as what]:
            print(getattr(Project(read(".", META)), what) or "")
            return
        case ["version", version] if VERSION.fullmatch(version):
            enter_version(version)
        case ["address", address, maintainer] if ADDRESS.fullmatch(address) and MAINTAINER.fullmatch(maintainer):
            enter_address(address, maintainer)
        case _:
            sys.exit(__doc__.strip())
    project = Project(read(".", META))
    for name, made in COPIES:
        write(name, made(project, read(".", name)))


if __name__ == "__main__":
    main()
