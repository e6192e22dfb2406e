#!/bin/bash
# Audits: how many records a second are compared with what the accounts signed,
# beside a count of the same rows.  Repositories of 430 records, the network's mean,
# and one large one; with the rows as an export leaves them, and scattered over the
# table as years of events do.
#
#   bench/audit.sh                  print the results
#   bench/audit.sh --write          also put them into bench/notes
#
# RUNS (default 5), REPOS (default 2000), RECORDS (of the large one, default
# 1000000), PG_CONFIG (default pg_config) come from the environment.  The extension
# must be installed.  Times are the server process's on a processor (Linux's schedstat).
set -euo pipefail
RUNS=${RUNS:-5}
REPOS=${REPOS:-2000}
RECORDS=${RECORDS:-1000000}
HERE=$(cd "$(dirname "$0")" && pwd)
LOAD=$(cut -d' ' -f1 /proc/loadavg)

. "$HERE/server"

start_server <<X
shared_buffers = 4GB
work_mem = 256MB
max_wal_size = 8GB
X
"${PSQL[@]}" -v runs="$RUNS" -v repos="$REPOS" -v records="$RECORDS" -f "$HERE/audit.sql" >"$W/table"

{
	echo "## Audits"
	echo
	echo "\`REPOS=$REPOS RECORDS=$RECORDS RUNS=$RUNS bench/audit.sh\`: $(machine). Medians of one run, of processor time, all rows in memory; load of the machine before it: $LOAD."
	echo "The count is \`SELECT count(cid)\` of the same rows; the last column is its time divided by the audit's."
	echo
	echo "| | rows | audit, records/s | count, rows/s | ratio |"
	echo "|---|---|---|---|---|"
	cat "$W/table"
	cat <<-X

		An audit hashes each key and its share of the nodes, and looks each row up through the index, in the order of the tree: where the rows of a repository lie side by side, that is a
		million records a second and more. Scattered, nearly every row is on a page of its own, and finding it takes most of the time; the count is not slowed so because it reads the
		pages in their order.
	X
} >"$W/section"
cat "$W/section"
if [ "${1:-}" = --write ]; then
	"$HERE/put-section" "$W/section"
fi
