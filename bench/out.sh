#!/bin/bash
# Repositories given out: how many records a second repo_car() and repo_car_chunks() write of one large repository,
# beside its audit; how long record_proof() takes in a repository of 100,000 records; and the most memory that
# repo_car_chunks() takes.  With the rows as an export leaves them, and scattered over the table as years of events do.
#
#   bench/out.sh                    print the results
#   bench/out.sh --write            also put them into bench/notes
#
# RUNS (default 5), RECORDS (of the large repository, default 1000000), PG_CONFIG (default pg_config) come from the
# environment.  The extension must be installed.  Times are the server process's on a processor (Linux's schedstat).
set -euo pipefail
RUNS=${RUNS:-5}
RECORDS=${RECORDS:-1000000}
HERE=$(cd "$(dirname "$0")" && pwd)
LOAD=$(cut -d' ' -f1 /proc/loadavg)

. "$HERE/server"

start_server <<X
shared_buffers = 4GB
max_wal_size = 8GB
X
"${PSQL[@]}" -v runs="$RUNS" -v records="$RECORDS" -f "$HERE/out.sql" >"$W/table"

# The memory that is the process's own, as often as the loop goes round.
PGAPPNAME=chunks "${PSQL[@]}" -c "SELECT sum(length(c)) FROM atproto.repo_car_chunks('did:web:large.example', 'scattered') c" >/dev/null &
client=$!
until pid=$("${PSQL[@]}" -c "SELECT pid FROM pg_stat_activity WHERE application_name = 'chunks'") && [ -n "$pid" ]; do kill -0 "$client"; done
most=0
while kill -0 "$client" 2>/dev/null; do
	now=$(awk '/^RssAnon/ {print $2}' "/proc/$pid/status" 2>/dev/null || true)
	[ "${now:-0}" -le "$most" ] || most=$now
done
wait "$client"

{
	echo "## Repositories given out"
	echo
	echo "\`RECORDS=$RECORDS RUNS=$RUNS bench/out.sh\`: $(machine). Medians of one run, of processor time, all rows in memory; load of the machine before it: $LOAD."
	echo "Records a second of one repository; milliseconds of \`record_proof()\` in a repository of 100,000 records."
	echo
	echo "| | \`repo_car()\` | \`repo_car_chunks()\` | \`audit()\` | proof, ms |"
	echo "|---|---|---|---|---|"
	cat "$W/table"
	echo
	echo "The most memory of the process during \`repo_car_chunks()\`: $((most / 1024)) MB (RssAnon, with what the session has anyway)."
} >"$W/section"
cat "$W/section"
if [ "${1:-}" = --write ]; then
	"$HERE/put-section" "$W/section"
fi
