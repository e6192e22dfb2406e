#!/bin/bash
# The type dagcbor beside jsonb and DAG-CBOR: bytes of records as stored in a row, and the time to read fields and whole values.
# Every ratio comes from one run of one server that this script starts and throws away; figures are medians of RUNS, in turn.
#
#   bench/dagcbor.sh                print the results
#   bench/dagcbor.sh --write        also put them into bench/notes
#
# The records are those of a simulated network, with the mix of the real one: EVENTS (default 40000) commits of ACCOUNTS (default
# 5000) accounts.  ROWS (default 100000), RUNS (default 7), SEED (default 1) and PG_CONFIG come from the environment.  The
# extension must be installed: make bench does that.
set -euo pipefail
EVENTS=${EVENTS:-40000}
ACCOUNTS=${ACCOUNTS:-5000}
ROWS=${ROWS:-100000}
RUNS=${RUNS:-7}
SEED=${SEED:-1}
HERE=$(cd "$(dirname "$0")" && pwd)
LOAD=$(cut -d' ' -f1 /proc/loadavg)

. "$HERE/server"

"$HERE/../test/simulator/simulate" --events "$EVENTS" --accounts "$ACCOUNTS" --seed "$SEED" --no-sign --mix identity=0,account=0 --output "$W/capture"
start_server <<X
shared_buffers = 2GB
max_wal_size = 16GB
X
{
	echo "CREATE EXTENSION atproto; CREATE TABLE frame (bytes bytea);"
	echo "COPY frame FROM STDIN;"
	"${PYTHON:-python3}" "$HERE/frames.py" "$W/capture"
	echo '\.'
} | "${PSQL[@]}"
"${PSQL[@]}" -v runs="$RUNS" -v rows="$ROWS" -f "$HERE/dagcbor.sql" >"$W/tables"

{
	echo "## Dagcbor"
	echo
	echo "\`EVENTS=$EVENTS ACCOUNTS=$ACCOUNTS ROWS=$ROWS RUNS=$RUNS bench/dagcbor.sh\`: $(machine). Medians of one run; load of the machine before it: $LOAD."
	echo
	cat "$W/tables"
} >"$W/section"
cat "$W/section"
if [ "${1:-}" = --write ]; then
	"$HERE/put-section" "$W/section"
fi
