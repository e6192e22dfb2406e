#!/bin/bash
# The identifier types against text, uuid and a regular expression: size, index
# build, scans, joins, input, and ranges.  Every ratio comes from one run of one
# server that this script starts and throws away; figures are medians of the
# server process's time on a processor (from Linux's schedstat).
#
#   bench/types.sh                  print the table
#   bench/types.sh --write          also put it into bench/notes
#
# ROWS (default 5000000), RUNS (default 3), PG_CONFIG (default pg_config) come
# from the environment.  The extension must be installed.
set -euo pipefail
ROWS=${ROWS:-5000000}
RUNS=${RUNS:-3}
HERE=$(cd "$(dirname "$0")" && pwd)

. "$HERE/server"

start_server <<X
wal_level = minimal
max_wal_senders = 0
max_wal_size = 16GB
shared_buffers = 1GB
work_mem = 512MB
maintenance_work_mem = 1GB
X

"${PSQL[@]}" -v rows="$ROWS" -f "$HERE/types-data.sql"
"${PSQL[@]}" -v runs="$RUNS" -f "$HERE/types.sql" >"$W/table"

{
	echo "## Types"
	echo
	echo "\`ROWS=$ROWS RUNS=$RUNS bench/types.sh\`: $(machine). Medians, in milliseconds of processor time unless another unit is named;" \
		"the ratio is the extension's figure divided by the other one."
	echo
	echo "| what | extension | compared with | ratio | wanted |"
	echo "|---|---|---|---|---|"
	cat "$W/table"
} >"$W/section"
cat "$W/section"

if [ "${1:-}" = --write ]; then
	"$HERE/put-section" "$W/section"
fi
