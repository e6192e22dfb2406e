#!/usr/bin/env python3
"""The fuzz targets' inputs: one file for each target, test/fuzz/corpus/NAME.inputs.

    corpus.py unpack NAME DIR       each input as a file, as libFuzzer wants them
    corpus.py pack NAME DIR         the files of DIR become the target's inputs
    corpus.py add NAME FILE...      more inputs: of a crash, or written by hand

The format is that of captures (test/data): each input with its length before it, four bytes,
big-endian.  The shortest come first, each once, so that the same inputs are always the same
file.  A file that was unpacked is named by its input's SHA-1, as libFuzzer names what it finds.
When two branches have added inputs: unpack the file of each into one directory, and pack that.
"""
import gzip
import hashlib
import os
import struct
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def inputs_file(target):
    if not os.path.exists(os.path.join(HERE, "fuzz_%s.c" % target)):
        sys.exit("corpus.py: there is no target %s" % target)
    return os.path.join(HERE, "corpus", target + ".inputs")


def read_packed(path):
    """The inputs of a packed file, or the messages of a capture."""
    with (gzip.open if path.endswith(".gz") else open)(path, "rb") as f:
        while head := f.read(4):
            length = int.from_bytes(head, "big")
            data = f.read(length)
            if len(head) != 4 or len(data) != length:
                sys.exit("corpus.py: %s is cut short" % path)
            yield data


def write_packed(path, inputs):
    with open(path, "wb") as f:
        for data in sorted(set(inputs), key=lambda data: (len(data), data)):
            f.write(struct.pack(">I", len(data)) + data)


def read_input(path):
    with open(path, "rb") as f:
        return f.read()


def write_input(directory, data):
    os.makedirs(directory, exist_ok=True)
    with open(os.path.join(directory, hashlib.sha1(data).hexdigest()), "wb") as f:
        f.write(data)


def main():
    if len(sys.argv) < 4 or sys.argv[1] not in ("unpack", "pack", "add"):
        sys.exit(__doc__)
    command, target, *names = sys.argv[1:]
    path = inputs_file(target)
    present = list(read_packed(path)) if os.path.exists(path) else []
    if command == "unpack":
        os.makedirs(names[0], exist_ok=True)
        for data in present:
            write_input(names[0], data)
    elif command == "pack":
        write_packed(path, (read_input(entry.path) for entry in os.scandir(names[0])))
    else:
        write_packed(path, present + [read_input(name) for name in names])


if __name__ == "__main__":
    main()
