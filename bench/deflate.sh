#!/bin/bash
# What permessage-deflate would save of a relay's frames and of a Jetstream's texts, and what each side would pay for it:
# deflate.c says how.  The captures are those of test/data, and a simulated network with the sizes of a production relay.
#
#   bench/deflate.sh            print the results
#
# test/simulator must be built (make -C test/simulator).  EVENTS, SEED and LEVEL (of zlib) come from the environment.
set -euo pipefail
EVENTS=${EVENTS:-20000}
SEED=${SEED:-1}
LEVEL=${LEVEL:-1}
root=$(cd "$(dirname "$0")/.." && pwd)
W=$(mktemp -d)
trap 'rm -rf "$W"' EXIT
"${CC:-cc}" -O2 -o "$W/deflate" "$root/bench/deflate.c" -lz
gzip -dc "$root/test/data/pds.frames.gz" >"$W/pds"
gzip -dc "$root/test/data/labels.frames.gz" >"$W/labels"
"$root/test/simulator/simulate" --seed "$SEED" --events "$EVENTS" --accounts 5000 --mix identity=0,account=0 --output "$W/network"
for of in pds network; do
	for version in v1 v2; do
		/usr/bin/python3 -B "$root/test/oracle/jetstream.py" "$version" "$W/$of" >"$W/$of.$version"
	done
done
echo "capture; messages, bytes a message; with the window kept: bytes, µs of the server, µs of the client; without: the same"
for name in pds network labels pds.v1 network.v1 pds.v2 network.v2; do
	echo "$name; $("$W/deflate" "$LEVEL" <"$W/$name")"
done
