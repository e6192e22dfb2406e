"""Prints the frames of a capture as lines of a COPY to a column of bytea."""
import struct
import sys

data = open(sys.argv[1], "rb").read()
at = 0
while at < len(data):
    n = struct.unpack_from(">I", data, at)[0]
    print("\\\\x" + data[at + 4:at + 4 + n].hex())
    at += 4 + n
