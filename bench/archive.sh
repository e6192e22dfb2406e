#!/bin/bash
# The blocks of a Jetstream's archive, from compressed frames to rows with CIDs and checked records, on one core, without a
# server: archive.c says how, and what the floor is.
#
#   bench/archive.sh                print the results
#   bench/archive.sh --write        also put them into bench/notes
#
# test/simulator must be built (make -C test/simulator).  EVENTS (default 20000) and CC come from the environment.
set -euo pipefail
EVENTS=${EVENTS:-20000}
HERE=$(cd "$(dirname "$0")" && pwd)
LOAD=$(cut -d' ' -f1 /proc/loadavg)
W=$(mktemp -d)
trap 'rm -rf "$W"' EXIT
${CC:-cc} -std=gnu11 -O2 -I"$HERE/shim" -I"$HERE/../src" -I"$HERE/../test" -o "$W/archive" "$HERE"/{archive,made,made_block}.c "$HERE"/../src/core/*.c "$HERE"/../src/core/*/*.c \
	"$HERE"/../test/protocol/*.c "$HERE/../src/data/jsonb_image.c" "$HERE/../src/common/sha256.c" "$HERE/../src/net/unzstd.c" "$HERE/../src/net/drop.c" -lcbor -lcrypto -lzstd
"$HERE/../test/simulator/simulate" --seed 1 --events "$EVENTS" --accounts 5000 --output "$W/network"
gzip -dc "$HERE/../test/data/pds.frames.gz" >"$W/pds"
{
	echo "## Archive"
	echo
	echo "\`EVENTS=$EVENTS bench/archive.sh\`: $(uname -sr), $(nproc) processors ($(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1)), $(date -u +%Y-%m-%d). Medians of one run; load of the machine before it: $LOAD."
	echo
	echo "Blocks of 4,096 rows, compressed at libzstd's default level. First, records of a simulated network; then of a captured PDS."
	echo
	echo '```'
	"$W/archive" "$W/network"
	echo
	"$W/archive" "$W/pds"
	echo '```'
} >"$W/section"
cat "$W/section"
if [ "${1:-}" = --write ]; then
	"$HERE/put-section" "$W/section"
fi
