#!/bin/bash
# The data model: frames to checked records in C, and DAG-CBOR to jsonb against
# PostgreSQL's own reader of JSON.  Every ratio comes from one run of one server
# that this script starts and throws away; figures are medians.
#
#   bench/data.sh                   print the results
#   bench/data.sh --write           also put them into bench/notes
#
# RUNS (default 5), ROWS (default 200000), PG_CONFIG (default pg_config), CC come
# from the environment.  The extension must be installed.
set -euo pipefail
RUNS=${RUNS:-5}
ROWS=${ROWS:-200000}
HERE=$(cd "$(dirname "$0")" && pwd)
LOAD=$(cut -d' ' -f1 /proc/loadavg)

. "$HERE/server"

# Frames of about 5 kB, without a server.
gzip -dc "$HERE/../test/data/pds.frames.gz" >"$W/capture"
build() {
	${CC:-cc} -std=gnu11 -O2 -DATP_SECP256K1 -I"$HERE/shim" -I"$HERE/../src" -I"$HERE/../test" -o "$W/$1" "$HERE/$1.c" "$HERE/made_frame.c" "$HERE"/../src/core/*.c "$HERE"/../src/core/*/*.c \
		"$HERE"/../test/protocol/*.c "$HERE/../src/data/jsonb_image.c" "$HERE/../src/common/sha256.c" "$HERE/../src/common/signature.c" -lcbor -lcrypto -lsecp256k1
}
build make_frames
build frames
build texts
"$W/make_frames" 60000 300 >"$W/made"
"$W/frames" "$W/made" 0 100000 >"$W/made.txt"
"$W/frames" "$W/capture" 4000 6500 >"$W/captured.txt"
/usr/bin/python3 "$HERE/../test/oracle/jetstream.py" v1 "$HERE/../test/data/pds.frames.gz" >"$W/lines"
"$W/texts" "$W/lines" >"$W/texts.txt"
for percent in 0 100; do
	"$HERE/../test/simulator/simulate" --events 3000 --accounts 500 --p256 $percent --directory "$W/directory" --output "$W/simulated"
	"$W/frames" "$W/simulated" 0 100000 "$W/directory/keys" | grep -v jsonb >"$W/verified$percent.txt"
done

start_server <<X
shared_buffers = 1GB
X
{
	echo "CREATE EXTENSION atproto; CREATE TABLE frame (bytes bytea);"
	echo "COPY frame FROM STDIN;"
	python3 "$HERE/frames.py" "$W/capture"
	echo '\.'
} | "${PSQL[@]}"
"${PSQL[@]}" -v runs="$RUNS" -v rows="$ROWS" -f "$HERE/data.sql" >"$W/table"

{
	echo "## Data"
	echo
	echo "\`ROWS=$ROWS RUNS=$RUNS bench/data.sh\`: $(machine). Medians of one run; load of the machine before it: $LOAD."
	echo
	echo "From frames to records, in C, on one core. First, frames as \`make_frames\` makes them: one post of a repository with 60,000 posts each."
	echo
	echo '```'
	cat "$W/made.txt"
	echo '```'
	echo
	echo "Then, those of a capture: small repositories, several records a frame."
	echo
	echo '```'
	cat "$W/captured.txt"
	echo '```'
	echo
	echo "Jetstream's texts, likes: at most 3 µs were wanted from JSON to the CID, and 1 µs for an event of another slice, which takes the head alone."
	echo
	echo '```'
	cat "$W/texts.txt"
	echo '```'
	echo
	echo "What is verified at level \`full\`, with keys that have been used before: first k256, then P-256; commits of the simulator."
	echo
	echo '```'
	cat "$W/verified0.txt" "$W/verified100.txt"
	echo '```'
	echo
	echo "Microseconds a value, the scan of the table subtracted; the ratio is the extension's figure divided by the other one:"
	echo
	echo "| what | extension | compared with | ratio | wanted |"
	echo "|---|---|---|---|---|"
	cat "$W/table"
} >"$W/section"
cat "$W/section"
if [ "${1:-}" = --write ]; then
	"$HERE/put-section" "$W/section"
fi
