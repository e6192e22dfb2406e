#!/usr/bin/env python3
"""Makes an archive that `docker load` and `podman load` read from a root directory: one layer, and the configuration.

    image.py ROOT MAJOR ARCH ARCHIVE.tar
    image.py health ARCHIVE.tar            prints the command of the health check, a line of sh
    image.py check ARCHIVE.tar             prints what is wrong with an archive

The same root directory gives the same bytes: all times are those of the last commit.
"""
import gzip
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))


def health():
    """The check of the Dockerfile."""
    with open(os.path.join(HERE, "..", "Dockerfile"), encoding="utf-8") as f:
        text = f.read().replace("\\\n", "")
    options, command = re.search(r"^HEALTHCHECK ((?:--\S+ +)*)CMD (.*)$", text, re.M).groups()
    found = {name: int(number) for name, number in re.findall(r"--([a-z-]+)=(\d+)", options)}
    return {"Test": ["CMD-SHELL", command.strip()], "Interval": found["interval"] * 10**9, "Timeout": found["timeout"] * 10**9,
            "Retries": found["retries"]}


def shown(what):
    return subprocess.run([os.path.join(HERE, "project.py"), "show", what], cwd=os.path.join(HERE, ".."), check=True,
                          capture_output=True, text=True).stdout.strip()


def configuration(major, arch, layer, seconds):
    labels = {"org.opencontainers.image.title": "atproto", "org.opencontainers.image.version": shown("version"),
              "org.opencontainers.image.description": "PostgreSQL %s with the extension atproto" % major,
              "org.opencontainers.image.licenses": "PostgreSQL"}
    if shown("address"):
        labels["org.opencontainers.image.source"] = shown("address")
    created = subprocess.run(["date", "-u", "-d", "@%d" % seconds, "+%Y-%m-%dT%H:%M:%SZ"], check=True, capture_output=True, text=True).stdout.strip()
    return {
        "architecture": arch, "os": "linux", "created": created,
        "config": {
            "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/usr/lib/postgresql/%s/bin" % major,
                    "LANG=en_US.utf8", "PG_MAJOR=%s" % major, "PGDATA=/var/lib/postgresql/data"],
            "Entrypoint": ["docker-entrypoint.sh"], "Cmd": ["postgres", "-c", "shared_preload_libraries=atproto"],
            "ExposedPorts": {"5432/tcp": {}}, "Volumes": {"/var/lib/postgresql/data": {}}, "StopSignal": "SIGINT",
            "Healthcheck": health(), "Labels": labels},
        "rootfs": {"type": "layers", "diff_ids": ["sha256:" + layer]},
        "history": [{"created": created, "created_by": "release/image"}]}


def digest(path):
    with open(path, "rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest()


def make(root, major, arch, archive):
    seconds = int(os.environ.get("SOURCE_DATE_EPOCH") or subprocess.run(
        ["git", "-C", HERE, "log", "-1", "--format=%ct"], check=True, capture_output=True, text=True).stdout)
    with tempfile.TemporaryDirectory(dir=os.path.dirname(archive)) as work:
        layer = os.path.join(work, "layer.tar")
        subprocess.run(["tar", "-C", root, "--sort=name", "--mtime=@%d" % seconds, "--numeric-owner", "--format=posix",
                        "--pax-option=exthdr.name=%d/PaxHeaders/%f,delete=atime,delete=ctime", "--exclude=./dev/*", "--exclude=./proc/*",
                        "--exclude=./sys/*", "-cf", layer, "."], check=True)
        name = digest(layer)
        config = json.dumps(configuration(major, arch, name, seconds), indent=1, sort_keys=True).encode()
        config_name = hashlib.sha256(config).hexdigest() + ".json"
        manifest = json.dumps([{"Config": config_name, "RepoTags": ["postgres-atproto:%s-%s" % (shown("version"), major)],
                                "Layers": [name + ".tar.gz"]}]).encode()
        packed = layer + ".gz"
        with open(layer, "rb") as f, open(packed, "wb") as plain, gzip.GzipFile("", "wb", 6, plain, 0) as out:
            shutil.copyfileobj(f, out, 1 << 20)
        with tarfile.open(archive, "w") as out:
            for inner, content in ((config_name, config), ("manifest.json", manifest)):
                entry = tarfile.TarInfo(inner)
                entry.size, entry.mtime = len(content), seconds
                out.addfile(entry, io.BytesIO(content))
            entry = tarfile.TarInfo(name + ".tar.gz")
            entry.size, entry.mtime = os.path.getsize(packed), seconds
            with open(packed, "rb") as f:
                out.addfile(entry, f)


def parts(archive):
    """The manifest, the configuration, and for each file of the archive the digest, of a layer without the compression."""
    digests, texts = {}, {}
    with tarfile.open(archive) as packed:
        for entry in packed:
            f = packed.extractfile(entry)
            if entry.name.endswith(".json"):
                texts[entry.name] = f.read()
                digests[entry.name] = hashlib.sha256(texts[entry.name]).hexdigest()
            else:
                digests[entry.name] = hashlib.file_digest(gzip.GzipFile(fileobj=f), "sha256").hexdigest()
    manifest = json.loads(texts["manifest.json"])[0]
    return manifest, json.loads(texts[manifest["Config"]]), digests


def faults(archive):
    manifest, config, digests = parts(archive)
    if manifest["Config"] != digests[manifest["Config"]] + ".json":
        yield "the name of the configuration is not its digest"
    if config["rootfs"]["diff_ids"] != ["sha256:" + digests.get(layer, "") for layer in manifest["Layers"]]:
        yield "the layers are not those of the configuration"
    if not config["config"].get("Healthcheck", {}).get("Test"):
        yield "the image has no health check"
    if config["config"].get("StopSignal") != "SIGINT":
        yield "the server would wait for its clients before it stops"


def main():
    if sys.argv[1:2] == ["health"] and len(sys.argv) == 3:
        print(parts(sys.argv[2])[1]["config"]["Healthcheck"]["Test"][1])
    elif sys.argv[1:2] == ["check"] and len(sys.argv) == 3:
        found = list(faults(sys.argv[2]))
        print("\n".join(found))
        sys.exit(1 if found else 0)
    elif len(sys.argv) == 5:
        make(*sys.argv[1:4], os.path.abspath(sys.argv[4]))
    else:
        sys.exit(__doc__.strip())


if __name__ == "__main__":
    main()
