#!/bin/bash
# Exports into tables: how many records a second become rows, beside COPY of the same
# rows, and how many are found to be equal.  Repositories of 430 records, the
# network's mean, and one large one.
#
#   bench/exports.sh                  print the results
#   bench/exports.sh --write          also put them into bench/notes
#
# RUNS (default 5), REPOS (default 500), RECORDS (of the large one, default 200000),
# PG_CONFIG (default pg_config), PYTHON (default python3, with cbor2) come from the environment.  The extension
# must be installed.  Times are the server process's on a processor (Linux's schedstat).
set -euo pipefail
RUNS=${RUNS:-5}
REPOS=${REPOS:-500}
RECORDS=${RECORDS:-200000}
HERE=$(cd "$(dirname "$0")" && pwd)
LOAD=$(cut -d' ' -f1 /proc/loadavg)

. "$HERE/server"

start_server <<X
shared_buffers = 2GB
max_wal_size = 8GB
X
mkdir -p "$W/export"
"${PYTHON:-python3}" -B "$HERE/../test/oracle/export.py" --many "$REPOS" 430 "$RECORDS" "$W/export"
chmod -R a+rX "$W/export"
"${PSQL[@]}" -v runs="$RUNS" -v dir="$W/export" -f "$HERE/exports.sql" >"$W/table"

{
	echo "## Exports"
	echo
	echo "\`REPOS=$REPOS RECORDS=$RECORDS RUNS=$RUNS bench/exports.sh\`: $(machine). Medians of one run, of processor time; load of the machine before it: $LOAD."
	echo "The bytes are read, hashed and checked in each of them; \`COPY\` has the same rows as text, into the same table. The last column is its time divided by the export's."
	echo
	echo "| | records | records/s | MB/s of export | COPY, rows/s | ratio |"
	echo "|---|---|---|---|---|---|"
	cat "$W/table"
} >"$W/section"
cat "$W/section"
if [ "${1:-}" = --write ]; then
	"$HERE/put-section" "$W/section"
fi
