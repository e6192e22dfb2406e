#!/bin/bash
# Links: ten million of them, of a network made in SQL (bench/events.sql) and of a
# million follows of one account.  How fast rebuild_links() makes them, how many bytes
# one takes, and how long the questions of doc/use/graph.md, and some of doc/use/cookbook.md, take.
#
#   bench/links.sh                  print the results
#   bench/links.sh --write          also put them into bench/notes
#
# RUNS (default 5), EVENTS (default 10230000: nine million links), FAMOUS (follows of
# the one account, default 1000000), PG_CONFIG (default pg_config) come from the
# environment.  The extension must be installed.  Times are the server process's on a
# processor (Linux's schedstat).
set -euo pipefail
RUNS=${RUNS:-5}
EVENTS=${EVENTS:-10230000}
FAMOUS=${FAMOUS:-1000000}
HERE=$(cd "$(dirname "$0")" && pwd)
LOAD=$(cut -d' ' -f1 /proc/loadavg)

. "$HERE/server"

start_server <<X
wal_level = minimal
max_wal_senders = 0
max_wal_size = 16GB
shared_buffers = 4GB
work_mem = 64MB
random_page_cost = 1.1
X
"${PSQL[@]}" -o /dev/null -c "CREATE EXTENSION atproto" -c "SELECT atproto.create_tables('atproto')"
"${PSQL[@]}" -v events="$EVENTS" -f "$HERE/events.sql"
"${PSQL[@]}" -v events="$EVENTS" -v runs="$RUNS" -v famous="$FAMOUS" -f "$HERE/links.sql" >"$W/table"

{
	echo "## Links"
	echo
	echo "\`EVENTS=$EVENTS FAMOUS=$FAMOUS RUNS=$RUNS bench/links.sh\`: $(machine). Medians of one run, of processor time; load of the machine before it: $LOAD."
	echo "Of a million events of the network 880,000 link. Links as they come: 4,096 in a statement, in the order of the key, the records in the order of their times. \`shared_buffers = 4GB\`, all in memory, after \`VACUUM\`."
	echo
	echo "| | | wanted |"
	echo "|---|---|---|"
	cat "$W/table"
} >"$W/section"
cat "$W/section"
if [ "${1:-}" = --write ]; then
	"$HERE/put-section" "$W/section"
fi
