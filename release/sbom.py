#!/usr/bin/env python3
"""Makes a list of the parts of an image (SBOM, CycloneDX 1.5) from the packages of its root directory.

    sbom.py ROOT PACKAGES OUT.json        PACKAGES: lines "name version architecture", which release/image writes
    sbom.py check ROOT OUT.json           prints what is wrong with a list

A program that knows which versions of which packages have a fault reads this list.
"""
import json
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def shown(what):
    return subprocess.run([os.path.join(HERE, "project.py"), "show", what], cwd=os.path.join(HERE, ".."), check=True,
                          capture_output=True, text=True).stdout.strip()


def suite(root):
    with open(os.path.join(root, "etc/os-release"), encoding="utf-8") as f:
        return re.search(r"^VERSION_CODENAME=(\S+)", f.read(), re.M)[1]


def installed(root):
    """For each installed package the packages that it depends on, as dpkg knows them; provided names count."""
    with open(os.path.join(root, "var/lib/dpkg/status"), encoding="utf-8") as f:
        paragraphs = [dict(re.findall(r"^(\S+): (.*)$", text, re.M)) for text in f.read().split("\n\n")]
    paragraphs = [p for p in paragraphs if p.get("Status", "").endswith(" installed")]
    provider = {}
    for paragraph in paragraphs:
        for name in re.findall(r"(?:^|, )([a-z0-9.+-]+)", paragraph.get("Provides", "")) + [paragraph["Package"]]:
            provider[name] = paragraph["Package"]
    needs = {}
    for paragraph in paragraphs:
        names = re.findall(r"(?:^|[,|] *)([a-z0-9.+-]+)", ", ".join(filter(None, (paragraph.get("Pre-Depends"), paragraph.get("Depends")))))
        needs[paragraph["Package"]] = sorted({provider[name] for name in names if name in provider} - {paragraph["Package"]})
    return needs


def make(root, packages, out):
    with open(packages, encoding="utf-8") as f:
        rows = [line.split() for line in f]
    distribution = suite(root)
    reference = {name: "pkg:deb/debian/%s@%s?arch=%s&distro=%s" % (name, version.replace("+", "%2B").replace(":", "%3A"), arch, distribution)
                 for name, version, arch in rows}
    ours = next(name for name in reference if re.fullmatch(r"postgresql-\d+-atproto", name))
    about = {"type": "container", "bom-ref": "image", "name": "postgres-atproto", "version": shown("version")}
    if shown("address"):
        about["externalReferences"] = [{"type": "vcs", "url": shown("address")}]
    components = [{"type": "library", "bom-ref": reference[name], "name": name, "version": version, "purl": reference[name],
                   **({"licenses": [{"license": {"id": "PostgreSQL"}}]} if name == ours else {})} for name, version, _ in rows]
    needs = installed(root)
    with open(out, "w", encoding="utf-8") as f:
        json.dump({"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1, "metadata": {"component": about}, "components": components,
                   "dependencies": [{"ref": "image", "dependsOn": sorted(reference.values())}] +
                   [{"ref": reference[name], "dependsOn": [reference[n] for n in needs[name]]} for name in sorted(reference)]}, f, indent=1)


def libraries(root):
    """The libraries that the extension's library is linked with, and the package of each."""
    for folder, _, files in os.walk(os.path.join(root, "usr/lib/postgresql")):
        if "atproto.so" in files:
            dump = subprocess.run(["objdump", "-p", os.path.join(folder, "atproto.so")], check=True, capture_output=True, text=True).stdout
            for library in re.findall(r"NEEDED\s+(\S+)", dump):
                found = subprocess.run(["grep", "-rlE", r"/%s$" % re.escape(library), os.path.join(root, "var/lib/dpkg/info"),
                                        "--include=*.list"], capture_output=True, text=True).stdout.split()
                yield library, {os.path.basename(path).split(":")[0].removesuffix(".list") for path in found}


def faults(root, path):
    with open(path, encoding="utf-8") as f:
        bom = json.load(f)
    references = [c["bom-ref"] for c in bom["components"]]
    names = {c["name"] for c in bom["components"]}
    if (bom.get("bomFormat"), bom.get("specVersion")) != ("CycloneDX", "1.5"):
        yield "no CycloneDX 1.5"
    if len(set(references)) != len(references):
        yield "two parts have the same reference"
    missing = set(installed(root)) - names
    if missing:
        yield "missing: " + ", ".join(sorted(missing))
    for dependency in bom["dependencies"]:
        for reference in [dependency["ref"], *dependency["dependsOn"]]:
            if reference != "image" and reference not in references:
                yield "a dependency names %s, which is no part" % reference
    linked = list(libraries(root))
    if not linked:
        yield "the root directory has no atproto.so"
    for library, owners in linked:
        if not owners & names:
            yield "the library %s of the extension belongs to no part" % library


def main():
    if sys.argv[1:2] == ["check"] and len(sys.argv) == 4:
        found = list(faults(sys.argv[2], sys.argv[3]))
        print("\n".join(found))
        sys.exit(1 if found else 0)
    if len(sys.argv) != 4:
        sys.exit(__doc__.strip())
    make(*sys.argv[1:])


if __name__ == "__main__":
    main()
