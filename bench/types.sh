#!/bin/bash
# The identifier types against text, uuid and a regular expression: size, index
# build, scans, joins, input, and ranges.  Every ratio comes from one run of one
# server that this script starts and throws away; figures are medians of the
# server process's time on a processor (from Linux's schedstat).
#
#   bench/types.sh                  print the table
#   bench/types.sh --write          also put it into bench/README.md
#
# ROWS (default 5000000), RUNS (default 3), PG_CONFIG (default pg_config) come
# from the environment.  The extension must be installed.
set -euo pipefail
ROWS=${ROWS:-5000000}
RUNS=${RUNS:-3}
PG_CONFIG=${PG_CONFIG:-pg_config}
BIN=$("$PG_CONFIG" --bindir)
HERE=$(cd "$(dirname "$0")" && pwd)
W=$(mktemp -d /tmp/atpb.XXXXXX)

if [ "$(id -u)" = 0 ]; then
	chown postgres: "$W"
	as() { runuser -u postgres -- "$@"; }
else
	as() { "$@"; }
fi
cleanup() {
	as "$BIN/pg_ctl" -D "$W/data" -m immediate -w stop >/dev/null 2>&1 || true
	rm -rf "$W"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

cd "$W"
as "$BIN/initdb" -D "$W/data" -U postgres -A trust -N -E UTF8 --locale=C.UTF-8 >/dev/null
as tee -a "$W/data/postgresql.conf" >/dev/null <<X
listen_addresses = ''
unix_socket_directories = '$W'
fsync = off
autovacuum = off
wal_level = minimal
max_wal_senders = 0
max_wal_size = 16GB
shared_buffers = 1GB
work_mem = 512MB
maintenance_work_mem = 1GB
max_parallel_workers_per_gather = 0
max_parallel_maintenance_workers = 0
jit = off
X
as "$BIN/pg_ctl" -D "$W/data" -l "$W/log" -w start >/dev/null
PSQL=("$BIN/psql" -h "$W" -U postgres -X -q -At -v ON_ERROR_STOP=1)

"${PSQL[@]}" -v rows="$ROWS" -f "$HERE/types-data.sql"
"${PSQL[@]}" -v runs="$RUNS" -f "$HERE/types.sql" >"$W/table"

{
	echo "## Types"
	echo
	echo "\`ROWS=$ROWS RUNS=$RUNS bench/types.sh\`: PostgreSQL $("${PSQL[@]}" -c 'SHOW server_version' | cut -d' ' -f1)," \
		"$(nproc) cores, $(date +%Y-%m-%d). Medians, in milliseconds of processor time unless another unit is named;" \
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
